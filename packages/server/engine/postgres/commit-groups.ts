/**
 * Commits of root refs that arrive while another of their Space is on its way go together: one transaction reads for all of them in
 * one trip, runs their bodies one after another on what it read, and writes and commits once. Under load a commit thus costs a
 * fraction of a transaction; alone it costs what it always did.
 */
import type { SpaceKey } from '../../core/model.ts';
import {
  type Awaitable,
  type RootRefReads,
  type SpaceTransaction,
  StoreUnavailable,
} from '../../core/ports.ts';

/** What a body threw is its own; nothing else of the group knows of it. */
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
  /** undefined: they got in the way of each other, or of others, and nothing has changed: each is to run by itself */
  runTogether(commits: readonly GroupedCommit[]): Promise<readonly Outcome[] | undefined>;
  runAlone(body: Body): Promise<Outcome>;
}

interface Job extends GroupedCommit {
  /** its group did not get through, so it is to run by itself */
  isAlone: boolean;
  /** while it waits */
  timer: ReturnType<typeof setTimeout> | undefined;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** changes of one group, so that it does not hold its rows for long */
const CHANGES_MAX = 2_000;
const COMMITS_MAX = 64;
/** those of a group that did not get through which run by themselves at once: each takes a connection from everybody else */
export const ALONE_AT_ONCE_MAX = 4;
/** ms a commit waits to begin, each time: those before it have given up by then, so the store is in trouble */
const WAIT_MS_MAX = 10_000;

export class CommitGroups {
  /** by Space, while a commit of it is on its way: those that wait for the next group */
  readonly #waiting = new Map<SpaceKey, Job[]>();
  readonly #waitMs: number;

  constructor(waitMs = WAIT_MS_MAX) {
    this.#waitMs = waitMs;
  }

  /**
   * Runs it at once where no other commit of the Space is on its way, else with the next group. Rejects with what kept its
   * transaction from committing, or with StoreUnavailable when that has not begun for too long: then it never does.
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
      // Not begun, so nothing of it was done.
      waiting.splice(waiting.indexOf(job), 1);
      job.reject(new StoreUnavailable('too many commits of this Space wait for the database: try again'));
    }, this.#waitMs);
  }

  /** One group after another until nobody waits. */
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

/** The next that run at the same time: a group, or what an earlier one has left. */
function takeGroup(waiting: Job[]): Job[] {
  let changes = 0;
  const isAlone = waiting[0]?.isAlone;
  const end = waiting.findIndex((job, index) => {
    changes += job.reads.hashes.length;
    if (isAlone) return !job.isAlone || index >= ALONE_AT_ONCE_MAX;
    return index > 0 && (changes > CHANGES_MAX || index >= COMMITS_MAX);
  });
  const group = waiting.splice(0, end === -1 ? waiting.length : end);
  for (const { timer } of group) clearTimeout(timer);
  return group;
}

/** Resolves with those that are to run by themselves. */
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
