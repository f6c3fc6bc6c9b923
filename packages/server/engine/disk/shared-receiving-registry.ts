/** The receiving registry of several processes on one data folder: a small database. Entries of ended processes are ignored. */
import { Database, type Statement } from 'bun:sqlite';
import { rmSync } from 'node:fs';
import { UPLOADS_OF_GENERATION_MAX } from '../../core/lease/upload-judge.ts';
import type { Generation, Space } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import {
  pauseReceiving,
  type ReceivedBytes,
  type ReceivingEntry,
  type ReceivingRegistry,
} from './receiving-registry.ts';
import { isProcessAlive } from './staged-files.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS receiving (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, generation TEXT NOT NULL, app TEXT NOT NULL, space TEXT NOT NULL,
    bytes INTEGER NOT NULL, held INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS receiving_by_generation ON receiving (generation);
  CREATE INDEX IF NOT EXISTS receiving_by_space ON receiving (space);
  CREATE INDEX IF NOT EXISTS receiving_by_app ON receiving (app);
`;

/** One upload that a process is receiving. */
interface Entry {
  readonly pid: number;
  readonly bytes: number;
  readonly held: number;
}

export class SharedReceivingRegistry implements ReceivingRegistry {
  readonly #database: Database;
  readonly #pid: number;
  #isClosed = false;
  readonly #insert: Statement<{ id: number }, [number, string, string, string, number, number]>;
  readonly #delete: Statement<unknown, [number]>;
  /** entries that have ended but could not be removed, for example on a full disk */
  readonly #ended = new Set<number>();
  readonly #byGeneration: Statement<Pick<Entry, 'pid'>, [string]>;
  readonly #bySpace: Statement<Entry, [string]>;
  /** held in a Space by what began before an id */
  readonly #before: Statement<Entry, [string, number]>;
  readonly #byApp: Statement<Entry, [string]>;

  /** `pid`: this process's own, unless a test stands in for another. */
  constructor(path: string, pid: number = process.pid) {
    this.#database = openOrReplace(path);
    this.#pid = pid;
    // The pid may have belonged to a process that ended before.
    this.#database.run('DELETE FROM receiving WHERE pid = ?', [pid]);
    this.#insert = this.#database.prepare(
      `INSERT INTO receiving (pid, generation, app, space, bytes, held) SELECT ?1, ?2, ?3, ?4, ?5, ?6
        WHERE (SELECT count(*) FROM receiving WHERE generation = ?2) < ${UPLOADS_OF_GENERATION_MAX} RETURNING id`,
    );
    this.#delete = this.#database.prepare('DELETE FROM receiving WHERE id = ?');
    this.#byGeneration = this.#database.prepare('SELECT DISTINCT pid FROM receiving WHERE generation = ?');
    this.#bySpace = this.#database.prepare(
      'SELECT pid, sum(bytes) AS bytes, sum(held) AS held FROM receiving WHERE space = ? GROUP BY pid',
    );
    this.#before = this.#database.prepare(
      'SELECT pid, sum(held) AS held FROM receiving WHERE space = ? AND id < ? GROUP BY pid',
    );
    this.#byApp = this.#database.prepare(
      'SELECT pid, sum(held) AS held FROM receiving WHERE app = ? GROUP BY pid',
    );
  }

  begin(space: Space, generation: Generation, bytes: ReceivedBytes): ReceivingEntry | undefined {
    this.#removeEnded();
    const key = spaceKeyOf(space);
    const { declared, held } = bytes;
    const insert = () => this.#insert.get(this.#pid, generation, space.appId, key, declared, held);
    const row = insert() ?? (this.#removeDead(generation) ? insert() : undefined);
    if (row === null || row === undefined) return undefined;
    const { id } = row;
    return {
      pause: pauseReceiving,
      heldBefore: () => this.#sumHeld(this.#before.all(key, id)),
      end: () => {
        if (this.#isClosed) return;
        this.#ended.add(id);
        this.#removeEnded();
      },
    };
  }

  isReceiving(generation: Generation): boolean {
    this.#removeEnded();
    return this.#byGeneration.all(generation).some(({ pid }) => this.#isAlive(pid));
  }

  reservedBytes(space: Space): number {
    this.#removeEnded();
    let sum = 0;
    for (const { pid, bytes } of this.#bySpace.all(spaceKeyOf(space))) if (this.#isAlive(pid)) sum += bytes;
    return sum;
  }

  heldBytes(space: Space): number {
    this.#removeEnded();
    return this.#sumHeld(this.#bySpace.all(spaceKeyOf(space)));
  }

  heldBytesOfApp(appId: string, by: 'all' | 'other processes'): number {
    this.#removeEnded();
    const entries = this.#byApp.all(appId);
    return this.#sumHeld(by === 'all' ? entries : entries.filter(({ pid }) => pid !== this.#pid));
  }

  #sumHeld(entries: readonly Entry[]): number {
    let sum = 0;
    for (const { pid, held } of entries) if (this.#isAlive(pid)) sum += held;
    return sum;
  }

  close(): void {
    this.#isClosed = true;
    this.#database.run('DELETE FROM receiving WHERE pid = ?', [this.#pid]);
    const statements = [
      this.#insert,
      this.#delete,
      this.#byGeneration,
      this.#bySpace,
      this.#before,
      this.#byApp,
    ];
    for (const statement of statements) statement.finalize();
    this.#database.close(true);
  }

  /** Removes ended entries. A failure is ignored and tried again later, because it must not fail the upload. */
  #removeEnded(): void {
    for (const id of this.#ended) {
      try {
        this.#delete.run(id);
      } catch {
        return;
      }
      this.#ended.delete(id);
    }
  }

  /** Whether there was anything of processes that have ended. */
  #removeDead(generation: Generation): boolean {
    const dead = this.#byGeneration.all(generation).filter(({ pid }) => !this.#isAlive(pid));
    for (const { pid } of dead) this.#database.run('DELETE FROM receiving WHERE pid = ?', [pid]);
    return dead.length > 0;
  }

  #isAlive(pid: number): boolean {
    return pid === this.#pid || isProcessAlive(pid);
  }
}

/** Call while no process has the registry open: old entries are worthless, and may be damaged. */
export function removeReceivingRegistry(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
}

/** The database is written without fsync, so a power cut may damage it. Then it is replaced. */
function openOrReplace(path: string): Database {
  try {
    return openDatabase(path);
  } catch {
    removeReceivingRegistry(path);
    return openDatabase(path);
  }
}

function openDatabase(path: string): Database {
  const database = new Database(path, { create: true, readwrite: true });
  try {
    // Every write here takes microseconds.
    database.run('PRAGMA busy_timeout = 2000');
    database.run('PRAGMA journal_mode = WAL');
    database.run('PRAGMA synchronous = OFF');
    database.run(SCHEMA);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}
