/**
 * Compaction of small nodes: those that came one by one, and have an object each, go into packs (core/packs/README.md). It may end at any
 * instant: the new pack is durable before any row names it, and a row moves only if it still names the object that was read.
 */
import {
  DAY_MS,
  type EncodedRecord,
  encodeRecord,
  type Hash,
  NodeFormatError,
  PACK_HEADER_BYTES,
  PACK_RECORDS_MAX,
  PackBuilder,
  RECORD_HEADER_BYTES,
} from '@holdfast/protocol';
import { batchesOf } from '../batches.ts';
import {
  closeContent,
  findUrlExpiries,
  isProofOfRot,
  type ReplacementRules,
  replacementRulesOf,
  storedObject,
} from '../contents.ts';
import type { Core } from '../core.ts';
import { createGeneration, recordGeneration } from '../generation.ts';
import type { ContentRow, Generation, NodeRow, PackPlace, Space } from '../model.ts';
import { SMALL_NODE_BYTES_MAX, type SpaceToPack } from '../pack-ports.ts';
import type { SpaceTransaction } from '../ports.ts';
import { sha256Hex } from '../signer.ts';
import { StoreUnavailable } from '../store-failure.ts';
import type { CompactionStep } from './compact-packs.ts';
import {
  createOwnPackGeneration,
  type GroupOfMoves,
  makeOwnPack,
  moveInGroups,
  takesRecords,
} from './own-packs.ts';

const FIRST_GENERATION = createGeneration(0, '0'.repeat(20));
/** Spaces that one step looks at for one that is worth packing */
const SPACES_MAX = 64;
/** objects that are read at the same time */
const READS_AT_ONCE = 8;
/** What reading and deleting an object costs beside its bytes, in bytes that compaction moves in the same time. */
const OBJECT_COST_BYTES = 16 * 1024;

export interface PackingRules {
  /** A Space with fewer small objects keeps them. */
  readonly nodesMin: number;
  /** A node is left alone until so long after its upload began; ms. */
  readonly ageMs: number;
}

/** core/packs/README.md, says why. */
export const PACKING_RULES: PackingRules = { nodesMin: 64, ageMs: DAY_MS };

/** How far a walk over all Spaces has come. What was packed is found by no later walk, so nobody needs to keep it. */
export interface PackingWalk {
  readonly after: SpaceToPack['position'] | undefined;
  /** the Space that is being packed, from this generation on */
  readonly within: { readonly space: Space; readonly after: Generation } | undefined;
}

export interface PackingStep extends CompactionStep {
  /** what the caller paces the next step by, in bytes */
  readonly cost: number;
  /** undefined: the walk has ended */
  readonly next: PackingWalk | undefined;
  /** None of several objects in a row could be read: the store may be away. The walk has passed them over. */
  readonly failure?: StoreUnavailable | undefined;
}

interface GatheredNode {
  readonly content: ContentRow;
  readonly record: EncodedRecord;
}

const TOGETHER = {
  itemsMax: READS_AT_ONCE,
  bytesMax: READS_AT_ONCE * SMALL_NODE_BYTES_MAX,
  bytesOf: ({ canonicalSize }: ContentRow): number => canonicalSize,
};

/** One bounded step of a walk: looks at some Spaces, or makes one pack of one of them. */
export async function packSmallNodes(
  core: Core,
  walk: PackingWalk = { after: undefined, within: undefined },
  rules: PackingRules = PACKING_RULES,
): Promise<PackingStep> {
  const now = await core.metadata.readClock();
  const before = createGeneration(Math.max(0, now - rules.ageMs), '0'.repeat(20));
  const { after, within } = walk;
  if (within === undefined) return findSpace(core, after, before, rules.nodesMin);
  const { space } = within;
  const found = await core.metadata.page('contentsToPack', {
    ...{ space, after: within.after, before, limit: PACK_RECORDS_MAX },
  });
  if (found.length < rules.nodesMin) return { ...NOTHING, next: { after, within: undefined } };
  const { builder, nodes, looked, bytes, failure } = await gather(core, space, found);
  const cost = bytes + looked * OBJECT_COST_BYTES;
  const last = found[looked - 1]?.generation ?? within.after;
  const next: PackingWalk = { after, within: { space, after: last } };
  const kept = await findStill(core, space, nodes);
  if (kept.length < rules.nodesMin) return { bytes, moved: 0, cost, next, failure };
  const hashes = new Set(kept.map(({ record }) => record.hash));
  builder.retain((hash) => hashes.has(hash));
  const pack = builder.toBytes();
  const moved = await moveInto(core, space, kept, pack, now);
  return { bytes: bytes + pack.length, moved, cost: cost + pack.length, next, failure };
}

const NOTHING = { bytes: 0, moved: 0, cost: OBJECT_COST_BYTES } as const;

/** The next Space with enough small objects, among some. */
async function findSpace(
  core: Core,
  after: PackingWalk['after'],
  before: Generation,
  contentsMin: number,
): Promise<PackingStep> {
  const wanted = { after, before, contentsMin, limit: SPACES_MAX };
  const spaces = await core.metadata.page('spacesToPack', wanted);
  const worth = spaces.find(({ isWorthPacking }) => isWorthPacking);
  const last = worth ?? spaces.at(-1);
  const isAtEnd = worth === undefined && spaces.length < SPACES_MAX;
  const within = worth && { space: worth.space, after: FIRST_GENERATION };
  const cost = spaces.length * OBJECT_COST_BYTES;
  return { bytes: 0, moved: 0, cost, next: isAtEnd ? undefined : { after: last?.position, within } };
}

interface Gathered {
  readonly builder: PackBuilder;
  /** those that are in the pack, in its order */
  readonly nodes: readonly GatheredNode[];
  /** contents that were read, or found unreadable */
  readonly looked: number;
  readonly bytes: number;
  /** of the last objects that were looked at */
  readonly failure: StoreUnavailable | undefined;
}

/** Reads objects in order until the pack is full, or none of several can be read. A bad one is the scrub's to find. */
async function gather(core: Core, space: Space, found: readonly ContentRow[]): Promise<Gathered> {
  const builder = new PackBuilder({ bytesMax: 8 * 1024 * 1024, recordsMax: PACK_RECORDS_MAX });
  const nodes = new Map<Hash, GatheredNode>();
  let looked = 0;
  let bytes = 0;
  const end = (failure?: StoreUnavailable): Gathered => ({
    ...{ builder, nodes: [...nodes.values()], looked, bytes, failure },
  });
  for (const batch of batchesOf(found, TOGETHER)) {
    const read = await readBatch(core, space, batch);
    if (read instanceof StoreUnavailable) {
      looked += batch.length;
      return end(read);
    }
    for (const [index, content] of batch.entries()) {
      const record = read[index];
      // A step stays short.
      if (bytes >= 16 * 1024 * 1024 || (record !== undefined && !builder.add(record))) return end();
      looked += 1;
      bytes += content.canonicalSize;
      if (record !== undefined && !nodes.has(record.hash)) nodes.set(record.hash, { content, record });
    }
  }
  return end();
}

/** Aligned with `batch`. An object that cannot be read now is passed over too, unless none of several can. */
async function readBatch(
  core: Core,
  space: Space,
  batch: readonly ContentRow[],
): Promise<readonly (EncodedRecord | undefined)[] | StoreUnavailable> {
  const read = await Promise.allSettled(batch.map((content) => readSound(core, space, content)));
  const failures: unknown[] = read.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  const failure = failures.find((each) => !(each instanceof StoreUnavailable));
  if (failure !== undefined) throw failure;
  const [away] = failures;
  if (away instanceof StoreUnavailable && failures.length === batch.length && batch.length > 1) return away;
  return read.map((each) => (each.status === 'fulfilled' ? each.value : undefined));
}

/** The record of a node, proven as it will be stored: its hash is the digest of what comes out of it. */
async function readSound(core: Core, space: Space, content: ContentRow): Promise<EncodedRecord | undefined> {
  const { canonicalSize } = content;
  try {
    const canonical = await core.content.read(storedObject(space, content), 0, canonicalSize);
    const record = encodeRecord(sha256Hex(canonical), canonical, compress);
    const { codec, stored, hash } = record;
    return core.packs.digestOf(codec, canonicalSize, stored) === hash ? record : undefined;
  } catch (error) {
    if (isProofOfRot(error) || error instanceof NodeFormatError) return undefined;
    throw error;
  }
}

function compress(bytes: Uint8Array): Uint8Array | undefined {
  // Fewer bytes never become a tenth smaller.
  return bytes.length < 96 ? undefined : Bun.zstdCompressSync(bytes as Uint8Array<ArrayBuffer>);
}

/** Those whose row is ready with the object that was read. Others wait for children, are rotten, or have changed. */
async function findStill(
  core: Core,
  space: Space,
  nodes: readonly GatheredNode[],
): Promise<readonly GatheredNode[]> {
  const rows = await core.metadata.findNodesWithContent(
    space,
    nodes.map(({ record }) => record.hash),
  );
  return nodes.filter(({ content }, index) => isStill(rows[index]?.node, content.generation));
}

function isStill(node: NodeRow | undefined, generation: Generation): node is NodeRow {
  return node?.state === 'ready' && node.storage === 'object' && node.generation === generation;
}

async function moveInto(
  core: Core,
  space: Space,
  nodes: readonly GatheredNode[],
  bytes: Uint8Array,
  now: number,
): Promise<number> {
  const generation = createOwnPackGeneration(core, now);
  const places = placesIn(generation, bytes, nodes);
  const written = await core.content.packs.write(space, generation, piecesOf(bytes));
  const moves = nodes.map(({ content, record: { hash, stored } }, index): SmallNodeMove => {
    const to = recordGeneration(generation, index);
    const place = places[index] as PackPlace;
    return { hash, from: content.generation, to, place, integrity: written.integrityOf(stored) };
  });
  const pack = makeOwnPack(core, now, { generation, bytes: written.bytes, records: nodes.length });
  const rules = replacementRulesOf(core);
  return moveInGroups(core, space, pack, moves, (group) =>
    core.metadata.transact(space, moveSmall, { ...group, ...rules }),
  );
}

/** Where the records are. Throws if what was proven is not there: then nothing was written or moved. */
function placesIn(pack: Generation, bytes: Uint8Array, nodes: readonly GatheredNode[]): PackPlace[] {
  let end = PACK_HEADER_BYTES;
  const places = nodes.map(({ record: { hash, codec, stored, storedLength } }): PackPlace => {
    const offset = end + RECORD_HEADER_BYTES;
    end = offset + storedLength;
    if (Buffer.compare(bytes.subarray(offset, end), stored) !== 0)
      throw new Error(`the record of ${hash} is not where it belongs in its pack; nothing was moved`);
    return { pack, offset, storedLength, codec };
  });
  if (end !== bytes.length) throw new Error('a pack does not end with its last record; nothing was moved');
  return places;
}

async function* piecesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  const length = 256 * 1024;
  for (let from = 0; from < bytes.length; from += length) yield bytes.subarray(from, from + length);
}

interface SmallNodeMove {
  readonly hash: Hash;
  /** the object that was read */
  readonly from: Generation;
  /** of the record */
  readonly to: Generation;
  readonly place: PackPlace;
  readonly integrity: Uint8Array;
}

interface SmallNodesMove extends GroupOfMoves<SmallNodeMove>, ReplacementRules {}

/** Gives each node that is still ready with the object that was read its record, and closes the object. Usage stays. Resolves how many. */
export async function moveSmall(
  tx: SpaceTransaction,
  { moves, uploads, keepReplacedMs, ...group }: SmallNodesMove,
): Promise<number> {
  const nodes = await tx.findNodes(moves.map(({ hash }) => hash));
  const still = moves.flatMap((move, index) => {
    const node = nodes[index];
    return isStill(node, move.from) ? [{ move, node }] : [];
  });
  const expiries = await findUrlExpiries(
    tx,
    still.map(({ node }) => node),
    uploads,
  );
  if (!(await takesRecords(tx, group))) return 0;
  for (const [index, { move, node }] of still.entries()) {
    const { to, place, integrity, from } = move;
    const { canonicalSize, storage } = node;
    await tx.insert('content', {
      ...{ generation: to, canonicalSize, integrity, inlineBytes: undefined },
      ...{ packed: place, urlExpiresAt: 0 },
    });
    await tx.update('node', node, { ...node, generation: to, storage: 'packed' });
    const urlExpiresAt = expiries[index] ?? 0;
    await closeContent(tx, { generation: from, storage, urlExpiresAt, keptMs: keepReplacedMs });
  }
  return still.length;
}
