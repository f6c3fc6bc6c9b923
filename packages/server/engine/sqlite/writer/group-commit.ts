/**
 * Group commit: all bodies that arrive in two turns of the event loop share one SQLite transaction and its one fsync, and are
 * answered after it. Other work of the writer runs between two transactions. Bodies run strictly one after another, on microtasks
 * only. If one fails that has written, the others run again without it, each with a savepoint.
 */
import type { Database } from 'bun:sqlite';
import { CounterBroken, InvariantViolation } from '../../../core/invariant.ts';
import type { Clock } from '../../../core/ports.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { isBusy, isDamageMet, isSurelyNotCommitted, storageError } from '../../local-failure.ts';
import { BatchRows, type ChangedRows, type CommitCost, type NodeCache } from '../node-cache.ts';
import type { SpaceDirectory } from '../space-directory.ts';
import { SpaceLedger } from '../space-ledger.ts';
import type { Statements } from '../statements.ts';
import { TableFaults } from '../table-faults.ts';
import { ActiveUploads, type Batch, WriteScope } from '../write-scope.ts';

type Body = (scope: WriteScope) => unknown;

interface Job {
  readonly body: Body;
  /** the number of transactions in it */
  readonly count: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Outcome {
  readonly job: Job;
  readonly ok: boolean;
  readonly value: unknown;
  /** the body failed, and nothing of the batch may stay */
  readonly isSpoiling: boolean;
}

interface GroupCommitOptions {
  readonly database: Database;
  readonly sql: Statements;
  readonly spaces: SpaceDirectory;
  readonly cache: NodeCache | undefined;
  readonly clock: Clock;
  readonly onFatal: (error: Error) => void;
  readonly beforeCommit?: () => void;
  /** called before any body is answered */
  readonly afterCommit?: (changed: ChangedRows, cost: CommitCost) => void;
  /** called after all bodies of a batch are answered */
  readonly betweenBatches?: () => void;
  /** ms of tries for another process's lock, after which the waiting bodies are refused */
  readonly busyMsMax?: number;
  /** ms after which a batch takes no further body, so that reads and answers get their turn */
  readonly batchMsMax?: number | undefined;
  /** bodies that can share a transaction are submitted in one turn of the event loop: nothing is won by waiting for more */
  readonly isGathered?: boolean | undefined;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #faults: TableFaults;
  #queue: Job[] = [];
  /** how many bodies of the queue run in a batch of their own, because together they broke a counter */
  #alone = 0;
  /** how many of the next batches have savepoints */
  #guarded = 0;
  #isScheduled = false;
  #isClosing = false;
  #fatal: Error | undefined;
  #idle: (() => void) | undefined;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#faults = new TableFaults(options.database);
  }

  /** Runs `body` in the next batch; resolves with its value once that is durable. */
  submit<T>(body: (scope: WriteScope) => T, count = 1): Promise<Awaited<T>> {
    if (this.#fatal !== undefined) return Promise.reject(this.#fatal);
    if (this.#isClosing) return Promise.reject(new StoreUnavailable('the store is closing: try again later'));
    return new Promise<Awaited<T>>((resolve, reject) => {
      this.#queue.push({ body, count, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /** Nothing waits to be written. */
  get isIdle(): boolean {
    return !this.#isScheduled && !this.#isClosing && this.#fatal === undefined;
  }

  /** Resolves when all submitted bodies are answered. No body is accepted afterwards. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (!this.#isScheduled) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // One turn more than they need, so that requests which already wait in the sockets join: fewer commits under load, at the
    // cost of one look at the sockets.
    if (this.#options.isGathered) setImmediate(this.#drain);
    else setImmediate(() => setImmediate(this.#drain));
  }

  readonly #rest = (): void => {
    if (!this.#isClosing && this.#fatal === undefined) this.#options.betweenBatches?.();
  };

  readonly #drain = async (): Promise<void> => {
    try {
      await this.#runBatch();
    } catch (error) {
      this.fail(error);
    }
    this.#isScheduled = false;
    setImmediate(this.#rest);
    if (this.#queue.length > 0) this.#schedule();
    else this.#idle?.();
  };

  async #runBatch(): Promise<void> {
    const { sql } = this.#options;
    const busy = await this.#begin();
    if (busy !== undefined) {
      for (const job of this.#queue.splice(0)) job.reject(busy);
      return;
    }
    const batch: Batch = {
      ledger: new SpaceLedger(sql, this.#options.spaces),
      rows: new BatchRows(this.#options.cache),
      activeUploads: new ActiveUploads(),
      faults: this.#faults,
      withLooseEdges: new Map(),
      isGuarded: this.#guarded > 0,
    };
    this.#guarded = Math.max(0, this.#guarded - 1);
    const outcomes = await this.#runBodies(batch);
    const last = outcomes.at(-1);
    if (this.#fatal === undefined && last?.isSpoiling) {
      this.#leaveOut(last, outcomes.slice(0, -1));
      return;
    }
    if (!this.#commit(batch, outcomes)) return;
    for (const { job, ok, value } of outcomes) {
      if (ok) job.resolve(value);
      else job.reject(value);
    }
  }

  /** Only the body that met damage, or left a statement half done, fails. Those before it run again; those after have not run. */
  #leaveOut({ job, value }: Outcome, others: readonly Outcome[]): void {
    if (this.#options.database.inTransaction) this.#rollback();
    // Repeated failures then make few batches run twice.
    this.#guarded = 64;
    this.#queue.unshift(...others.map((other) => other.job));
    job.reject(value);
  }

  /** Takes the write lock; waits without blocking while another process holds it. */
  async #begin(): Promise<unknown> {
    const giveUpAt = performance.now() + (this.#options.busyMsMax ?? 5_000);
    for (;;) {
      try {
        this.#options.sql.begin.run();
        return undefined;
      } catch (error) {
        if (!isBusy(error)) return storageError(error, 'beginning a transaction');
        if (performance.now() >= giveUpAt) {
          return new StoreUnavailable('another process has held the write lock for too long: try again', {
            cause: error,
          });
        }
      }
      // Another process holds the write lock.
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  async #runBodies(batch: Batch): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const stopAt = performance.now() + (this.#options.batchMsMax ?? 20);
    const watch = new ForeignAwaitWatch();
    // Bodies that arrive while earlier ones run still belong to this turn: the loop reads the live queue.
    const bodiesMax = this.#alone > 0 ? 1 : 512;
    this.#alone = Math.max(0, this.#alone - 1);
    for (let index = 0; index < this.#queue.length && index < bodiesMax; index++) {
      const job = this.#queue[index] as Job;
      const outcome = this.#runBody(job, batch, watch);
      outcomes.push(outcome instanceof Promise ? await outcome : outcome);
      if (outcomes.at(-1)?.isSpoiling || performance.now() > stopAt) break;
    }
    this.#queue.splice(0, outcomes.length);
    watch.stop();
    return outcomes;
  }

  /** A body that awaits nothing ends at once. Most bodies that come in great numbers, such as renewals, await nothing. */
  #runBody(job: Job, batch: Batch, watch: ForeignAwaitWatch): Outcome | Promise<Outcome> {
    const { sql, clock, database } = this.#options;
    const scope = new WriteScope(sql, database, batch, clock.now());
    try {
      const returned = job.body(scope);
      if (isThenable(returned)) return this.#awaitBody(job, scope, watch.settle(returned));
      scope.keep();
      return { job, ok: true, value: returned, isSpoiling: false };
    } catch (error) {
      return this.#undoBody(job, scope, error);
    }
  }

  async #awaitBody(job: Job, scope: WriteScope, settled: Promise<unknown>): Promise<Outcome> {
    try {
      const value = await settled;
      scope.keep();
      return { job, ok: true, value, isSpoiling: false };
    } catch (error) {
      return this.#undoBody(job, scope, error);
    }
  }

  #undoBody(job: Job, scope: WriteScope, error: unknown): Outcome {
    scope.undo();
    if (error instanceof InvariantViolation) this.fail(error);
    const isDamage = isDamageMet(error);
    // A read that nobody guards meets damage too.
    const value = isDamage ? storageError(error, 'reading') : error;
    return { job, ok: false, value, isSpoiling: scope.isSpoiling || isDamage };
  }

  /** True if the outcomes hold. A failure that certainly wrote nothing rejects all bodies; an unknown outcome ends the process. */
  #commit({ ledger, rows }: Batch, outcomes: readonly Outcome[]): boolean {
    const { sql, database, beforeCommit, afterCommit } = this.#options;
    let failure: unknown;
    try {
      if (this.#fatal !== undefined) throw this.#fatal;
      if (!database.inTransaction) throw new StoreUnavailable('SQLite took the transaction back: try again');
      ledger.flush();
      beforeCommit?.();
      const startedAt = performance.now();
      sql.commit.run();
      const commitMs = performance.now() - startedAt;
      ledger.publish();
      const changed = rows.publish();
      const bodies = outcomes.reduce((sum, { job }) => sum + job.count, 0);
      afterCommit?.(changed, { bodies, commitMs });
      return true;
    } catch (error) {
      failure = error;
    }
    const isKnown =
      isSurelyNotCommitted(failure) || failure instanceof StoreUnavailable || failure === this.#fatal;
    if (database.inTransaction) this.#rollback();
    if (!isKnown) this.fail(failure);
    if (failure instanceof CounterBroken && outcomes.length > 1) {
      // The counter belongs to one Space, and it is not known yet which bodies changed it.
      this.#queue.unshift(...outcomes.map(({ job }) => job));
      this.#alone = outcomes.length;
      return false;
    }
    const reason = storageError(failure, 'committing', { isUndecided: !isKnown });
    for (const { job, ok, value } of outcomes) job.reject(ok ? reason : value);
    return false;
  }

  #rollback(): void {
    try {
      this.#options.sql.rollback.run();
    } catch (error) {
      this.fail(error);
    }
  }

  /** After this nothing is written any more; the process has to end and start again from what is durable. */
  fail(cause: unknown): void {
    if (this.#fatal !== undefined) return;
    this.#fatal = cause instanceof Error ? cause : new Error(String(cause));
    for (const job of this.#queue.splice(0)) job.reject(this.#fatal);
    this.#options.onFatal(this.#fatal);
  }
}

/** A body awaits only `tx`, synchronous here. One still pending when the event loop turns awaits something else: it is cut off. */
class ForeignAwaitWatch {
  #abandon: ((error: Error) => void) | undefined;
  #timer: ReturnType<typeof setImmediate>;

  constructor() {
    this.#timer = setImmediate(this.#turned);
  }

  #turned = (): void => {
    this.#abandon?.(
      new Error('a transaction body awaited something other than its transaction; it was rolled back'),
    );
    this.#timer = setImmediate(this.#turned);
  };

  settle(pending: PromiseLike<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#abandon = reject;
      pending.then(resolve, reject);
    });
  }

  stop(): void {
    this.#abandon = undefined;
    clearImmediate(this.#timer);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
