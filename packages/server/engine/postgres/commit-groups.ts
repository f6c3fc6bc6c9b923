/**
 * Commits of root refs that arrive while another commit of their Space is under way form a group. One transaction reads for all
 * of them in one trip, runs their bodies one after another on what it read, and writes and commits once. So under load a commit
 * costs a fraction of a transaction. A commit alone costs one transaction.
 */
import type { Awaitable } from '../../core/awaitable.ts';
import type { SpaceKey } from '../../core/model.ts';
import type { RootRefReads, SpaceTransaction } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';

/** The result or error of one body. The other bodies of its group do not see it. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

export type Body = (tx: SpaceTransaction) => Awaitable<unknown>;

/** A commit in a group: what it reads, and its body. */
export interface GroupedCommit {
  readonly body: Body;
  readonly reads: RootRefReads;
}

interface CommitWays {
  /** undefined: other transactions were in the way, nothing has changed, and each commit has to run alone */
  runTogether(commits: readonly GroupedCommit[]): Promise<readonly Outcome[] | undefined>;
  runAlone(body: Body): Promise<Outcome>;
}

interface Job extends GroupedCommit {
  /** its group could not commit, so it runs alone */
  isAlone: boolean;
  /** while it waits */
  timer: ReturnType<typeof setTimeout> | undefined;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** commits that run alone at the same time when their group could not commit: each takes a connection that others need */
export const ALONE_AT_ONCE_MAX = 4;

export class CommitGroups {
  /** the commits that wait for the next group, by Space; a Space is here while one of its commits is under way */
  readonly #waiting = new Map<SpaceKey, Job[]>();
  readonly #waitMs: number;

  // The commits before it have timed out after this time, so the store is in trouble.
  constructor(waitMs = 10_000) {
    this.#waitMs = waitMs;
  }

  /**
   * Runs the commit at once if no other commit of the Space is under way, else with the next group. Rejects with what kept its
   * transaction from committing, or with StoreUnavailable when it waited too long to begin: then it never begins.
   */
  async run(space: SpaceKey, commit: GroupedCommit, ways: CommitWays): Promise<Outcome> {
    const waiting = this.#waiting.get(space);
    if (waiting !== undefined) {
      return new Promise((resolve, reject) => {
        const job: Job = { ...commit, isAlone: false, timer: undefined, resolve, reject };
        waiting.push(job);
        this.#limitWait(waiting, job);
      });
    }
    this.#waiting.set(space, []);
    try {
      return await ways.runAlone(commit.body);
    } finally {
      void this.#drain(space, ways);
    }
  }

  #limitWait(waiting: Job[], job: Job): void {
    job.timer = setTimeout(() => {
      // It had not begun, so it changed nothing.
      waiting.splice(waiting.indexOf(job), 1);
      job.reject(new StoreUnavailable('too many commits of this Space wait for the database: try again'));
    }, this.#waitMs);
  }

  /** Runs one group after another until no commit waits. */
  async #drain(space: SpaceKey, ways: CommitWays): Promise<void> {
    const waiting = this.#waiting.get(space) ?? [];
    for (let group = takeGroup(waiting); group.length > 0; group = takeGroup(waiting)) {
      const left = await runGroup(group, ways);
      waiting.unshift(...left);
      for (const job of left) this.#limitWait(waiting, job);
    }
    this.#waiting.delete(space);
  }
}

/** The commits that run next: a new group, or some of those that an earlier group left to run alone. */
function takeGroup(waiting: Job[]): Job[] {
  let changes = 0;
  const isAlone = waiting[0]?.isAlone;
  const end = waiting.findIndex((job, index) => {
    changes += job.reads.hashes.length;
    if (isAlone) return !job.isAlone || index >= ALONE_AT_ONCE_MAX;
    // A larger group would hold its rows for long.
    return index > 0 && (changes > 2_000 || index >= 64);
  });
  const group = waiting.splice(0, end === -1 ? waiting.length : end);
  for (const { timer } of group) clearTimeout(timer);
  return group;
}

/** Resolves with the commits that have to run alone. */
async function runGroup(group: Job[], { runTogether, runAlone }: CommitWays): Promise<Job[]> {
  if (group.length === 1 || group[0]?.isAlone) {
    await Promise.all(group.map(({ body, resolve, reject }) => runAlone(body).then(resolve, reject)));
    return [];
  }
  try {
    const outcomes = await runTogether(group);
    for (const [index, job] of group.entries()) {
      const outcome = outcomes?.[index];
      if (outcome === undefined) job.isAlone = true;
      else job.resolve(outcome);
    }
  } catch (error) {
    for (const { reject } of group) reject(error);
    return [];
  }
  return group.filter(({ isAlone }) => isAlone);
}
