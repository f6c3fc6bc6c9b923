/**
 * Compaction copies the live records of packs with many dead ones into a new pack, and updates their rows (core/packs/README.md). It
 * may end at any instant: the new pack is durable before any row names it, and a row moves only if it still names the old place.
 */
import {
  DAY_MS,
  encodePackHeader,
  encodeRecordHeader,
  type Hash,
  PACK_HEADER_BYTES,
  PACK_RECORDS_MAX,
  RECORD_HEADER_BYTES,
} from '@holdfast/protocol';
import { batchesOf } from '../batches.ts';
import { isProofOfRot } from '../contents.ts';
import type { Core } from '../core.ts';
import type { ContentRow, Generation, PackPlace, Space } from '../model.ts';
import type { PackRow } from '../pack-model.ts';
import type { RecordMove } from '../pack-ports.ts';
import type { SpaceTransaction } from '../ports.ts';
import { orIfDamaged, StoreUnavailable } from '../store-failure.ts';
import {
  createOwnPackGeneration,
  type GroupOfMoves,
  makeOwnPack,
  moveInGroups,
  takesRecords,
} from './own-packs.ts';

const BATCH_RECORDS_MAX = 64;

export interface CompactionStep {
  /** bytes read and written; the caller paces the next step by them */
  readonly bytes: number;
  /** records that have a new place */
  readonly moved: number;
}

interface Placed {
  readonly content: ContentRow;
  readonly place: PackPlace;
}

/** Each batch is of one pack. */
const NEAR = {
  itemsMax: BATCH_RECORDS_MAX,
  // A batch is hashed before requests have their turn.
  bytesMax: 256 * 1024,
  bytesOf: ({ place }: Placed): number => place.storedLength,
  fits: (first: Placed, { place }: Placed): boolean => place.pack === first.place.pack,
};

interface LiveRecord extends Placed {
  readonly hash: Hash;
}

/**
 * One bounded step: packs of one Space, as many as make one new pack. `stuck` keeps packs that cannot be moved, so that the next steps
 * pass them over; a step that finds nothing to do empties it.
 */
export async function compactPacks(core: Core, stuck: Set<Generation>): Promise<CompactionStep> {
  const now = await core.metadata.readClock();
  // The old pack is kept for a while. A record must be dead for a day before it counts.
  // Dead bytes leave the store seven days after they died, however much of their pack is live. One day is for the work itself.
  const waitMs = Math.max(DAY_MS, 6 * DAY_MS - core.settings.keepReplacedMs);
  const deadSince = now - waitMs;
  const limit = 64 + stuck.size;
  const found = await core.metadata.page('packsToCompact', { deadSince, limit });
  const candidates = found.filter(({ pack }) => !stuck.has(pack.generation));
  const [first] = candidates;
  // The packs that are passed over have their turn when all others were looked at.
  if (first === undefined || stuck.size >= 10_000) {
    stuck.clear();
    return { bytes: 0, moved: 0 };
  }
  const { space } = first;
  const packs = candidates.filter(
    (each) => each.space.appId === space.appId && each.space.spaceId === space.spaceId,
  );
  const { live, lookedAtBytes } = await gather(core, space, packs, stuck);
  const { moved, bytes } = await moveTogether(core, space, live, now, stuck);
  return { bytes: lookedAtBytes + bytes, moved };
}

/** If the disk has no room for all of them, the first pack alone may still fit, and then makes room. */
async function moveTogether(
  core: Core,
  space: Space,
  live: readonly LiveRecord[],
  now: number,
  stuck: Set<Generation>,
): Promise<CompactionStep> {
  const first = live[0]?.place.pack;
  if (first === undefined) return { bytes: 0, moved: 0 };
  const bytes = live.reduce((sum, { place }) => sum + place.storedLength, 0);
  const ofFirst = live.filter(({ place }) => place.pack === first);
  if (ofFirst.length === live.length) {
    return { bytes, moved: await orStuck(first, stuck, () => moveTo(core, space, live, now)) };
  }
  try {
    return { bytes, moved: await moveTo(core, space, live, now) };
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return moveTogether(core, space, ofFirst, now, stuck);
  }
}

/** A pack that fails a step is passed over by the next ones, so that one bad place of a disk does not hold up all others. */
async function orStuck<T>(pack: Generation, stuck: Set<Generation>, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreUnavailable) stuck.add(pack);
    throw error;
  }
}

/** The live records of the first packs that fit into one. A pack with an unproven record is stuck; one without any is the sweep's. */
async function gather(
  core: Core,
  space: Space,
  packs: readonly {
    readonly pack: PackRow;
    readonly use: { readonly liveBytes: number; readonly liveRecords: number };
  }[],
  stuck: Set<Generation>,
): Promise<{ readonly live: LiveRecord[]; readonly lookedAtBytes: number }> {
  const gathered: LiveRecord[] = [];
  let lookedAtBytes = 0;
  let bytes = PACK_HEADER_BYTES;
  for (const { pack, use } of packs) {
    const more = use.liveBytes + use.liveRecords * RECORD_HEADER_BYTES;
    // Several packs become one only up to this size, so that a step stays short.
    const isFull = bytes + more > 16 * 1024 * 1024 || gathered.length + use.liveRecords > PACK_RECORDS_MAX;
    if (isFull && gathered.length > 0) continue;
    const live = await orStuck(pack.generation, stuck, () => proveLive(core, space, pack.generation));
    lookedAtBytes += more;
    if (live === undefined || live.length === 0) {
      stuck.add(pack.generation);
      continue;
    }
    gathered.push(...live);
    bytes += more;
  }
  return { live: gathered, lookedAtBytes };
}

/** `undefined`: a record is bad or belongs to a rotten node. The scrub finds out whose it is, and healing sets the pack free. */
async function proveLive(core: Core, space: Space, pack: Generation): Promise<LiveRecord[] | undefined> {
  const live: LiveRecord[] = [];
  for (let after = -1; ; ) {
    const rows = await orIfDamaged(
      () => core.metadata.page('packRecords', { space, pack, after, limit: BATCH_RECORDS_MAX }),
      () => undefined,
    );
    if (rows === undefined) return undefined;
    const placed = rows.flatMap((content) => (content.packed ? [{ content, place: content.packed }] : []));
    const proven = await proveRecords(core, space, placed);
    if (proven === undefined) return undefined;
    live.push(...proven);
    const last = placed.at(-1);
    if (last === undefined || rows.length < BATCH_RECORDS_MAX) return live;
    after = last.place.offset;
  }
}

async function proveRecords(
  core: Core,
  space: Space,
  placed: readonly Placed[],
): Promise<LiveRecord[] | undefined> {
  const live = await unlessRotten(async () => {
    const read: LiveRecord[] = [];
    for await (const batch of readTogether(core, space, placed)) {
      for (const { record, stored } of batch) {
        const { content, place } = record;
        read.push({ hash: core.packs.digestOf(place.codec, content.canonicalSize, stored), content, place });
      }
    }
    return read;
  });
  if (live === undefined) return undefined;
  const nodes = await core.metadata.findNodesWithContent(
    space,
    live.map(({ hash }) => hash),
  );
  // A record is live because its content row is there, so its node is there too, unless both went meanwhile.
  const isBad = live.some(({ content }, index) => {
    const node = nodes[index]?.node;
    return node !== undefined && node.generation === content.generation && node.state === 'rotten';
  });
  return isBad ? undefined : live;
}

/** `undefined`: the bytes of a record are bad or gone. */
async function unlessRotten<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isProofOfRot(error)) return undefined;
    throw error;
  }
}

/** The records with their stored bytes, which are proven, in their order. Near ones are read at once, a little at a time. */
async function* readTogether<R extends Placed>(
  core: Core,
  space: Space,
  records: readonly R[],
): AsyncGenerator<{ readonly record: R; readonly stored: Uint8Array }[]> {
  for (const batch of batchesOf(records, NEAR)) {
    const wanted = batch.map(({ content, place }) => ({ place, integrity: content.integrity }));
    const read = await core.content.packs.readRecords(space, wanted);
    yield batch.map((record, index) => ({ record, stored: read[index] as Uint8Array }));
  }
}

async function moveTo(core: Core, space: Space, live: readonly LiveRecord[], now: number): Promise<number> {
  const generation = createOwnPackGeneration(core, now);
  const places = placesOf(generation, live);
  const written = await unlessRotten(() =>
    core.content.packs.write(space, generation, piecesOf(core, space, live)),
  );
  // Since they were proven, a purge has taken the records, or one has rotted: the next step looks at them anew.
  if (written === undefined) return 0;
  const { bytes, integrityFrom } = written;
  const pack = makeOwnPack(core, now, { generation, bytes, records: live.length });
  const moves = live.map(({ content, place }, index): RecordMove => {
    const to = places[index] as PackPlace;
    return { generation: content.generation, from: place, to, integrity: integrityFrom(content.integrity) };
  });
  return moveInGroups(core, space, pack, moves, (group) => core.metadata.transact(space, moveLive, group));
}

export async function moveLive(tx: SpaceTransaction, group: GroupOfMoves<RecordMove>): Promise<number> {
  return (await takesRecords(tx, group)) ? tx.packs.moveRecords(group.moves) : 0;
}

function placesOf(pack: Generation, live: readonly LiveRecord[]): PackPlace[] {
  let byte = PACK_HEADER_BYTES;
  return live.map(({ place }) => {
    const offset = byte + RECORD_HEADER_BYTES;
    byte = offset + place.storedLength;
    return { ...place, pack, offset };
  });
}

/** The bytes of the new pack: each record as it is stored, proven once more. */
async function* piecesOf(core: Core, space: Space, live: readonly LiveRecord[]): AsyncGenerator<Uint8Array> {
  yield encodePackHeader();
  for await (const batch of readTogether(core, space, live)) {
    const parts = batch.flatMap(({ record: { hash, content, place }, stored }) => {
      const { storedLength, codec } = place;
      return [
        encodeRecordHeader({ hash, codec, storedLength, canonicalLength: content.canonicalSize }),
        stored,
      ];
    });
    yield Buffer.concat(parts);
  }
}
