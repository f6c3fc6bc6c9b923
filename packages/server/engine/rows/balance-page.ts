/** A page of root-ref balances as of one revision: the current table and the history, merged in hash order by steps. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../core/awaitable.ts';
import type { RootRefBalance } from '../../core/model.ts';
import type { BalancesAt } from '../../core/ports.ts';

export interface BalancePageRequest {
  readonly revision: number | 'current';
  readonly after: Hash | undefined;
  readonly limit: number;
}

/** The balance of a hash by one table; null if the table has none at that revision. Every row is proven. */
export interface Passed {
  readonly hash: Hash;
  readonly balance: number | null;
}

/** Rows of one bounded read, in hash order. */
export interface BalanceStep {
  readonly revision: number;
  readonly walkedUntil: number;
  readonly current: readonly Passed[];
  /** without rows at the latest revision */
  readonly history: readonly Passed[];
  /** false: the domain has no row, so there is nothing to count at its end */
  readonly isKnown: boolean;
}

export interface BalanceReads {
  /** `limit` rows at the latest revision, else `rowsMax` of each table; fewer only at the end. `undefined`: that history is gone. */
  readStep(page: BalancePageRequest, rowsMax: number): Awaitable<BalanceStep | undefined>;
  /** At the end of a walk: a balance whose row says another domain is met by none of its pages. @throws StoreUnavailable, as damage */
  assertAllThere(): Awaitable<void>;
}

/** The balances of a revision never change, so the steps of a page need not see the same commit. */
export async function readBalancePage(
  reads: BalanceReads,
  page: BalancePageRequest,
  // A step has to skip rows of later revisions.
  stepRowsMax: number = 1_000,
): Promise<BalancesAt | undefined> {
  const items: RootRefBalance[] = [];
  const rowsMax = Math.min(stepRowsMax, Math.max(256, page.limit));
  let { revision, after } = page;
  for (;;) {
    const step = await reads.readStep({ revision, after, limit: page.limit }, rowsMax);
    if (step === undefined) return undefined;
    const { passed, resumeAfter } = mergeStep(step.current, step.history, rowsMax);
    for (const { hash, balance } of passed) {
      if (balance === null) continue;
      items.push({ hash, balance });
      if (items.length === page.limit)
        return { revision: step.revision, walkedUntil: step.walkedUntil, items };
    }
    if (resumeAfter === undefined) {
      if (step.isKnown) await reads.assertAllThere();
      return { revision: step.revision, walkedUntil: step.walkedUntil, items };
    }
    revision = step.revision;
    after = resumeAfter;
    // If the rows are in this process, requests run between two steps.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Merges both in hash order, up to the hash where one was cut off at `rowsMax`. A hash has a balance in at most one of them. */
export function mergeStep(
  current: readonly Passed[],
  history: readonly Passed[],
  rowsMax: number,
): { readonly passed: readonly Passed[]; readonly resumeAfter: Hash | undefined } {
  const ends = [current, history]
    .filter((rows) => rows.length >= rowsMax)
    .map((rows) => (rows.at(-1) as Passed).hash);
  const resumeAfter = ends.sort()[0];
  const passed = [...current, ...history].filter(
    ({ hash }) => resumeAfter === undefined || hash <= resumeAfter,
  );
  passed.sort((left, right) => (left.hash < right.hash ? -1 : Number(left.hash > right.hash)));
  return { passed, resumeAfter };
}
