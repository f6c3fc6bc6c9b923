/**
 * What the values of a damaged row must be, by the rows that they follow from. Where these are proven the values are theirs; elsewhere a
 * count only rises, and a node is kept for a day.
 */
import { HASH_BYTES, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { isCollectable } from '../../../core/eligibility.ts';
import { balanceSum, nodeSums, useSum } from '../row-sums.ts';
import { findProvenContent, type ReadNode, readNode } from '../rows.ts';
import { spaceKeyFromSql } from '../space-names.ts';
import { NODE_COLUMNS } from '../statements.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { byteaToHex, type SqlRow } from '../wire/sql-values.ts';
import type { StoredValues } from './stored-rows.ts';

const COUNTING = 'recounting a row';
const COUNT_MAX = 2 ** 40;
/** as the column `state` says them */
const STATE_CODES = { waiting: 0, ready: 1, rotten: 2, claimed: 3 } as const;

/** of a state that there is not: no sum fits it */
const NO_STATE = -1;

const FIND_PARENTS = `SELECT ${NODE_COLUMNS} FROM nodes WHERE space = $1 AND hash > $3 AND position($2::bytea IN refs) > 0
  ORDER BY hash LIMIT 500`;
const FIND_BALANCES = `SELECT balances.domain, balances.hash, balances.balance, balances.from_revision, balances.row_sum
  FROM domains JOIN balances ON balances.space = domains.space AND balances.domain = domains.domain AND balances.hash = $2
  WHERE domains.space = $1`;
const FIND_CHILDREN = `SELECT count(*) AS ready FROM nodes WHERE space = $1 AND hash = ANY ($2::bytea[]) AND state = ${STATE_CODES.ready}`;
const READ_NOW = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now';
const FIND_RECORDS = `SELECT generation, canonical_size, url_expires_at, integrity, NULL::bytea AS inline_bytes, pack, pack_offset,
    stored_length, codec, row_sum, place_sum FROM contents WHERE space = $1 AND pack = $2`;

interface Counts {
  readonly children: number;
  readonly roots: number;
  readonly domains: number;
  readonly isProven: boolean;
}

/**
 * `row`: one bit does not explain it. `isAlone`: false if another row of the Space may hold an edge or a balance and is not proven.
 * undefined: the values that never change are damaged.
 */
export async function findNodeMend(
  pool: PostgresPool,
  row: SqlRow,
  isAlone: boolean,
): Promise<StoredValues | undefined> {
  const space = spaceKeyFromSql(row.space);
  const node = readNode(space, row);
  const columns = columnsOf(row, node);
  if (row.fixed_sum !== nodeSums(space, node.row, columns).fixed) return undefined;
  const counts = await countNode(pool, space, node);
  const exact = withCounts(node, counts);
  for (const isLeaseCounted of [false, true]) {
    const sums = nodeSums(space, exact.row, { ...columnsOf(row, exact), isLeaseCounted });
    // With these counts the row has the sum that was written with it.
    if (sums.row === row.row_sum) return toStored({ ...exact, isLeaseCounted }, sums.row);
  }
  const kept = counts.isProven && isAlone ? exact : withCounts(node, highest(node, counts));
  const safe = await keepForADay(pool, space, kept);
  return toStored(safe, nodeSums(space, safe.row, columnsOf(row, safe)).row, stateCode(safe));
}

const stateCode = ({ row }: ReadNode): number => STATE_CODES[row.state] ?? NO_STATE;

function columnsOf(row: SqlRow, node: ReadNode) {
  return {
    state: stateCode(node),
    isInline: row.inline as boolean,
    isPacked: row.packed as boolean,
    storedSize: row.stored_size as number | null,
    isCollectable: isCollectable(node.row),
    isLeaseCounted: node.isLeaseCounted,
  };
}

async function countNode(pool: PostgresPool, space: string, { row }: ReadNode): Promise<Counts> {
  const key = `\\x${row.hash}`;
  let children = 0;
  let isProven = true;
  for (let after = '\\x'; ; ) {
    const { rows } = await pool.read(COUNTING, FIND_PARENTS, [space, key, after]);
    for (const found of rows) {
      const parent = readNode(space, found);
      isProven &&= parent.isProven;
      children += occurrences(parent.row.refs, row.hash);
    }
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.hash as string;
  }
  const { rows } = await pool.read(COUNTING, FIND_BALANCES, [space, key]);
  let roots = 0;
  for (const found of rows) {
    const [domain, balance] = [found.domain as string, found.balance as number];
    const sum = balanceSum(space, { domain, hash: row.hash, balance, since: found.from_revision as number });
    isProven &&= found.row_sum === null || found.row_sum === sum;
    roots += balance;
  }
  return { children, roots: Math.max(0, roots), domains: rows.length, isProven };
}

function occurrences(refs: Uint8Array, hash: string): number {
  let count = 0;
  for (let at = 0; at < refs.length; at += HASH_BYTES) {
    if (refs.subarray(at, at + HASH_BYTES).toHex() === hash) count += 1;
  }
  return count;
}

function highest({ row }: ReadNode, counts: Counts): Counts {
  const rise = (kept: number, counted: number): number => Math.max(Math.min(kept, COUNT_MAX), counted, 0);
  return {
    children: rise(row.childRefCount, counts.children),
    roots: rise(row.rootRefCount, counts.roots),
    domains: rise(row.heldDomainCount, counts.domains),
    isProven: false,
  };
}

const withCounts = (node: ReadNode, { children, roots, domains }: Counts): ReadNode => ({
  ...node,
  row: { ...node.row, childRefCount: children, rootRefCount: roots, heldDomainCount: domains },
});

/** The state is what the children allow: a row that is rotten gets ready once its bytes are read and right. */
async function keepForADay(pool: PostgresPool, space: string, { row }: ReadNode): Promise<ReadNode> {
  const now = (await pool.read(COUNTING, READ_NOW, [])).rows[0]?.now as number;
  const children = new Set<string>();
  for (let at = 0; at < row.refs.length; at += HASH_BYTES) {
    children.add(`\\x${row.refs.subarray(at, at + HASH_BYTES).toHex()}`);
  }
  const { rows } = await pool.read(COUNTING, FIND_CHILDREN, [space, [...children]]);
  const isWaiting = (rows[0]?.ready as number) < children.size;
  const started = row.leaseStartedAt > 0 && row.leaseStartedAt <= now ? row.leaseStartedAt : now;
  // No lease is longer, so none that was given ends later.
  const expires = now + LEASE_DURATION_MS_MAX;
  return {
    row: {
      ...row,
      state: isWaiting ? 'waiting' : 'rotten',
      leaseStartedAt: isWaiting ? 0 : started,
      leaseExpiresAt: isWaiting ? 0 : expires,
      waitingTouchedAt: isWaiting ? now : 0,
      claimHeldUntil: 0,
    },
    isLeaseCounted: !isWaiting,
    isProven: true,
    isFixedProven: true,
  };
}

function toStored({ row, isLeaseCounted }: ReadNode, sum: number, state?: number): StoredValues {
  return {
    row_sum: BigInt(sum),
    ...(state === undefined ? {} : { state: BigInt(state) }),
    lease_started_at: BigInt(row.leaseStartedAt),
    lease_expires_at: BigInt(row.leaseExpiresAt),
    child_ref_count: BigInt(row.childRefCount),
    root_ref_count: BigInt(row.rootRefCount),
    held_domain_count: BigInt(row.heldDomainCount),
    waiting_touched_at: BigInt(row.waitingTouchedAt),
    claim_held_until: BigInt(row.claimHeldUntil),
    collectable: isCollectable(row) ? 1n : 0n,
    lease_counted: isLeaseCounted ? 1n : 0n,
  };
}

/** undefined: more than its use is damaged, or the records cannot say what it holds. */
export async function findPackMend(pool: PostgresPool, row: SqlRow): Promise<StoredValues | undefined> {
  const space = spaceKeyFromSql(row.space);
  const generation = byteaToHex(row.generation);
  const { rows } = await pool.read(COUNTING, FIND_RECORDS, [space, row.generation as string]);
  const records = rows.map((found) => findProvenContent(space, found));
  if (records.includes(undefined)) return undefined;
  const bytes = records.reduce((sum, record) => sum + (record?.packed?.storedLength ?? 0), 0);
  const firstDeadAt = Math.max(0, Math.min(row.first_dead_at as number, Number.MAX_SAFE_INTEGER));
  if (records.length === 0) return undefined;
  const sum = useSum(space, generation, [records.length, bytes, firstDeadAt]);
  return { live_records: BigInt(records.length), live_bytes: BigInt(bytes), use_sum: BigInt(sum) };
}
