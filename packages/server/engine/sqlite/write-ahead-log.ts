/**
 * Empties SQLite's write-ahead log into the database once nobody has written for a while. Durability does not need it; rot
 * does: after a crash SQLite drops every commit that follows a damaged frame of the log, while a damaged page of the database
 * costs what that page holds, which its checksum tells. So what is at rest rests in the database.
 */
import type { Database } from 'bun:sqlite';

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

  constructor(writer: Database) {
    this.#writer = writer;
  }

  /** Call from time to time: acts when nothing was written since the call before. A reader in the way leaves it for later. */
  emptyWhenIdle(): void {
    if (this.#writer.inTransaction) return;
    const changes = this.#readChanges();
    const isIdle = changes === this.#seen;
    this.#seen = changes;
    if (!isIdle || changes === this.#emptied) return;
    const outcome = this.#writer.query<{ busy: number }, []>('PRAGMA wal_checkpoint(TRUNCATE)').get();
    if (outcome?.busy === 0) this.#emptied = changes;
  }

  #readChanges(): string {
    const sql = 'SELECT total_changes() AS own, data_version AS others FROM pragma_data_version';
    const changes = this.#writer.query<Changes, []>(sql).get();
    return `${changes?.own}.${changes?.others}`;
  }
}
