/**
 * Commits of root refs that arrive while another of their Space is on its way go together: one transaction reads for all of them in
 * one trip, runs their bodies one after another on what it read, and writes and commits once. Under load a commit thus costs a
 * fraction of a transaction; alone it costs what it always did. A body is known for a commit by what it asks for first.
 */
import type { Hash } from '@holdfast/protocol';
import type { SpaceKey } from '../../../core/model.ts';
import { type Awaitable, type SpaceTransaction, StoreUnavailable } from '../../../core/ports.ts';
import type { RootRefReads } from './root-ref-ledger.ts';

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

interface Job extends GroupedCommit {
  /** while it waits */
  readonly timer: ReturnType<typeof setTimeout>;
  settle(outcome: Promise<Outcome> | Outcome): void;
}

interface CommitGroupsOptions {
  /** undefined: they got in the way of each other, or of others, and nothing has changed: each is to run by itself */
  runTogether(commits: readonly GroupedCommit[]): Promise<readonly Outcome[] | undefined>;
  runAlone(body: Body): Promise<Outcome>;
}

/** changes of one group, so that it does not hold its rows for long */
const CHANGES_MAX = 2_000;
const COMMITS_MAX = 64;
/** ms a commit waits for its group to begin: those before it have given up by then, so the store is in trouble */
const WAIT_MS_MAX = 10_000;

export class CommitGroups {
  /** by Space, while a commit of it is on its way: those that wait for the next group */
  readonly #waiting = new Map<SpaceKey, Job[]>();
  readonly #waitMs: number;

  constructor(waitMs = WAIT_MS_MAX) {
    this.#waitMs = waitMs;
  }

  isBusy(space: SpaceKey): boolean {
    return this.#waiting.has(space);
  }

  /**
   * Tells that a commit of the Space is on its way alone: those that come meanwhile join the next group. Call the result when it
   * has ended. Undefined where one is on its way already.
   */
  begin(space: SpaceKey, options: CommitGroupsOptions): (() => void) | undefined {
    if (this.isBusy(space)) return undefined;
    this.#waiting.set(space, []);
    return () => void this.#drain(space, options);
  }

  /**
   * Joins the next group of a Space that is busy. Rejects with what kept the group from committing, or with StoreUnavailable when
   * none has begun for too long.
   */
  join(space: SpaceKey, commit: GroupedCommit): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(space);
      const job: Job = { ...commit, settle: resolve, timer: setTimeout(() => refuse(), this.#waitMs) };
      const refuse = (): void => {
        // Not taken into a group yet, so nothing of it was done.
        waiting?.splice(waiting.indexOf(job), 1);
        reject(new StoreUnavailable('too many commits of this Space wait for the database: try again'));
      };
      waiting?.push(job);
    });
  }

  /** One group after another until nobody waits. */
  async #drain(space: SpaceKey, options: CommitGroupsOptions): Promise<void> {
    for (;;) {
      const group = takeGroup(this.#waiting.get(space) ?? []);
      if (group.length === 0) break;
      await runGroup(group, options);
    }
    this.#waiting.delete(space);
  }
}

function takeGroup(waiting: Job[]): Job[] {
  let changes = 0;
  const end = waiting.findIndex(({ reads }, index) => {
    changes += reads.hashes.length;
    return index > 0 && (changes > CHANGES_MAX || index >= COMMITS_MAX);
  });
  const group = waiting.splice(0, end === -1 ? waiting.length : end);
  for (const { timer } of group) clearTimeout(timer);
  return group;
}

async function runGroup(
  group: readonly Job[],
  { runTogether, runAlone }: CommitGroupsOptions,
): Promise<void> {
  let outcomes: readonly Outcome[] | undefined;
  try {
    outcomes = group.length > 1 ? await runTogether(group) : undefined;
  } catch (error) {
    for (const { settle } of group) settle(Promise.reject(error));
    return;
  }
  const alone: Promise<Outcome>[] = [];
  for (const [index, { body, settle }] of group.entries()) {
    const outcome = outcomes?.[index] ?? runAlone(body);
    settle(outcome);
    if (outcome instanceof Promise) alone.push(outcome);
  }
  await Promise.allSettled(alone);
}

/**
 * What a body asks for before it waits for the first time, if that is what a commit reads and nothing else. The body is run for it
 * and left where it waits, for ever; it may be run again, by contract.
 */
export function findCommitReads(body: Body): RootRefReads | undefined {
  const asked = new Map<string, readonly unknown[]>();
  const never = new Promise<never>(() => undefined);
  const probe = new Proxy({} as SpaceTransaction, {
    get:
      (_target, verb) =>
      (...parameters: unknown[]) => {
        asked.set(String(verb), parameters);
        return never;
      },
  });
  try {
    Promise.resolve(body(probe)).catch(() => undefined);
  } catch {
    return undefined;
  }
  const [domain, requestId] = asked.get('findRootRefCommit') ?? [];
  const [hashes] = asked.get('findNodes') ?? [];
  const isCommit = [...asked.keys()].every((verb) => READS_OF_A_COMMIT.has(verb));
  if (!isCommit || typeof domain !== 'string' || typeof requestId !== 'string' || !Array.isArray(hashes)) {
    return undefined;
  }
  return { domain, requestId, hashes: hashes as Hash[] };
}

const READS_OF_A_COMMIT: ReadonlySet<string> = new Set([
  'findRootRefCommit',
  'findRevision',
  'findNodes',
  'findBalances',
]);
