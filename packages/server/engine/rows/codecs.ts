/** Rows as the model has them, before anybody has looked at their sums. The engines give bytes and truth in kinds of their own. */
import type { Hash, RejectionCode } from '@holdfast/protocol';
import type { InspectedPack, KeptCounters } from '../../core/inspection-ports.ts';
import type {
  ContentRow,
  DiscardRow,
  Generation,
  NodeRow,
  NodeRowState,
  NodeStorage,
  PackCodec,
  PackPlace,
  RootRefCommit,
  UploadEvidence,
  UploadRow,
} from '../../core/model.ts';
import type { PackRejection, PackRow, PackState, PackUse, PackVerdicts } from '../../core/pack-model.ts';
import type { SpaceHoldings } from '../../core/tenancy-ports.ts';
import { USAGE_NONE, type UsageDelta } from '../../core/usage-delta.ts';
import type { SqlRow } from './work.ts';

/** Their places are the numbers in the columns. */
export const NODE_STATES: readonly NodeRowState[] = ['waiting', 'ready', 'rotten', 'claimed'];
export const PACK_STATES: readonly PackState[] = ['open', 'judging', 'judged'];

interface ValueKinds {
  hexOf(value: unknown): string;
  bytesOf(value: unknown): Uint8Array;
  isTrue(value: unknown): boolean;
  /** of a commit */
  requestIdOf(row: SqlRow): string;
}

export function rowCodecs(kinds: ValueKinds) {
  const { hexOf, bytesOf, isTrue } = kinds;
  /** `hash` saves a conversion if the caller knows it. */
  const node = (row: SqlRow, storage: NodeStorage, hash?: Hash): NodeRow => ({
    hash: hash ?? hexOf(row.hash),
    state: NODE_STATES[row.state as number] as NodeRowState,
    size: row.size as number,
    canonicalSize: row.canonical_size as number,
    contentType: row.content_type as string,
    refs: bytesOf(row.refs),
    generation: hexOf(row.generation),
    storage,
    storedSize: (row.stored_size as number | null) ?? (row.canonical_size as number),
    leaseStartedAt: row.lease_started_at as number,
    leaseExpiresAt: row.lease_expires_at as number,
    childRefCount: row.child_ref_count as number,
    rootRefCount: row.root_ref_count as number,
    heldDomainCount: row.held_domain_count as number,
    waitingTouchedAt: row.waiting_touched_at as number,
    claimHeldUntil: row.claim_held_until as number,
  });
  /** undefined: the bytes are an object of their own */
  const place = (row: SqlRow): PackPlace | undefined =>
    row.pack === null
      ? undefined
      : {
          pack: hexOf(row.pack),
          offset: row.pack_offset as number,
          storedLength: row.stored_length as number,
          codec: row.codec as PackCodec,
        };
  const content = (row: SqlRow, generation?: Generation): ContentRow => ({
    generation: generation ?? hexOf(row.generation),
    canonicalSize: row.canonical_size as number,
    integrity: bytesOf(row.integrity),
    inlineBytes: (row.inline_bytes ?? null) === null ? undefined : bytesOf(row.inline_bytes),
    packed: place(row),
    urlExpiresAt: row.url_expires_at as number,
  });
  const discard = (row: SqlRow): DiscardRow => ({
    generation: hexOf(row.generation),
    dueAt: row.due_at as number,
    urlExpiresAt: row.url_expires_at as number,
  });
  const upload = uploadCodec(kinds);
  const pack = (row: SqlRow, isDiscarded: unknown): PackRow => ({
    id: hexOf(row.id),
    generation: hexOf(row.generation),
    state: PACK_STATES[row.state as number] as PackState,
    createdAt: row.created_at as number,
    urlExpiresAt: row.url_expires_at as number,
    touchedAt: row.touched_at as number,
    asked: bytesOf(row.asked),
    bytes: (row.bytes as number | null) ?? undefined,
    publishedCount: row.published_count as number,
    reserved: { bytes: row.reserved_bytes as number, nodes: row.reserved_nodes as number },
    isDiscarded: isTrue(isDiscarded),
  });
  /** Throws if the rejections are no JSON. */
  const verdicts = (row: SqlRow): PackVerdicts => {
    const byte = row.broken_byte as number | null;
    return {
      hashes: bytesOf(row.hashes),
      rejections: JSON.parse(row.rejections as string) as PackRejection[],
      broken: byte === null ? undefined : { byte, message: row.broken_message as string },
    };
  };
  /** with `counted_records` and `counted_bytes` beside what is kept */
  const inspectedPack = (row: SqlRow): InspectedPack => ({
    ...{ id: hexOf(row.id), generation: hexOf(row.generation) },
    kept: { liveRecords: row.live_records as number, liveBytes: row.live_bytes as number },
    counted: { liveRecords: row.counted_records as number, liveBytes: row.counted_bytes as number },
  });
  return { node, place, content, discard, upload, pack, verdicts, inspectedPack, ...rootRefCodecs(kinds) };
}

function rootRefCodecs({ hexOf, bytesOf, requestIdOf }: ValueKinds) {
  const balance = (row: SqlRow) => ({
    hash: hexOf(row.hash),
    balance: row.balance as number,
    fromRevision: row.from_revision as number,
  });
  const history = (row: SqlRow) => {
    const [toRevision, supersededAt] = [row.to_revision as number, row.superseded_at as number];
    return { ...balance(row), toRevision, supersededAt };
  };
  const commit = (row: SqlRow): RootRefCommit => ({
    requestId: requestIdOf(row),
    payloadDigest: bytesOf(row.payload_digest),
    revision: row.revision as number,
  });
  return { balance, history, commit };
}

function uploadCodec({ hexOf, bytesOf, isTrue }: ValueKinds) {
  const evidence = (row: SqlRow): UploadEvidence | undefined => {
    if (row.verdict === null) return undefined;
    if (row.verdict === 0)
      return { verdict: 'bad', code: row.bad_code as RejectionCode, message: row.bad_message as string };
    return {
      verdict: 'good',
      canonicalSize: row.canonical_size as number,
      size: row.size as number,
      contentType: row.content_type as string,
      refs: bytesOf(row.refs),
      integrity: bytesOf(row.integrity),
      inline: isTrue(row.inline),
    };
  };
  return (row: SqlRow, hash?: Hash): UploadRow => {
    const code = row.rejection_code as RejectionCode | null;
    return {
      hash: hash ?? hexOf(row.hash),
      generation: hexOf(row.generation),
      createdAt: row.created_at as number,
      urlExpiresAt: row.url_expires_at as number,
      touchedAt: row.touched_at as number,
      rejection: code === null ? undefined : { code, message: row.rejection_message as string },
      evidence: evidence(row),
      seenBytes: row.verdict === null ? ((row.canonical_size as number | null) ?? undefined) : undefined,
    };
  };
}

export const usageFromSql = (row: SqlRow): UsageDelta => ({
  nodeCount: row.node_count as number,
  readyContentBytes: row.ready_content_bytes as number,
  readyStoredBytes: row.ready_stored_bytes as number,
  waitingBytes: row.waiting_bytes as number,
  notReadyNodeCount: row.not_ready_node_count as number,
});

/** Without a row nothing was ever written, so all counters are 0. */
export const keptFromSql = (row: SqlRow | undefined): KeptCounters =>
  row === undefined
    ? { ...USAGE_NONE, leasedCount: 0 }
    : { ...usageFromSql(row), leasedCount: row.leased_count as number };

/** In the order of the columns. */
export const usageToSql = (usage: UsageDelta): [number, number, number, number, number] => [
  ...([usage.nodeCount, usage.readyContentBytes, usage.readyStoredBytes] as const),
  ...([usage.waitingBytes, usage.notReadyNodeCount] as const),
];

export const holdingsFromSql = (row: SqlRow): SpaceHoldings => ({
  pendingBytes: row.pending_bytes as number,
  commitRows: row.commit_rows as number,
});

/** of the live records of a pack */
export const useOf = (row: SqlRow): PackUse => ({
  liveRecords: row.live_records as number,
  liveBytes: row.live_bytes as number,
  firstDeadAt: row.first_dead_at as number,
});

/** The row as stored, damaged or not. An impossible number is replaced by 0. */
export function standingNode(row: NodeRow): NodeRow {
  const numbers = Object.entries(row).flatMap(([name, value]) =>
    typeof value === 'number' && !(Number.isSafeInteger(value) && value >= 0) ? [[name, 0]] : [],
  );
  return { ...row, state: row.state ?? 'rotten', ...Object.fromEntries(numbers) };
}

const PLACE = ['pack_offset', 'stored_length', 'codec'];
const WHY_BAD = ['bad_code', 'bad_message'];
/** An upload that is not judged has a canonical size once its bytes were seen. */
const FOUND_GOOD = ['size', 'content_type', 'refs', 'integrity', 'inline'];
const areNull = (row: SqlRow, columns: readonly string[]): boolean =>
  columns.every((column) => (row[column] ?? null) === null);

/** Bytes that are in no pack have no place in one: a sum does not cover values without a meaning. */
export const hasNoOtherPlace = (row: SqlRow): boolean => (row.pack ?? null) !== null || areNull(row, PLACE);

/** Whether an upload has only values that a row can have. */
export function isUploadWhole(row: SqlRow): boolean {
  const { verdict, inline } = row;
  const hasReason = row.rejection_code !== null || row.rejection_message === null;
  const isFlag = inline === 0 || inline === 1 || typeof inline === 'boolean';
  if (verdict === 1) return isFlag && areNull(row, WHY_BAD) && hasReason;
  if (verdict !== null && verdict !== 0) return false;
  const isBare = verdict === null ? areNull(row, WHY_BAD) : row.canonical_size === null;
  return isBare && areNull(row, FOUND_GOOD) && hasReason;
}
