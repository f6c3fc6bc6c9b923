/**
 * Checkpoints: copies SQLite's write-ahead log back into the database. SQLite would do so by itself in the middle of a commit,
 * and pass over an error. Here it is done between commits, and an error is thrown.
 */
import type { Database } from 'bun:sqlite';

/** pages; a shorter log takes little room, and the next look of the background work is soon enough for it */
const EMPTIED_SOON_PAGES = 64;

interface Checkpoint {
  /** a reader or another process was in the way */
  readonly busy: number;
  /** pages in the log, and how many of them are in the database too */
  readonly log: number;
  readonly checkpointed: number;
}

interface Changes {
  /** rows changed by this connection */
  readonly own: number;
  /** moves with every commit of another connection */
  readonly others: number;
}

export class WriteAheadLog {
  readonly #writer: Database;
  #seen: string | undefined;
  #emptied: string | undefined;
  /** ms; until then `emptyNow` does nothing */
  #restsUntil = Number.NEGATIVE_INFINITY;

  constructor(writer: Database) {
    this.#writer = writer;
  }

  /** Call between commits: acts when the log has grown long. A reader in the way leaves the rest for later. */
  copyBackWhenLong(): void {
    if (this.#writer.inTransaction) return;
    const { log, checkpointed } = this.#checkpoint('NOOP');
    // After a full checkpoint the next commits restart the log.
    if (log >= 4000 && checkpointed < log) this.#checkpoint('PASSIVE');
  }

  #checkpoint(mode: 'NOOP' | 'PASSIVE' | 'TRUNCATE'): Checkpoint {
    const outcome = this.#writer.query<Checkpoint, []>(`PRAGMA wal_checkpoint(${mode})`).get();
    if (outcome === null) throw new Error('SQLite says nothing about its log');
    return outcome;
  }

  /** Empties a log that takes room. A reader in the way, or a call right after the last, leaves it for `emptySoon`. */
  emptyNow(readClock: () => number = () => performance.now()): void {
    const startedAt = readClock();
    if (this.#writer.inTransaction || startedAt < this.#restsUntil) return;
    if (this.#checkpoint('NOOP').log < EMPTIED_SOON_PAGES) return;
    if (this.#checkpoint('TRUNCATE').busy === 0) this.#emptied = this.#readChanges();
    const endedAt = readClock();
    // Writers waited meanwhile, so it rests four times as long.
    this.#restsUntil = endedAt + (endedAt - startedAt) * 4;
  }

  /** Call soon after a write, and while it returns true: empties an idle log. A reader in the way leaves it for `emptyWhenIdle`. */
  emptySoon(): boolean {
    if (this.#writer.inTransaction) return true;
    const changes = this.#readChanges();
    const isIdle = changes === this.#seen;
    this.#seen = changes;
    if (!isIdle) return true;
    if (changes === this.#emptied || this.#checkpoint('NOOP').log < EMPTIED_SOON_PAGES) return false;
    if (this.#checkpoint('TRUNCATE').busy === 0) this.#emptied = changes;
    return false;
  }

  /**
   * Call from time to time: empties the log if nothing was written since the last call, or later if a reader is in the way.
   * This is not for durability but against rot: after a crash SQLite drops every commit that follows a damaged frame of the log,
   * while a damaged page of the database costs only what that page holds.
   */
  emptyWhenIdle(): void {
    if (this.#writer.inTransaction) return;
    const changes = this.#readChanges();
    const isIdle = changes === this.#seen;
    this.#seen = changes;
    if (!isIdle || changes === this.#emptied) return;
    if (this.#checkpoint('TRUNCATE').busy === 0) this.#emptied = changes;
  }

  #readChanges(): string {
    const sql = 'SELECT total_changes() AS own, data_version AS others FROM pragma_data_version';
    const changes = this.#writer.query<Changes, []>(sql).get();
    return `${changes?.own}.${changes?.others}`;
  }
}
