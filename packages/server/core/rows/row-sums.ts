/**
 * The sums of rows. `space` and `domain`: what the engine knows the Space or the domain of the row by. Pure.
 *
 * A row carries a sum over all of its values (docs/design.md, Rows are proven). A row whose sum is another one is damaged.
 *
 * A sum has two parts. The mixed part is over what never changes. The linear part adds each value that changes, times an odd weight of its
 * own, without a modulus: a statement that changes one value adds `weight * (new - old)`. So it never hides a wrong bit of another
 * value, and no single bit of any value leaves the sum as it was.
 */

import type { CommitMark } from '../commit-records.ts';
import type { KeptCounters } from '../inspection-ports.ts';
import type {
  ContentRow,
  DiscardRow,
  NodeRow,
  NodeRowState,
  NodeStorage,
  RootRefCommit,
  UploadRow,
} from '../model.ts';
import type { PackRow, PackUse, PackVerdicts } from '../pack-model.ts';
import { WALK_UNKNOWN, type WalkState } from '../root-ref-walks.ts';

/** A value as a database has it. Instants and counts are integers. */
export type SumValue = string | number | Uint8Array | null;

const FIRST_FACTOR = 0x9e3779b1 | 0;
const SECOND_FACTOR = 0x85ebca6b | 0;

/** before each value, so that values of different types or lengths are told apart */
const TAG = { null: 1, number: 2, string: 3, bytes: 4 } as const;

interface Lanes {
  first: number;
  second: number;
}

const START: Readonly<Lanes> = { first: 0x243f6a88, second: 0x13198a2e };

/** 45 bits over the values in order. The first lane is a bijection per word, so no single bit gets lost. `start`: of values before. */
export function mixValues(values: readonly SumValue[], start = START): number {
  const lanes = mixStart(values, start);
  // 13 bits of the second lane beside the 32 of the first leave room for the linear part.
  return (lanes.second & 0x1fff) * 2 ** 32 + (lanes.first >>> 0);
}

/** The common start of several sums. */
export function mixStart(values: readonly SumValue[], start = START): Readonly<Lanes> {
  const lanes = { first: start.first, second: start.second };
  for (const value of values) {
    if (typeof value === 'string') mixText(lanes, value);
    else if (typeof value === 'number') mixNumber(lanes, value);
    else if (value === null) mixWord(lanes, TAG.null);
    else mixBytes(lanes, value);
  }
  return lanes;
}

/** Each step is cut to 32 bits at once: where a sum is more, compiled code is left, and made anew. */
function mixWord(lanes: Lanes, word: number): void {
  const first = Math.imul(lanes.first ^ word, FIRST_FACTOR);
  lanes.first = first ^ (first >>> 15);
  const second = Math.imul((lanes.second + word) | 0, SECOND_FACTOR);
  lanes.second = second ^ (second >>> 13);
}

function mixNumber(lanes: Lanes, value: number): void {
  mixWord(lanes, TAG.number);
  mixWord(lanes, value | 0);
  mixWord(lanes, Math.floor(value / 2 ** 32) | 0);
  // No row has a fraction, unless it is damaged.
  if (!Number.isInteger(value)) mixWord(lanes, TAG.string);
}

/** The lanes are in variables meanwhile: hashes are the most of every sum, and the first thousands are mixed by unoptimised code. */
function mixText(lanes: Lanes, text: string): void {
  mixWord(lanes, TAG.string);
  let { first, second } = lanes;
  for (let index = 0; index < text.length; index += 1) {
    const word = text.charCodeAt(index);
    first = Math.imul(first ^ word, FIRST_FACTOR);
    first ^= first >>> 15;
    second = Math.imul((second + word) | 0, SECOND_FACTOR);
    second ^= second >>> 13;
  }
  lanes.first = first;
  lanes.second = second;
  mixWord(lanes, text.length);
}

function mixBytes(lanes: Lanes, bytes: Uint8Array): void {
  mixWord(lanes, TAG.bytes);
  const { length } = bytes;
  const end = length - (length % 4);
  for (let at = 0; at < end; at += 4) {
    mixWord(lanes, pairAt(bytes, at) | (pairAt(bytes, at + 2) << 16));
  }
  for (let at = end; at < length; at += 1) mixWord(lanes, bytes[at] as number);
  mixWord(lanes, length);
}

function pairAt(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

/**
 * The term that one value adds to the linear part. A wrong bit in the header of a record makes null, text or bytes of a number, and
 * arithmetic would take these for 0: NaN, so that the row has no sum.
 */
const term = (weight: number, value: number): number =>
  typeof value === 'number' ? weight * value : Number.NaN;

/** The same for a value that may be very large, such as a count of root refs: then it is mixed. */
function weigh(weight: number, value: number): number {
  if (typeof value !== 'number') return Number.NaN;
  // Larger values would leave the integers that a number holds exactly.
  const isLinear = value <= 2 ** 44 && value >= -(2 ** 44);
  return isLinear ? weight * value : mixValues([weight, value]);
}

/** Whether a sum that a row carries is the one that its values have. */
export function isSum(kept: unknown, found: number): boolean {
  return kept === found && Number.isSafeInteger(found);
}

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

export const commitMarkSum = (domain: SumValue, { markedAt, revision }: CommitMark): number =>
  mixValues(['commit_marks', domain, markedAt, revision]);

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
    term(DOMAIN_WEIGHTS.revision, row.revision) +
    term(DOMAIN_WEIGHTS.historyFloor, row.historyFloor) +
    term(DOMAIN_WEIGHTS.commitCount, row.commitCount) +
    term(DOMAIN_WEIGHTS.balanceCount, row.balanceCount) +
    term(DOMAIN_WEIGHTS.walkedFrom, row.walkedFrom) +
    term(DOMAIN_WEIGHTS.walkedUntil, row.walkedUntil) -
    DOMAIN_WEIGHTS.walkedUntil * WALK_UNKNOWN
  );
}

/** The weights are odd and distinct. An engine may add the terms of `packUseSum` by itself. */
export function packSum(space: SumValue, row: PackRow): number {
  const { id, generation, asked, bytes, reserved } = row;
  return (
    mixValues([space, id, generation]) +
    mixValues([row.state, asked, bytes ?? null, row.isDiscarded ? 1 : 0]) +
    term(W1, row.createdAt) +
    term(W2, row.urlExpiresAt) +
    term(W3, row.touchedAt) +
    term(W4, row.publishedCount) +
    term(W5, reserved.bytes) +
    term(W6, reserved.nodes)
  );
}

export function packUseSum({ liveRecords, liveBytes, firstDeadAt }: PackUse): number {
  return term(W7, liveRecords) + term(W8, liveBytes) + term(W9, firstDeadAt);
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
const timesSum = ({ urlExpiresAt, touchedAt }: UploadRow): number =>
  term(W1, urlExpiresAt) + term(W2, touchedAt);

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

export function looseEdgesSum(space: SumValue, hash: string, count: number): number {
  return mixValues([space, hash, count]);
}

export function discardSum(space: SumValue, { generation, dueAt, urlExpiresAt }: DiscardRow): number {
  return mixValues([space, generation, dueAt, urlExpiresAt]);
}

/** Added to the sum of a tombstone for each ms by which it was seen later. */
export const SEEN_WEIGHT = W1;

export function tombstoneSum(generation: string, notedAt: number, seenAt: number): number {
  return mixValues([generation, notedAt]) + term(SEEN_WEIGHT, seenAt);
}

/** The weight of the mark that a Space was purged, beside its counters. */
export const PURGED_WEIGHT = W8;

/** The terms that the counters of a Space, or changes of them, add to the sum of its row. */
export function countersSum(counters: KeptCounters, watermark: number): number {
  return (
    term(W1, counters.nodeCount) +
    term(W2, counters.readyContentBytes) +
    term(W3, counters.readyStoredBytes) +
    term(W4, counters.waitingBytes) +
    term(W5, counters.notReadyNodeCount) +
    term(W6, counters.leasedCount) +
    term(W7, watermark)
  );
}

const STATE_CODES: Readonly<Record<NodeRowState, number>> = { waiting: 0, ready: 1, rotten: 2, claimed: 3 };
const STORAGE_CODES: Readonly<Record<NodeStorage, number>> = { object: 0, inline: 1, packed: 2 };

type NodeNumbers = Omit<
  NodeRow,
  'hash' | 'size' | 'canonicalSize' | 'contentType' | 'refs' | 'generation' | 'state' | 'storage'
>;

/** Odd and distinct. An engine that adds to a sum in SQL names them too. */
export const NODE_WEIGHTS: Readonly<Record<keyof NodeNumbers | 'state' | 'storage', number>> = {
  state: 3,
  storage: 5,
  storedSize: 7,
  leaseStartedAt: 9,
  leaseExpiresAt: 11,
  childRefCount: 13,
  rootRefCount: 15,
  heldDomainCount: 17,
  waitingTouchedAt: 19,
  claimHeldUntil: 21,
};

/** The values of a row that change, as a number that `nodeSum` contains. */
function changingSum(row: NodeRow): number {
  return (
    NODE_WEIGHTS.state * STATE_CODES[row.state] +
    NODE_WEIGHTS.storage * STORAGE_CODES[row.storage] +
    weigh(NODE_WEIGHTS.storedSize, row.storedSize) +
    weigh(NODE_WEIGHTS.leaseStartedAt, row.leaseStartedAt) +
    weigh(NODE_WEIGHTS.leaseExpiresAt, row.leaseExpiresAt) +
    weigh(NODE_WEIGHTS.childRefCount, row.childRefCount) +
    weigh(NODE_WEIGHTS.rootRefCount, row.rootRefCount) +
    weigh(NODE_WEIGHTS.heldDomainCount, row.heldDomainCount) +
    weigh(NODE_WEIGHTS.waitingTouchedAt, row.waitingTouchedAt) +
    weigh(NODE_WEIGHTS.claimHeldUntil, row.claimHeldUntil)
  );
}

export function nodeSum(space: SumValue, row: NodeRow): number {
  const { hash, size, canonicalSize, contentType, refs, generation } = row;
  const fixed = mixValues([space, hash, size, canonicalSize, contentType, refs]);
  return fixed + mixValues([generation]) + changingSum(row);
}

/** The difference that a change adds to the sum of the row. Values that never change are not read. */
export function nodeSumChange(before: NodeRow, after: NodeRow): number {
  const change = changingSum(after) - changingSum(before);
  if (after.generation === before.generation) return change;
  return change + mixValues([after.generation]) - mixValues([before.generation]);
}

/** Inline bytes are not in it: the hash of their node proves them. */
export function contentSum(space: SumValue, row: ContentRow): number {
  const { generation, canonicalSize, integrity, urlExpiresAt, packed } = row;
  const place = packed === undefined ? [] : [packed.pack, packed.offset, packed.storedLength, packed.codec];
  return mixValues([space, generation, canonicalSize, urlExpiresAt, integrity, ...place]);
}
