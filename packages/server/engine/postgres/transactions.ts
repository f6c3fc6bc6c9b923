/** Runs bodies as transactions. A body that conflicts with another transaction runs again, for a bounded time. */
import type { Awaitable } from '../../core/awaitable.ts';
import { CounterBroken } from '../../core/invariant.ts';
import type { Space, SpaceKey } from '../../core/model.ts';
import type { RootRefReads, SpaceTransaction } from '../../core/ports.ts';
import { SpaceMap } from '../../core/space-map.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { type Body, CommitGroups, type GroupedCommit, type Outcome } from './commit-groups.ts';
import { isDeadlock, isLostAlone, isRepeatable, storageError } from './failure.ts';
import type { SeenUploads } from './seen-uploads.ts';
import type { SpaceKeys } from './space-names.ts';
import { PostgresSpaceTransaction } from './space-transaction.ts';
import type { DomainStart } from './tombstones.ts';
import type { UploadLimit } from './upload-limit.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { NowUnknown, RunAgain, TransactionWire } from './wire/transaction-wire.ts';

interface TransactionsOptions {
  readonly pool: PostgresPool;
  readonly uploadLimit: UploadLimit;
  readonly seenUploads: SeenUploads;
  readonly keys: SpaceKeys;
  readonly domainStart: DomainStart;
  slotOf(connection: PostgresConnection): number;
}

/** ms by the clock of a test; null for the database's clock. A function, because each run reads the clock again. */
type FindClock = () => number | null;

export class Transactions {
  readonly #options: TransactionsOptions;
  // A Space that is forgotten costs two statements more.
  readonly #known = new SpaceMap<true>(100_000);
  readonly #groups = new CommitGroups();
  #isClosed = false;

  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  /** With `reads` the body may share its transaction with other commits of the Space. */
  async run<T>(
    space: Space,
    clock: FindClock,
    body: (tx: SpaceTransaction) => Awaitable<T>,
    reads: RootRefReads | undefined,
  ): Promise<T> {
    if (this.#isClosed) throw new StoreUnavailable('the store is closing: try again');
    const key = this.#options.keys.of(space);
    const runAlone = (each: Body) => this.#runAlone(space, key, clock, each);
    const outcome = await (reads === undefined
      ? runAlone(body)
      : this.#groups.run(
          key,
          { body, reads },
          {
            runAlone,
            runTogether: (commits) => this.#runTogether(space, key, clock, commits),
          },
        ));
    if (outcome.ok) return outcome.value as T;
    throw outcome.error;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #runAlone(space: Space, key: SpaceKey, clock: FindClock, body: Body): Promise<Outcome> {
    const { pool } = this.#options;
    return pool.locating(
      repeatWhereSafe('a transaction', () =>
        this.#lend(space, clock, (wire) => this.#attempt(space, key, wire, body)),
      ),
    );
  }

  /** Resolves with undefined when other transactions were in the way: nothing has changed, and each body has to run alone. */
  async #runTogether(
    space: Space,
    key: SpaceKey,
    clock: FindClock,
    commits: readonly GroupedCommit[],
  ): Promise<readonly Outcome[] | undefined> {
    try {
      return await this.#lend(space, clock, (wire) => this.#attemptTogether(space, key, wire, commits));
    } catch (error) {
      if (error instanceof RunAgain || isRepeatable(error) || isLostAlone(error)) return undefined;
      const failure = storageError(error, 'a transaction of several commits');
      if (failure instanceof CounterBroken) return undefined;
      throw failure;
    }
  }

  #lend<T>(space: Space, clock: FindClock, work: (wire: TransactionWire) => Promise<T>): Promise<T> {
    const { pool, slotOf } = this.#options;
    return pool.lend(
      (connection) => work(new TransactionWire(connection, slotOf(connection), clock())),
      space,
    );
  }

  async #attempt(space: Space, key: SpaceKey, wire: TransactionWire, body: Body): Promise<Outcome> {
    let tx = this.#open(space, key, wire);
    let outcome = await outcomeOf(() => body(tx));
    if (wire.failure instanceof NowUnknown) {
      await outcomeOf(() => wire.begin());
      tx = this.#open(space, key, wire);
      outcome = await outcomeOf(() => body(tx));
    }
    if (outcome.ok || wire.failure !== undefined) await this.#finish(space, wire, tx);
    else await wire.rollback();
    return outcome;
  }

  /**
   * A body that fails changes nothing for the others. If it fails after writing, the transaction is abandoned and each runs
   * alone.
   */
  async #attemptTogether(
    space: Space,
    key: SpaceKey,
    wire: TransactionWire,
    commits: readonly GroupedCommit[],
  ): Promise<readonly Outcome[]> {
    const tx = this.#open(space, key, wire);
    await outcomeOf(() => tx.prefetch(commits.map(({ reads }) => reads)));
    const outcomes: Outcome[] = [];
    for (const { body } of commits) {
      if (wire.failure !== undefined) break;
      const before = tx.changeCount;
      const outcome = await outcomeOf(() => body(tx));
      if (!outcome.ok && tx.changeCount !== before) wire.fail(new RunAgain('a commit failed half way'));
      outcomes.push(outcome);
    }
    await this.#finish(space, wire, tx);
    return outcomes;
  }

  #open(space: Space, spaceKey: SpaceKey, wire: TransactionWire): PostgresSpaceTransaction {
    const isSpaceKnown = this.#known.find(space) === true;
    return new PostgresSpaceTransaction({ ...this.#options, wire, space, spaceKey, isSpaceKnown });
  }

  /** Commits what was written, if anything. Throws what went wrong with the transaction, even if a body caught it. */
  async #finish(space: Space, wire: TransactionWire, tx: PostgresSpaceTransaction): Promise<void> {
    if (wire.failure !== undefined) {
      await wire.rollback();
      throw wire.failure;
    }
    const writes = tx.takeWrites();
    if (writes.length === 0 && !tx.hasFlushed) return wire.rollback();
    await wire.commit(writes);
    if (tx.isSpaceWritten) this.#known.remember(space, true);
  }
}

/** Keeps the error of a body for its caller: it decides nothing about the transaction. */
async function outcomeOf(work: () => Awaitable<unknown>): Promise<Outcome> {
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    return { ok: false, error };
  }
}

/**
 * Runs `work` again after failures that changed nothing. The pauses grow and are random, so that two transactions that met do not
 * meet again. After a lost connection it runs once more: so running `work` twice must do the same as once, or `work` must throw
 * StoreUnavailable when it lost the connection during a commit.
 */
export async function repeatWhereSafe<T>(doing: string, work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + 8_000;
  let lost = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (isLostAlone(error)) lost += 1;
      // A lost connection is tried again once: the server may just have restarted.
      const mayRepeat = error instanceof RunAgain || isRepeatable(error) || (isLostAlone(error) && lost < 2);
      if (!mayRepeat) throw storageError(error, doing);
      if (attempt === 12 || performance.now() > giveUpAt) throw outOfAttempts(doing, error);
      // PostgreSQL finds a deadlock after a second, and then ends nearly all its transactions at once. If they began again together,
      // they would meet again.
      if (isDeadlock(error)) await pause(attempt, 50, 1000);
      // The first retry is immediate, because most conflicting transactions have ended by this time.
      else if (attempt > 1) await pause(attempt, 2, 250);
    }
  }
}

function pause(attempt: number, msMin: number, msMax: number): Promise<void> {
  const longest = Math.min(msMax, msMin * 2 ** attempt);
  return new Promise((resolve) => setTimeout(resolve, Math.random() * longest));
}

function outOfAttempts(doing: string, cause: unknown): StoreUnavailable {
  const failure = storageError(cause, doing);
  return new StoreUnavailable(`${doing} kept meeting others that change the same rows: try again`, {
    cause: failure,
  });
}
