/** Whether one order of the commits explains every answer of a history. The order is known: each commit that was made has a revision. */
import type { Commit, Conflict, History, Lease, List, Span } from './history.ts';

/** A line for each answer that nothing explains. */
export function checkHistory({ commits, conflicts, lists, leases, wrong }: History): string[] {
  const made = commits.filter(({ revisions }) => revisions.size > 0);
  const order = new Order(made);
  return [
    ...wrong,
    ...order.wrong,
    ...lists.flatMap((list) => checkList(order, list)),
    ...conflicts.flatMap((conflict) => checkConflict(order, conflict)),
    ...checkLeases(leases),
  ];
}

class Order {
  readonly wrong: string[] = [];
  readonly #commits: readonly Commit[];
  readonly #answered: Latest;
  readonly #begun: Latest;
  /** balances after each revision, from 0 on */
  readonly #balances: ReadonlyMap<string, number>[] = [new Map()];

  constructor(made: readonly Commit[]) {
    this.#commits = [...made].sort((left, right) => revisionOf(left) - revisionOf(right));
    for (const commit of this.#commits) this.#add(commit);
    this.#answered = new Latest(made, endOf);
    this.#begun = new Latest(made, ({ start }) => start);
    // A commit that had been answered before another began comes first.
    let lastStart = -1;
    for (const { requestId, start, end = Number.POSITIVE_INFINITY } of this.#commits) {
      if (end < lastStart)
        this.wrong.push(`${requestId} had ended before one with an earlier revision began`);
      lastStart = Math.max(lastStart, start);
    }
  }

  #add(commit: Commit): void {
    const { requestId, revisions, changes } = commit;
    if (revisions.size > 1) this.wrong.push(`${requestId} was answered the revisions ${[...revisions]}`);
    if (revisionOf(commit) !== this.#balances.length)
      this.wrong.push(`${requestId} has revision ${revisionOf(commit)}, after ${this.#balances.length - 1}`);
    const balances = new Map(this.#balances.at(-1));
    for (const [hash, delta] of changes) {
      const balance = (balances.get(hash) ?? 0) + delta;
      if (balance < 0) this.wrong.push(`${requestId} leaves the balance ${balance} of ${hash}`);
      if (balance === 0) balances.delete(hash);
      else balances.set(hash, balance);
    }
    this.#balances.push(balances);
  }

  at(revision: number): ReadonlyMap<string, number> | undefined {
    return this.#balances[revision];
  }

  /** The revisions that a request may have met: all that was answered before it, and nothing that began after it. */
  window({ start, end }: Span): readonly [number, number] {
    return [this.#answered.before(start), this.#begun.before(end)];
  }
}

/** The largest revision up to an instant. */
class Latest {
  readonly #instants: readonly number[];
  readonly #revisions: readonly number[];

  constructor(commits: readonly Commit[], instantOf: (commit: Commit) => number) {
    const sorted = [...commits].sort((left, right) => instantOf(left) - instantOf(right));
    this.#instants = sorted.map(instantOf);
    let latest = 0;
    this.#revisions = sorted.map((commit) => {
      latest = Math.max(latest, revisionOf(commit));
      return latest;
    });
  }

  before(instant: number): number {
    let [from, to] = [0, this.#instants.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#instants[middle] as number) < instant) from = middle + 1;
      else to = middle;
    }
    return this.#revisions[from - 1] ?? 0;
  }
}

const revisionOf = ({ revisions }: Commit): number => Math.min(...revisions);
/** A commit whose answer is not there yet comes before nothing. */
const endOf = ({ end }: Commit): number => end ?? Number.MAX_SAFE_INTEGER;

function checkList(order: Order, list: List): string[] {
  const [first = 0, ...others] = list.revisions;
  if (others.length > 0) return [`a list has the revisions ${[...list.revisions]}`];
  const [from, to] = order.window(list);
  if (first < from || first > to) return [`a list is of revision ${first}, and only ${from} to ${to} may be`];
  const due = order.at(first) ?? new Map();
  const isRight =
    due.size === list.balances.size &&
    [...due].every(([hash, balance]) => list.balances.get(hash) === balance);
  return isRight ? [] : [`the list of revision ${first} is not what its commits come to`];
}

/** At some revision that it may have met, a balance would have become negative. */
function checkConflict(order: Order, conflict: Conflict): string[] {
  const [from, to] = order.window(conflict);
  const { requestId, changes } = conflict.commit;
  for (let revision = from; revision <= to; revision += 1) {
    const balances = order.at(revision);
    if ([...changes].some(([hash, delta]) => (balances?.get(hash) ?? 0) + delta < 0)) return [];
  }
  return [`${requestId} was refused, and at each of the revisions ${from} to ${to} it could be made`];
}

/** A lease never becomes shorter. */
function checkLeases(leases: readonly Lease[]): string[] {
  return leases.flatMap((later) => {
    const isShorter = (earlier: Lease): boolean =>
      earlier.hash === later.hash &&
      earlier.end < later.start &&
      earlier.leaseExpiresAt > later.leaseExpiresAt;
    return leases.some(isShorter) ? [`a lease of ${later.hash} became shorter`] : [];
  });
}
