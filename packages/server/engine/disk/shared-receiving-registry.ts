/**
 * The receiving registry of several processes on one data folder: a small database that need not survive a restart. Entries of
 * processes that have ended are ignored.
 */
import { Database, type Statement } from 'bun:sqlite';
import { rmSync } from 'node:fs';
import type { Generation, Space } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import { UPLOADS_OF_GENERATION_MAX } from '../../core/upload-judge.ts';
import { isProcessAlive } from './process-alive.ts';
import type { ReceivingRegistry } from './receiving-registry.ts';

/** ms; every write here takes microseconds */
const BUSY_TIMEOUT_MS = 2_000;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS receiving (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, generation TEXT NOT NULL, space TEXT NOT NULL, bytes INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS receiving_by_generation ON receiving (generation);
  CREATE INDEX IF NOT EXISTS receiving_by_space ON receiving (space);
`;

/** What one process is receiving. */
interface Entry {
  readonly pid: number;
  readonly bytes: number;
}

export class SharedReceivingRegistry implements ReceivingRegistry {
  readonly #database: Database;
  readonly #pid: number;
  #isClosed = false;
  readonly #insert: Statement<{ id: number }, [number, string, string, number]>;
  readonly #delete: Statement<unknown, [number]>;
  /** entries that have ended but could not be removed, for example on a full disk */
  readonly #ended = new Set<number>();
  readonly #byGeneration: Statement<Pick<Entry, 'pid'>, [string]>;
  readonly #bySpace: Statement<Entry, [string]>;

  /** `pid`: this process's own, unless a test stands in for another. */
  constructor(path: string, pid: number = process.pid) {
    this.#database = openOrReplace(path);
    this.#pid = pid;
    // The pid may have belonged to a process that ended before.
    this.#database.run('DELETE FROM receiving WHERE pid = ?', [pid]);
    this.#insert = this.#database.prepare(
      `INSERT INTO receiving (pid, generation, space, bytes) SELECT ?1, ?2, ?3, ?4
        WHERE (SELECT count(*) FROM receiving WHERE generation = ?2) < ${UPLOADS_OF_GENERATION_MAX} RETURNING id`,
    );
    this.#delete = this.#database.prepare('DELETE FROM receiving WHERE id = ?');
    this.#byGeneration = this.#database.prepare('SELECT DISTINCT pid FROM receiving WHERE generation = ?');
    this.#bySpace = this.#database.prepare(
      'SELECT pid, sum(bytes) AS bytes FROM receiving WHERE space = ? GROUP BY pid',
    );
  }

  begin(space: Space, generation: Generation, bytes: number): (() => void) | undefined {
    this.#removeEnded();
    const insert = () => this.#insert.get(this.#pid, generation, spaceKeyOf(space), bytes);
    const row = insert() ?? (this.#removeDead(generation) ? insert() : undefined);
    if (row === null || row === undefined) return undefined;
    const { id } = row;
    return () => {
      if (this.#isClosed) return;
      this.#ended.add(id);
      this.#removeEnded();
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

  close(): void {
    this.#isClosed = true;
    this.#database.run('DELETE FROM receiving WHERE pid = ?', [this.#pid]);
    for (const statement of [this.#insert, this.#delete, this.#byGeneration, this.#bySpace]) {
      statement.finalize();
    }
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
    database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    database.run('PRAGMA journal_mode = WAL');
    database.run('PRAGMA synchronous = OFF');
    database.run(SCHEMA);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}
