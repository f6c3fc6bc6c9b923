/** packs/{id}/lease: judges a pack that was uploaded, publishes and leases its nodes (docs/bulk.md, Lease the pack; core/packs/README.md). */
import {
  ApiError,
  bytesToHash,
  HASH_BYTES,
  type Hash,
  isPackId,
  type PackLeaseResponse,
  type PackLeaseResult,
} from '@holdfast/protocol';
import { aroundRecords, replacementRulesOf } from '../contents.ts';
import type { Core } from '../core.ts';
import { changesRefused } from '../lease/lease-decision.ts';
import { refuse } from '../lease/receipt-room.ts';
import type { Space } from '../model.ts';
import { clampLeaseDuration } from '../node-row.ts';
import type { PackId, PackRejection, PackRow, PackVerdicts } from '../pack-model.ts';
import { type JudgedPack, type JudgedRecord, PACK_GROUP_RECORDS, type SizeRule } from '../pack-ports.ts';
import { QuotaRoom } from '../quota-room.ts';
import { findRows } from '../read/find-nodes.ts';
import { leaseInGroups, limitChildHashes, restAfterLeases, toResult } from './lease-nodes.ts';
import { beginPack, packNotFound, touchPack } from './pack-decision.ts';
import { publishGroup, type RecordOutcome } from './publish-group.ts';

export interface PackLeaseOptions {
  /** refuse what would be more than renewals */
  readonly renewsOnly: boolean;
}

export async function leasePack(
  core: Core,
  space: Space,
  id: string,
  leaseDurationMs: number,
  { renewsOnly }: PackLeaseOptions,
): Promise<PackLeaseResponse> {
  const durationMs = clampLeaseDuration(leaseDurationMs);
  const pack = isPackId(id) ? await core.metadata.packs.findPack(space, id) : undefined;
  if (pack === undefined) throw packNotFound();
  if (renewsOnly) throw changesRefused();
  if (pack.state === 'judged') return repeatLease(core, space, id, durationMs);
  const judged = await judge(core, space, pack);
  const outcomes = new Map<Hash, RecordOutcome>();
  const progress = await publish(core, space, { pack, judged, durationMs, outcomes });
  restAfterLeases(core, space);
  // The judgement that is kept now is that of another process, which may take larger nodes or smaller ones.
  if (progress === 'overtaken') return leasePack(core, space, id, leaseDurationMs, { renewsOnly });
  if (progress === 'in part') return repeatLease(core, space, id, durationMs);
  for (const outcome of outcomes.values()) {
    if (outcome.kind === 'ready' && outcome.heals) core.rottenNodes.noteReady(space, outcome.hash, 'healed');
  }
  const rejections = new Map(judged.verdicts.rejections.map((each) => [each.index, each] as const));
  const results = hashesOf(judged.verdicts).map((hash, index): PackLeaseResult => {
    const rejection = rejections.get(index);
    if (rejection !== undefined) return rejectedResult(hash, rejection);
    const outcome = outcomes.get(hash) as RecordOutcome;
    return outcome.kind === 'rejected' ? rejectedResult(hash, outcome.rejection) : toResult(outcome);
  });
  return answerOf(results, judged.verdicts);
}

async function judge(core: Core, space: Space, pack: PackRow): Promise<JudgedPack> {
  const { upload } = core.content;
  // A pack that was cut off because it is too long has verdicts and no object.
  if (pack.isDiscarded) {
    const verdicts = await core.metadata.packs.findPackVerdicts(space, pack.generation);
    if (verdicts === undefined) throw packNotFound();
    return { bytes: 0, verdicts, records: [] };
  }
  // Our own target notes a complete pack; only a direct upload has to be looked for.
  const isThere = upload.kind === 'direct' || pack.bytes !== undefined;
  const judged = isThere
    ? await core.packs.judge(
        core.content.packs,
        space,
        pack.generation,
        await findSizeRule(core, space, pack),
      )
    : undefined;
  if (judged !== undefined) return judged;
  const reason =
    pack.bytes === undefined
      ? 'no bytes were uploaded for this pack; PUT it to its URL, then lease it again'
      : 'the bytes of this pack are lost; lease its hashes again for a new one';
  throw new ApiError('CONFLICT', reason);
}

/** Publication that goes on counts records in the order in which it began, so the same ones are too large as then. */
async function findSizeRule(core: Core, space: Space, pack: PackRow): Promise<SizeRule> {
  const { nodeBytesMax } = core.settings;
  if (pack.state === 'open') return { nodeBytesMax };
  const verdicts = await core.metadata.packs.findPackVerdicts(space, pack.generation);
  if (verdicts === undefined) throw packNotFound();
  return { tooLarge: tooLargeOf(verdicts) };
}

/** Whether the verdicts that are kept find the same records too large. */
async function isKept(
  core: Core,
  space: Space,
  { generation }: PackRow,
  ours: PackVerdicts,
): Promise<boolean> {
  const kept = await core.metadata.packs.findPackVerdicts(space, generation);
  if (kept === undefined) throw packNotFound();
  const [one, other] = [tooLargeOf(kept), tooLargeOf(ours)];
  return one.size === other.size && [...one.keys()].every((index) => other.has(index));
}

function tooLargeOf({ rejections }: PackVerdicts): ReadonlyMap<number, PackRejection> {
  const tooLarge = rejections.filter(({ code }) => code === 'NODE_TOO_LARGE');
  return new Map(tooLarge.map((rejection) => [rejection.index, rejection]));
}

interface PackPublication {
  readonly pack: PackRow;
  readonly judged: JudgedPack;
  readonly durationMs: number;
  /** filled in */
  readonly outcomes: Map<Hash, RecordOutcome>;
}

/** `in part`: the rows have to be asked for the answer, because another lease has published some of the records. */
type PackProgress = 'whole' | 'in part' | 'overtaken';

async function publish(core: Core, space: Space, publication: PackPublication): Promise<PackProgress> {
  const { pack, judged, durationMs, outcomes } = publication;
  const { id, generation } = pack;
  const { records } = judged;
  const rules = replacementRulesOf(core);
  const room = new QuotaRoom(core, space);
  let isStored = false;
  try {
    const from = await begin(core, space, { pack, judged }, room);
    if (from === undefined) return records.length === 0 ? 'whole' : 'in part';
    isStored = true;
    if (from === 'overtaken') return from;
    let isWhole = from === 0;
    for (let at = from; at < records.length; at += PACK_GROUP_RECORDS) {
      const group = records.slice(at, at + PACK_GROUP_RECORDS);
      const isLast = at + PACK_GROUP_RECORDS >= records.length;
      const input = { id, generation, from: at, records: group, isLast, durationMs, ...rules };
      const published = await aroundRecords(core, space, group, (left) =>
        core.metadata.transact(space, publishGroup, { ...input, left }),
      );
      if (published.kind === 'gone') throw packNotFound();
      if (published.kind === 'passed') isWhole = false;
      else if (published.kind === 'leased') {
        const { leaseStartedAt, leaseExpiresAt } = published;
        for (const { hash } of group)
          outcomes.set(hash, { kind: 'ready', hash, leaseStartedAt, leaseExpiresAt });
      } else for (const outcome of published.outcomes) outcomes.set(outcome.hash, outcome);
    }
    return isWhole ? 'whole' : 'in part';
  } finally {
    room.settle(isStored);
  }
}

/** How many records are published; undefined: the pack is judged; `overtaken`: another process began and judged otherwise. */
async function begin(
  core: Core,
  space: Space,
  { pack, judged }: Pick<PackPublication, 'pack' | 'judged'>,
  room: QuotaRoom,
): Promise<number | 'overtaken' | undefined> {
  const { id, generation } = pack;
  const { bytes, verdicts } = judged;
  const uploads = core.content.upload.kind;
  const hasRecords = judged.records.length > 0;
  // Room in the quota of an App is asked for again if the Space has changed meanwhile.
  for (let round = 0; round < 4; round += 1) {
    const quotas = room.input;
    const records = quotas === undefined ? [] : judged.records.map(roomOf);
    const input = { id, generation, bytes, verdicts, hasRecords, records, quotas, uploads };
    const decision = await core.metadata.transact(space, beginPack, input);
    if (decision.kind === 'judging') {
      const isOvertaken = decision.isBegun && pack.state === 'open';
      if (isOvertaken && !(await isKept(core, space, pack, verdicts))) return 'overtaken';
      return decision.publishedCount;
    }
    if (decision.kind === 'judged') return undefined;
    if (decision.kind === 'gone') throw packNotFound();
    if (decision.kind === 'full') throw await refuse(core, space, decision.excess);
    await room.reserve(decision.more);
  }
  throw new ApiError('SERVICE_UNAVAILABLE', 'the nodes of this pack keep changing; repeat the same request', {
    retryAfterSeconds: 1,
  });
}

/** What a quota looks at: the rest of 4,096 records would cross to another thread for nothing. */
const roomOf = ({ hash, canonicalSize, refs, place }: JudgedRecord) => ({ hash, canonicalSize, refs, place });

/** Answers by the verdicts and by the rows as they are now: reads no bytes of the pack. */
async function repeatLease(
  core: Core,
  space: Space,
  id: PackId,
  durationMs: number,
): Promise<PackLeaseResponse> {
  const verdicts = await core.metadata.transact(space, touchPack, {
    id,
    abandonedAfterMs: core.settings.abandonedAfterMs,
  });
  if (verdicts === undefined) throw packNotFound();
  const rejections = new Map(verdicts.rejections.map((each) => [each.index, each] as const));
  const hashes = hashesOf(verdicts);
  const accepted = hashes.filter((_, index) => !rejections.has(index));
  const refs = new Map<Hash, Uint8Array>();
  for (const row of await findRows(core, space, accepted)) {
    if (typeof row === 'object') refs.set(row.node.hash, row.node.refs);
  }
  const lease = { durationMs, leasedUntil: 0 };
  const leased = await leaseInGroups(core, space, accepted, (hash) => refs.get(hash), lease);
  let next = 0;
  const results = hashes.map((hash, index): PackLeaseResult => {
    const rejection = rejections.get(index);
    if (rejection !== undefined) return rejectedResult(hash, rejection);
    const outcome = leased[next] as (typeof leased)[number];
    next += 1;
    return toResult(outcome);
  });
  return answerOf(results, verdicts);
}

function answerOf(results: readonly PackLeaseResult[], { broken }: PackVerdicts): PackLeaseResponse {
  const bounded = limitChildHashes(results);
  return broken === undefined ? { results: bounded } : { results: bounded, broken };
}

function rejectedResult(
  hash: Hash,
  { code, message }: { readonly code: PackVerdicts['rejections'][number]['code']; readonly message: string },
): PackLeaseResult {
  return { state: 'rejected', hash, rejection: { code, message } };
}

function hashesOf({ hashes }: PackVerdicts): Hash[] {
  const list: Hash[] = [];
  for (let at = 0; at < hashes.length; at += HASH_BYTES)
    list.push(bytesToHash(hashes.subarray(at, at + HASH_BYTES)));
  return list;
}
