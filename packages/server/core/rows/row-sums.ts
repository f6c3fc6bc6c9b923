/** The sums of all other rows, as node-sum.ts. `space` and `domain`: what the engine knows the Space or the domain of the row by. */
import type { KeptCounters } from '../inspection-ports.ts';
import type { DiscardRow, RootRefCommit, UploadRow } from '../model.ts';
import type { PackRow, PackUse, PackVerdicts } from '../pack-model.ts';
import { WALK_UNKNOWN, type WalkState } from '../root-ref-walks.ts';
import { mixStart, mixValues, type SumValue } from './row-sum.ts';

/** Weights of values that change: odd and distinct. */
const [W1, W2, W3, W4, W5, W6, W7, W8, W9] = [3, 5, 7, 9, 11, 13, 15, 17, 19] as const;

/** The common start of the sums of a balance and of its history, because a commit makes three of them for each hash. */
export const balanceStart = (domain: SumValue, hash: string) => mixStart([domain, hash]);

/** Both values of a balance are set by each change. */
export function balanceSum(
  domain: SumValue,
  hash: string,
  balance: number,
  fromRevision: number,
  start = balanceStart(domain, hash),
): number {
  return mixValues([balance, fromRevision], start);
}

export interface BalanceHistory {
  readonly fromRevision: number;
  readonly toRevision: number;
  readonly balance: number;
  /** ms */
  readonly supersededAt: number;
}

export function historySum(
  domain: SumValue,
  hash: string,
  row: BalanceHistory,
  start = balanceStart(domain, hash),
): number {
  return mixValues([row.fromRevision, row.toRevision, row.balance, row.supersededAt], start);
}

export function commitSum(domain: SumValue, { requestId, payloadDigest, revision }: RootRefCommit): number {
  return mixValues([domain, requestId, payloadDigest, revision]);
}

/** Added to the sum of a domain for each 1 that these rise by. */
export const DOMAIN_WEIGHTS = {
  ...{ revision: W1, historyFloor: W2, commitCount: W3, balanceCount: W4 },
  ...{ walkedFrom: W5, walkedUntil: W6 },
} as const;

/** If a domain has more balances than this, the end of a list does not count them, because that would delay the list. A check does. */
export const BALANCES_COUNTED_MAX = 1_000_000;

/** Walks of rows that are older than the rule of core/root-ref-walks.ts add nothing. */
export interface DomainNumbers extends WalkState {
  readonly revision: number;
  readonly historyFloor: number;
  /** commits that are kept */
  readonly commitCount: number;
  /** balances that are not 0: one whose row says another domain is missed */
  readonly balanceCount: number;
}

/** `names`: what never changes of the row */
export function domainSum(names: readonly SumValue[], row: DomainNumbers): number {
  return (
    mixValues(names) +
    DOMAIN_WEIGHTS.revision * row.revision +
    DOMAIN_WEIGHTS.historyFloor * row.historyFloor +
    DOMAIN_WEIGHTS.commitCount * row.commitCount +
    DOMAIN_WEIGHTS.balanceCount * row.balanceCount +
    DOMAIN_WEIGHTS.walkedFrom * row.walkedFrom +
    DOMAIN_WEIGHTS.walkedUntil * (row.walkedUntil - WALK_UNKNOWN)
  );
}

/** The weights are odd and distinct. An engine may add the terms of `packUseSum` by itself. */
export function packSum(space: SumValue, row: PackRow): number {
  const { id, generation, asked, bytes, reserved } = row;
  return (
    mixValues([space, id, generation]) +
    mixValues([row.state, asked, bytes ?? null, row.isDiscarded ? 1 : 0]) +
    W1 * row.createdAt +
    W2 * row.urlExpiresAt +
    W3 * row.touchedAt +
    W4 * row.publishedCount +
    W5 * reserved.bytes +
    W6 * reserved.nodes
  );
}

export function packUseSum({ liveRecords, liveBytes, firstDeadAt }: PackUse): number {
  return W7 * liveRecords + W8 * liveBytes + W9 * firstDeadAt;
}

export function verdictsSum(generation: string, { hashes, rejections, broken }: PackVerdicts): number {
  const text = JSON.stringify(rejections);
  return mixValues([generation, hashes, text, broken?.byte ?? null, broken?.message ?? null]);
}

/** Values that a change of an upload leaves unchanged cost nothing: see `uploadSumChange`. */
export function uploadSum(space: SumValue, row: UploadRow): number {
  return mixValues([space, row.hash]) + generationSum(row) + judgedSum(row) + timesSum(row);
}

export function uploadSumChange(before: UploadRow, after: UploadRow): number {
  const isAnother = before.generation !== after.generation || before.createdAt !== after.createdAt;
  return (
    (isAnother ? generationSum(after) - generationSum(before) : 0) +
    (isJudgedAnew(before, after) ? judgedSum(after) - judgedSum(before) : 0) +
    (timesSum(after) - timesSum(before))
  );
}

export const isJudgedAnew = (before: UploadRow, after: UploadRow): boolean =>
  before.evidence !== after.evidence ||
  before.rejection !== after.rejection ||
  before.seenBytes !== after.seenBytes;

const generationSum = ({ generation, createdAt }: UploadRow): number => mixValues([generation, createdAt]);
const timesSum = ({ urlExpiresAt, touchedAt }: UploadRow): number => W1 * urlExpiresAt + W2 * touchedAt;

const judgedSum = (row: UploadRow): number => mixValues(judgedValues(row));

/** The values that the verdicts of an upload add to the sum of its row. */
export function judgedValues({ rejection, evidence, seenBytes }: UploadRow): readonly SumValue[] {
  return [
    ...[rejection?.code ?? null, rejection?.message ?? null, evidence?.verdict ?? null],
    ...(evidence?.verdict === 'bad' ? [evidence.code, evidence.message] : []),
    ...(evidence?.verdict === 'good'
      ? [evidence.canonicalSize, evidence.size, evidence.contentType, evidence.refs, evidence.integrity]
      : []),
    evidence?.verdict === 'good' && evidence.inline ? 1 : 0,
    ...(evidence === undefined && seenBytes !== undefined ? [seenBytes] : []),
  ];
}

/** Edges to a hash without a row. */
export function looseEdgesSum(space: SumValue, hash: string, count: number): number {
  return mixValues([space, hash, count]);
}

export function discardSum(space: SumValue, { generation, dueAt, urlExpiresAt }: DiscardRow): number {
  return mixValues([space, generation, dueAt, urlExpiresAt]);
}

/** Added to the sum of a tombstone for each ms by which it was seen later. */
export const SEEN_WEIGHT = W1;

export function tombstoneSum(generation: string, notedAt: number, seenAt: number): number {
  return mixValues([generation, notedAt]) + SEEN_WEIGHT * seenAt;
}

/** The weight of the mark that a Space was purged, beside its counters. */
export const PURGED_WEIGHT = W8;

/** The terms that the counters of a Space, or changes of them, add to the sum of its row. */
export function countersSum(counters: KeptCounters, watermark: number): number {
  return (
    W1 * counters.nodeCount +
    W2 * counters.readyContentBytes +
    W3 * counters.readyStoredBytes +
    W4 * counters.waitingBytes +
    W5 * counters.notReadyNodeCount +
    W6 * counters.leasedCount +
    W7 * watermark
  );
}
