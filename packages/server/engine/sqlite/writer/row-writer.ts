/** The only connection that may write, its commits and checkpoints; in its caller's thread or in one of its own (writer-thread.ts). */
import type { Database } from 'bun:sqlite';
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../../core/awaitable.ts';
import { renewReadyRow } from '../../../core/lease/lease-decision.ts';
import type { Space } from '../../../core/model.ts';
import type { LeaseWindow } from '../../../core/node-row.ts';
import type { Clock, TransactionBody } from '../../../core/ports.ts';
import { tombstoneSum } from '../../../core/rows/row-sums.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import type { Maintained, Settlements, SweepCutoffs } from '../../../core/upkeep-ports.ts';
import { guardNow, isBusy, isSurelyNotCommitted, storageError } from '../../local-failure.ts';
import { CommitRecordWalk } from '../../rows/commit-records.ts';
import { commitRecordRows } from '../commit-records.ts';
import { openReader, openWriter, READER_CACHE_BYTES, shortenBusyTimeout } from '../database.ts';
import { noteKey, storeSum, storeValueOf } from '../ledger-rows.ts';
import { moveWatermarks, pruneHistory } from '../maintenance.ts';
import { type Committed, NodeCache } from '../node-cache.ts';
import { hexToBytes } from '../rows.ts';
import { type LostNames, SpaceDirectory } from '../space-directory.ts';
import { SqliteSpaceTransaction } from '../space-transaction.ts';
import { finalize, prepareAll, type Statements } from '../statements.ts';
import { lookForLostNames } from '../sums/lost-names.ts';
import { WriteAheadLog } from '../write-ahead-log.ts';
import type { WriteScope } from '../write-scope.ts';
import { GroupCommit } from './group-commit.ts';

/** ms without a write after which the log is emptied, if it takes room; up to twice as many */
const LOG_REST_MS = 25;

/** Each verb resolves when its writes are durable and `onCommitted` has been called. */
export interface RowWriter {
  transact<T, I>(space: Space, body: TransactionBody<T, I>, input: I): Promise<T>;
  /** Renews the lease of a row that is ready; undefined: it is not, or there is none. */
  renewReady(space: Space, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined>;
  maintain(cutoffs: SweepCutoffs): Promise<Maintained>;
  /** Empties a log that takes room, unless something waits to be written or it was emptied a moment ago. */
  emptyLog(): Promise<void>;
  /** Resolves with the stored value: the first one inserted. */
  insertStoreValue(name: string, value: string): Promise<string>;
  removeStoreValue(name: string): Promise<void>;
  settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void>;
  /** Resolves when everything is answered. Nothing is accepted afterwards. */
  drain(): Promise<void>;
  /** Call after `drain`. If no other connection is open, this copies the log back into the database. */
  close(): Promise<void>;
}

export interface RowWriterSettings {
  /** the database file, migrated */
  readonly path: string;
  /** other processes write to the same file */
  readonly isShared: boolean;
  /** the database grows no further than this, as on a full disk; unlimited when left out */
  readonly databasePagesMax?: number | undefined;
  /** of the steady clock of a writer in a thread (steady-clock.ts); left out: its clock is the machine's wall clock */
  readonly timeOrigin?: number | undefined;
  /** ms after which a shared commit takes no further bodies */
  readonly batchMsMax?: number | undefined;
  /** the number of the last commit that was begun, for readers in other threads */
  readonly lastCommit: BigInt64Array;
  readonly lostNames?: LostNames | undefined;
  /** whether the caller has already gathered the work that can share a commit, so that waiting for more gains nothing */
  readonly isGathered?: boolean | undefined;
}

export interface RowWriterEvents {
  readonly onCommitted: (committed: Committed) => void;
  /** called for a write of unknown outcome or a broken invariant: the process has to end */
  readonly onFatal: (error: Error) => void;
}

export class LocalRowWriter implements RowWriter {
  readonly #database: Database;
  readonly #sql: Statements;
  readonly #commits: GroupCommit;
  readonly #log: WriteAheadLog;
  #restTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #watermarkWalk = { afterSpace: 0 };
  readonly #commitRecords = new CommitRecordWalk(commitRecordRows((body) => this.#commits.submit(body)));

  constructor(settings: RowWriterSettings, clock: Clock, events: RowWriterEvents) {
    const { path, isShared, databasePagesMax, batchMsMax, lastCommit, isGathered, lostNames } = settings;
    this.#database = openWriter(path, databasePagesMax);
    shortenBusyTimeout(this.#database);
    this.#sql = prepareAll(this.#database);
    this.#log = new WriteAheadLog(this.#database);
    let commit = 0;
    this.#commits = new GroupCommit({
      database: this.#database,
      sql: this.#sql,
      spaces: new SpaceDirectory(lostNames, {
        look: () => lookApart(path),
        ...(!isShared && { findVersion: versionOf(this.#database) }),
      }),
      cache: isShared ? undefined : new NodeCache(),
      clock,
      onFatal: events.onFatal,
      batchMsMax,
      isGathered,
      beforeCommit: () => {
        commit += 1;
        Atomics.store(lastCommit, 0, BigInt(commit));
      },
      afterCommit: (changed, cost) => events.onCommitted({ ...changed, ...cost, commit }),
      betweenBatches: () => {
        this.#checkpoint(() => this.#log.copyBackWhenLong());
        this.#restTimer ??= setTimeout(this.#emptyLog, LOG_REST_MS);
      },
    });
  }

  transact<T, I>(space: Space, body: TransactionBody<T, I>, input: I): Promise<T> {
    const run = (scope: WriteScope): Awaitable<T> => body(new SqliteSpaceTransaction(scope, space), input);
    return this.#commits.submit(run) as Promise<T>;
  }

  async renewReady(space: Space, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined> {
    const [lease] = await this.#commits.submit((scope) =>
      renewReadyRows(scope, [{ space, hash, durationMs }]),
    );
    return lease;
  }

  /** Many renewals in one body. If it fails, each gets its own, unless another process has the write lock: all waited long enough. */
  async renewTogether(
    renewals: readonly Renewal[],
  ): Promise<readonly PromiseSettledResult<LeaseWindow | undefined>[]> {
    try {
      const leases = await this.#commits.submit((scope) => renewReadyRows(scope, renewals), renewals.length);
      return leases.map((value) => ({ status: 'fulfilled', value }));
    } catch (error) {
      if (renewals.length === 1 || (error instanceof StoreUnavailable && isBusy(error.cause)))
        return renewals.map(() => ({ status: 'rejected', reason: error }));
      return Promise.allSettled(
        renewals.map(({ space, hash, durationMs }) => this.renewReady(space, hash, durationMs)),
      );
    }
  }

  async maintain(cutoffs: SweepCutoffs): Promise<Maintained> {
    const forgetting = Promise.allSettled([this.#commitRecords.step(cutoffs)]);
    const { isMoreLeft, broken } = await this.#commits.submit((scope) => {
      const watermarks = moveWatermarks(scope, this.#watermarkWalk, cutoffs.now);
      const isHistoryLeft = pruneHistory(scope, cutoffs);
      return { isMoreLeft: watermarks.isLeft || isHistoryLeft, broken: watermarks.broken };
    });
    // At once: a read of the same turn would keep the log from being emptied.
    const failure = this.#checkpoint(() => this.#log.emptyWhenIdle());
    const [commits] = await forgetting;
    if (failure !== undefined) throw storageError(failure, 'copying the log into the database');
    if (broken !== undefined) throw broken;
    if (commits.status === 'rejected') throw commits.reason;
    return { ...commits.value, moreToDo: isMoreLeft || commits.value.moreToDo };
  }

  async emptyLog(): Promise<void> {
    // The commit that answered the caller ends in this turn.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#commits.isIdle) this.#checkpoint(() => this.#log.emptyNow());
  }

  insertStoreValue(name: string, value: string): Promise<string> {
    return this.#commits.submit((scope) => {
      const row = scope.find(scope.sql.findStoreValue, name);
      if (row !== undefined) return storeValueOf(row);
      scope.writeOne(
        'a store value is made once',
        scope.sql.insertStoreValue,
        name,
        value,
        storeSum(name, value),
      );
      return value;
    });
  }

  async removeStoreValue(name: string): Promise<void> {
    await this.#commits.submit((scope) => scope.write(scope.sql.deleteStoreValue, name));
  }

  async settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void> {
    await this.#commits.submit((scope) => SETTLING[kind](scope, rows));
  }

  async drain(): Promise<void> {
    await this.#commits.close();
    clearTimeout(this.#restTimer);
  }

  /** Runs when the writer is idle, because the file of the log keeps its length until it is truncated. */
  readonly #emptyLog = (): void => {
    this.#restTimer = undefined;
    let isLater = false;
    this.#checkpoint(() => {
      isLater = this.#log.emptySoon();
    });
    if (isLater) this.#restTimer = setTimeout(this.#emptyLog, LOG_REST_MS);
  };

  async close(): Promise<void> {
    finalize(this.#sql);
    this.#database.close(true);
  }

  /**
   * Returns the failure if nothing was lost, because the log still has everything. Any other failure, such as a failed fsync, is
   * fatal: the copied pages may not be on the disk, and a second try would wrongly succeed.
   */
  #checkpoint(work: () => void): unknown {
    try {
      work();
      return undefined;
    } catch (error) {
      if (!isSurelyNotCommitted(error)) this.#commits.fail(error);
      return error;
    }
  }
}

/** Changes with each commit of another connection. */
function versionOf(database: Database): () => number {
  return () => {
    using statement = database.prepare<{ data_version: number }, []>('PRAGMA data_version');
    return statement.get()?.data_version ?? 0;
  };
}

/** By a connection of its own: SQLite ends a transaction that meets a damaged page at its commit. */
function lookApart(path: string): LostNames {
  return guardNow('looking for names', () => {
    using database = openReader(path, READER_CACHE_BYTES);
    return lookForLostNames(database);
  });
}

export interface Renewal {
  readonly space: Space;
  readonly hash: Hash;
  /** clamped */
  readonly durationMs: number;
}

/** Many renewals are one body of a batch. For each in turn; undefined: there is no row, or it is not ready. */
function renewReadyRows(
  scope: WriteScope,
  renewals: readonly Renewal[],
): readonly (LeaseWindow | undefined)[] {
  const transactions = new Map<Space, SqliteSpaceTransaction>();
  return renewals.map(({ space, hash, durationMs }) => {
    let tx = transactions.get(space);
    if (tx === undefined) {
      tx = new SqliteSpaceTransaction(scope, space);
      transactions.set(space, tx);
    }
    return renewReadyRow(tx, hash, durationMs) as LeaseWindow | undefined;
  });
}

/** The writes of background work (core/upkeep-ports.ts). */
const SETTLING: {
  readonly [K in keyof Settlements]: (scope: WriteScope, rows: Settlements[K]) => void;
} = {
  tombstones: (scope, { unknown, known, now, seenSince }) => {
    for (const generation of unknown) {
      const sum = tombstoneSum(generation, now, now);
      scope.write(scope.sql.noteTombstone, hexToBytes(generation), now, sum);
    }
    for (const generation of known) scope.write(scope.sql.deleteTombstone, hexToBytes(generation));
    scope.write(scope.sql.deleteOldTombstones, seenSince);
  },
  revisions: (scope, step) => {
    scope.write(scope.sql.raiseFirstRevision, step);
    scope.write(scope.sql.raiseRevisions, step);
  },
  note: (scope, { name, value }) => {
    const [key, text] = [noteKey(name), String(value)];
    const kept = scope.find(scope.sql.findStoreValue, key);
    if (typeof value === 'number' && kept !== undefined && Number(storeValueOf(kept)) >= value) return;
    scope.write(scope.sql.setStoreValue, key, text, storeSum(key, text));
  },
};
