/** A page of root-ref balances as of one revision: the current table and the history, merged in hash order. */
import type { Hash } from '@holdfast/protocol';
import type { RootRefBalance } from '../../core/model.ts';
import { bytesToHex, hexToBytes } from './rows.ts';
import type { ReadStatements } from './statements.ts';

const BEFORE_ALL = new Uint8Array(0);

interface PageRequest {
  readonly revision: number | 'current';
  readonly after: Hash | undefined;
  readonly limit: number;
}

/** Call inside one read transaction. `undefined` when the history of that revision is gone or has not been yet. */
export function findBalancePage(
  sql: ReadStatements,
  spaceId: number,
  domain: string,
  page: PageRequest,
): { revision: number; items: RootRefBalance[] } | undefined {
  const row = sql.findDomain.get(spaceId, domain);
  const latest = (row?.revision as number | undefined) ?? 0;
  const revision = page.revision === 'current' ? latest : page.revision;
  if (revision > latest) return undefined;
  if (row === null) return { revision, items: [] };
  if (revision < (row.history_floor as number)) return undefined;
  const id = row.id as number;
  const after = page.after === undefined ? BEFORE_ALL : hexToBytes(page.after);
  const items =
    revision === latest
      ? findCurrent(sql, id, after, page.limit)
      : mergeInOrder(
          walkCurrent(sql, id, revision, after, page.limit),
          walkHistory(sql, id, revision, after),
          page.limit,
        );
  return { revision, items };
}

function findCurrent(sql: ReadStatements, id: number, after: Uint8Array, limit: number): RootRefBalance[] {
  return sql.findBalances.all(id, after, limit).map((row) => ({
    hash: bytesToHex(row.hash as Uint8Array),
    balance: row.balance as number,
  }));
}

/** Balances that already stood at `revision` and still stand. */
function* walkCurrent(
  sql: ReadStatements,
  id: number,
  revision: number,
  start: Uint8Array,
  limit: number,
): Generator<RootRefBalance> {
  let after = start;
  for (;;) {
    const rows = sql.findBalances.all(id, after, limit);
    for (const row of rows) {
      if ((row.from_revision as number) > revision) continue;
      yield { hash: bytesToHex(row.hash as Uint8Array), balance: row.balance as number };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) return;
    after = last.hash as Uint8Array;
  }
}

/** Balances that stood at `revision` and were superseded since. A hash with a long history costs two seeks, not a walk. */
function* walkHistory(
  sql: ReadStatements,
  id: number,
  revision: number,
  start: Uint8Array,
): Generator<RootRefBalance> {
  let after = start;
  for (;;) {
    const next = sql.findHistoryHash.get(id, after);
    if (next === null) return;
    after = next.hash as Uint8Array;
    const row = sql.findHistoryAt.get(id, after, revision);
    if (row !== null && (row.to_revision as number) > revision) {
      yield { hash: bytesToHex(after), balance: row.balance as number };
    }
  }
}

/** A hash stands in one of the two at most: it was superseded after `revision` or it was not. */
function mergeInOrder(
  left: Generator<RootRefBalance>,
  right: Generator<RootRefBalance>,
  limit: number,
): RootRefBalance[] {
  const items: RootRefBalance[] = [];
  let a = left.next();
  let b = right.next();
  while (items.length < limit && !(a.done && b.done)) {
    if (b.done || (!a.done && a.value.hash < b.value.hash)) {
      items.push(a.value as RootRefBalance);
      a = left.next();
    } else {
      items.push(b.value);
      b = right.next();
    }
  }
  return items;
}
