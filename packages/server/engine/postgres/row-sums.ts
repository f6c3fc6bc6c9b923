/**
 * The sums that rows carry (core/rows/row-sums.ts), from the values as the database has them. Most rows are written whole by a process that
 * has read and proven them, so their sum covers all values. A value that a statement changes by itself has a weight of its own: such a
 * statement adds `weight * (new - old)`, and never hides a wrong bit of another value.
 */
import type { Hash } from '@holdfast/protocol';
import type { CommitMark } from '../../core/commit-records.ts';
import type { ContentRow, Generation, NodeRow, RootRefCommit, SpaceKey } from '../../core/model.ts';
import { WALK_UNKNOWN, type WalkState } from '../../core/root-ref-walks.ts';
import { mixStart, mixValues, type SumValue } from '../../core/rows/row-sums.ts';
import type { SqlRow } from './wire/wire-messages.ts';

/** Root refs count further than a weight leaves room for: the digits behind this have their own. */
const ROOT_REF_HALF = 2 ** 40;

const NODE_WEIGHTS = {
  lease_started_at: 3,
  lease_expires_at: 5,
  child_ref_count: 7,
  root_refs_low: 11,
  root_refs_high: 13,
  waiting_touched_at: 17,
  claim_held_until: 19,
  held_domain_count: 23,
  state: 29,
  collectable: 31,
  lease_counted: 37,
} as const;

export interface NodeSums {
  readonly fixed: number;
  readonly row: number;
}

/** Values of a node that only its row has. */
export interface NodeColumns {
  /** as its column says it */
  readonly state: number;
  readonly isInline: boolean;
  readonly isPacked: boolean;
  /** null: the canonical size */
  readonly storedSize: number | null;
  readonly isCollectable: boolean;
  readonly isLeaseCounted: boolean;
}

/** `known`: the sum of the fixed values, if it is known from a proven earlier state of the row */
export function nodeSums(space: SpaceKey, row: NodeRow, columns: NodeColumns, known?: number): NodeSums {
  const { hash, generation, size, canonicalSize, contentType, refs } = row;
  const places = [columns.isInline ? 1 : 0, columns.isPacked ? 1 : 0, columns.storedSize];
  const fixed =
    known ?? mixValues([space, hash, generation, size, canonicalSize, contentType, refs, ...places]);
  const w = NODE_WEIGHTS;
  const changing =
    w.lease_started_at * row.leaseStartedAt +
    w.lease_expires_at * row.leaseExpiresAt +
    w.child_ref_count * row.childRefCount +
    w.root_refs_low * (row.rootRefCount % ROOT_REF_HALF) +
    w.root_refs_high * Math.floor(row.rootRefCount / ROOT_REF_HALF) +
    w.waiting_touched_at * row.waitingTouchedAt +
    w.claim_held_until * row.claimHeldUntil +
    w.held_domain_count * row.heldDomainCount +
    w.state * columns.state +
    w.collectable * (columns.isCollectable ? 1 : 0) +
    w.lease_counted * (columns.isLeaseCounted ? 1 : 0);
  return { fixed, row: fixed + changing };
}

const SAFE_MAX = Number.MAX_SAFE_INTEGER;

/** Whether the values of `nodes` that change fit its sum; those that never change are left to who reads them. No value overflows it. */
export const NODE_IS_PROVEN = `(row_sum IS NULL OR CASE
      WHEN least(lease_started_at, lease_expires_at, child_ref_count, root_ref_count, waiting_touched_at, claim_held_until) < 0
        OR greatest(lease_started_at, lease_expires_at, child_ref_count, root_ref_count, waiting_touched_at, claim_held_until) > ${SAFE_MAX}
      THEN false
      ELSE row_sum = fixed_sum + ${NODE_WEIGHTS.lease_started_at} * lease_started_at + ${NODE_WEIGHTS.lease_expires_at} * lease_expires_at
        + ${NODE_WEIGHTS.child_ref_count} * child_ref_count + ${NODE_WEIGHTS.root_refs_low} * (root_ref_count & ${ROOT_REF_HALF - 1})
        + ${NODE_WEIGHTS.root_refs_high} * (root_ref_count >> 40) + ${NODE_WEIGHTS.waiting_touched_at} * waiting_touched_at
        + ${NODE_WEIGHTS.claim_held_until} * claim_held_until + ${NODE_WEIGHTS.held_domain_count} * held_domain_count::bigint
        + ${NODE_WEIGHTS.state} * state::bigint + ${NODE_WEIGHTS.collectable} * collectable::integer
        + ${NODE_WEIGHTS.lease_counted} * lease_counted::integer END)`;

/** The sum of a row of `nodes` whose lease a statement moves to `started` and `expires`, and counts. */
export const sumOfRenewed = (started: string, expires: string): string =>
  `nodes.row_sum + ${NODE_WEIGHTS.lease_started_at} * (${started} - nodes.lease_started_at)
          + ${NODE_WEIGHTS.lease_expires_at} * (${expires} - nodes.lease_expires_at)
          + ${NODE_WEIGHTS.lease_counted} * (1 - nodes.lease_counted::integer)`;
/** The sum of a row whose counted lease a statement counts no more. */
export const SUM_OF_ENDED = `row_sum - ${NODE_WEIGHTS.lease_counted}`;

/** Inline bytes are proven by the hash of their node: here it counts whether there are any. */
export function contentSum(
  space: SpaceKey,
  { generation, canonicalSize, urlExpiresAt, inlineBytes }: ContentRow,
): number {
  return mixValues([space, generation, canonicalSize, urlExpiresAt, inlineBytes === undefined ? 0 : 1]);
}

/** The sum of the place of bytes: a record of a pack, or an object of their own. */
export function placeSum(
  space: SpaceKey,
  { generation, integrity, packed }: Pick<ContentRow, 'generation' | 'integrity' | 'packed'>,
): number {
  const place = packed === undefined ? [] : [packed.pack, packed.offset, packed.storedLength, packed.codec];
  return mixValues([space, generation, integrity, ...place]);
}

const USE_WEIGHTS = { live_records: 3, live_bytes: 5, first_dead_at: 7 } as const;

/** The sum of the use of a pack: its live records. */
export function useSum(
  space: SpaceKey,
  generation: Generation,
  [records, bytes, firstDeadAt]: readonly [number, number, number],
): number {
  const { live_records, live_bytes, first_dead_at } = USE_WEIGHTS;
  return (
    mixValues([space, generation]) + live_records * records + live_bytes * bytes + first_dead_at * firstDeadAt
  );
}

/** The sum of the use of a row of `packs` after a statement changed it by these amounts. */
export const sumOfUse = (records: string, bytes: string, firstDeadAt: string): string =>
  `packs.use_sum + ${USE_WEIGHTS.live_records} * ${records} + ${USE_WEIGHTS.live_bytes} * ${bytes}
          + ${USE_WEIGHTS.first_dead_at} * ((${firstDeadAt}) - packs.first_dead_at)`;

const DOMAIN_WEIGHTS = { revision: 3, history_floor: 5, walked_from: 7, walked_until: 11 } as const;

export interface DomainState extends WalkState {
  /** pages of revisions below this are gone */
  readonly floor: number;
}

/** The state of a domain by its row in `domains`. */
export const domainStateFromSql = (row: SqlRow): DomainState => ({
  floor: row.history_floor as number,
  walkedFrom: row.walked_from as number,
  walkedUntil: row.walked_until as number,
});

export function domainSum(
  space: SpaceKey,
  domain: string,
  revision: number,
  { floor, walkedFrom, walkedUntil }: DomainState,
): number {
  return (
    mixValues([space, domain]) +
    DOMAIN_WEIGHTS.revision * revision +
    DOMAIN_WEIGHTS.history_floor * floor +
    DOMAIN_WEIGHTS.walked_from * walkedFrom +
    DOMAIN_WEIGHTS.walked_until * (walkedUntil - WALK_UNKNOWN)
  );
}

/** The sum of a row of `domains` that a statement gives these values. */
export const sumOfDomain = (
  revision: string,
  historyFloor = 'domains.history_floor',
  [walkedFrom, walkedUntil] = ['domains.walked_from', 'domains.walked_until'],
): string =>
  `domains.row_sum + ${DOMAIN_WEIGHTS.revision} * (${revision} - domains.revision)
      + ${DOMAIN_WEIGHTS.history_floor} * (${historyFloor} - domains.history_floor)
      + ${DOMAIN_WEIGHTS.walked_from} * (${walkedFrom} - domains.walked_from)
      + ${DOMAIN_WEIGHTS.walked_until} * (${walkedUntil} - domains.walked_until)`;

const DOMAIN_COUNT_WEIGHTS = { commit_count: 3, balance_count: 5 } as const;

/** The sum of the numbers of commits and balances of a domain. `balances`: null if they are not counted. */
export const domainCountSum = (
  space: SpaceKey,
  domain: string,
  commits: number,
  balances: number | null,
): number =>
  mixValues(['counts', space, domain, balances === null ? 1 : 0]) +
  DOMAIN_COUNT_WEIGHTS.commit_count * commits +
  DOMAIN_COUNT_WEIGHTS.balance_count * (balances ?? 0);
/** The sum of a row of `domains` after a statement added these numbers of commits and balances. */
export const sumOfCounts = (commits: string, balances: string): string =>
  `domains.count_sum + ${DOMAIN_COUNT_WEIGHTS.commit_count} * (${commits})
      + ${DOMAIN_COUNT_WEIGHTS.balance_count} * CASE WHEN domains.balance_count IS NULL THEN 0 ELSE ${balances} END`;

const COUNTER_WEIGHTS = {
  node_count: 3,
  ready_content_bytes: 5,
  ready_stored_bytes: 7,
  waiting_bytes: 11,
  not_ready_node_count: 13,
  leased_count: 17,
} as const;
const WATERMARK_WEIGHT = 19;
export const COUNTER_COLUMNS = Object.keys(COUNTER_WEIGHTS) as (keyof typeof COUNTER_WEIGHTS)[];

/** The sum of an empty slot of the counters. */
export const slotSum = (space: SpaceKey, slot: number): number => mixValues(['usage_counters', space, slot]);
/** `values`: those of COUNTER_COLUMNS */
export const countersSum = (
  space: SpaceKey,
  slot: number,
  values: readonly number[],
  watermark: number,
): number =>
  COUNTER_COLUMNS.reduce(
    (sum, column, index) => sum + COUNTER_WEIGHTS[column] * (values[index] as number),
    slotSum(space, slot),
  ) +
  WATERMARK_WEIGHT * watermark;
/** Of slots of the counters together, in text: their numbers, sums and watermarks. They are of one Space. */
export const SLOTS_PROOF = `array_to_string(array_agg(slot), ' ') AS slots, sum(row_sum)::text AS slot_sums,
    sum(lease_watermark)::text AS slot_watermarks, count(*) > count(row_sum) AS is_older`;

/** Whether slots of Spaces together have the sums that their values give them. `row`: `SLOTS_PROOF` and the sums of their columns. */
export function areSlotsProven(row: SqlRow, slotsOf: ReadonlyMap<SpaceKey, string | null>): boolean {
  if (row.is_older === true) return true;
  let sum = BigInt(WATERMARK_WEIGHT) * BigInt((row.slot_watermarks as string | null) ?? 0);
  for (const column of COUNTER_COLUMNS) sum += BigInt(COUNTER_WEIGHTS[column] * (row[column] as number));
  for (const [space, slots] of slotsOf)
    for (const slot of slots?.split(' ') ?? []) sum += BigInt(slotSum(space, Number(slot)));
  return sum === BigInt((row.slot_sums as string | null) ?? 0);
}

/** The terms that the values of a slot add to its sum. */
export const sumOfCounters = (termOf: (column: string) => string, watermark: string): string =>
  [
    ...COUNTER_COLUMNS.map((column) => `${COUNTER_WEIGHTS[column]} * ${termOf(column)}`),
    `${WATERMARK_WEIGHT} * ${watermark}`,
  ].join(' + ');

const TOMBSTONE_WEIGHTS = { noted_at: 3, seen_at: 5 } as const;

export const tombstoneSum = (generation: Generation, notedAt: number, seenAt: number): number =>
  mixValues(['tombstones', generation]) +
  TOMBSTONE_WEIGHTS.noted_at * notedAt +
  TOMBSTONE_WEIGHTS.seen_at * seenAt;
/** The upsert of a tombstone: its first instant stays if the row is proven; otherwise it starts again. `excluded` has one instant. */
export const SETTLED_TOMBSTONE = (() => {
  const { noted_at: noted, seen_at: seen } = TOMBSTONE_WEIGHTS;
  const isProven = `tombstones.row_sum::numeric - ${noted} * tombstones.noted_at::numeric - ${seen} * tombstones.seen_at::numeric
      = excluded.row_sum - ${noted + seen} * excluded.seen_at`;
  return `noted_at = CASE WHEN ${isProven} THEN tombstones.noted_at ELSE excluded.noted_at END, seen_at = excluded.seen_at,
      row_sum = CASE WHEN ${isProven} THEN tombstones.row_sum + ${seen} * (excluded.seen_at - tombstones.seen_at) ELSE excluded.row_sum END`;
})();

/** The sum of a value that all processes share under a name. */
export const sharedSum = (name: string, value: string | Uint8Array): number => sumOf('shared', name, value);

/** Beside the mark that a Space was purged. */
export const PURGED_SUM = 20260727;

const SUPERSEDED_WEIGHT = 3;

/** A former balance and its revisions. */
export interface Superseded {
  readonly domain: string;
  readonly hash: Hash;
  readonly balance: number;
  readonly since: number;
  readonly until: number;
}

/** The sum of a row of history without the instant, which its statement may set. */
export const historySum = (space: SpaceKey, { domain, hash, balance, since, until }: Superseded): number =>
  mixValues([space, domain, hash, since, until, balance]);
export const withSuperseded = (sum: number, supersededAt: number): number =>
  sum + SUPERSEDED_WEIGHT * supersededAt;
export const sumWithSuperseded = (sum: string, supersededAt: string): string =>
  `${sum} + ${SUPERSEDED_WEIGHT} * ${supersededAt}`;

/** Where the sums of the rows of a domain begin. The last is kept, because such rows come together. */
function startsOf(table: string) {
  let last = { space: '', domain: '', start: mixStart([]) };
  return (space: SpaceKey, domain: string) => {
    if (last.space !== space || last.domain !== domain)
      last = { space, domain, start: mixStart([table, space, domain]) };
    return last.start;
  };
}
const [commitStart, requestStart, balanceStart] = [
  startsOf('root_ref_commits'),
  startsOf('request'),
  startsOf('balances'),
];

export const commitMarkSum = (space: SpaceKey, domain: string, { markedAt, revision }: CommitMark): number =>
  mixValues(['commit_marks', space, domain, markedAt, revision]);

export const commitSum = (space: SpaceKey, domain: string, commit: RootRefCommit): number =>
  mixValues([commit.requestId, commit.payloadDigest, commit.revision], commitStart(space, domain));

/** The sum of the name of a commit alone. */
export const requestSum = (space: SpaceKey, domain: string, requestId: string): number =>
  mixValues([requestId], requestStart(space, domain));

export function balanceSum(
  space: SpaceKey,
  { domain, hash, balance, since }: { domain: string; hash: Hash; balance: number; since: number },
): number {
  return mixValues([hash, balance, since], balanceStart(space, domain));
}

/** The sum of any other row. The first value is the name of the table, so that no row of one table is valid in another. */
export const sumOf = (...values: readonly SumValue[]): number => mixValues(values);
