/**
 * What is remembered of one folder between pushes, in one SQLite file of the user's cache folder: what its entries were
 * when they were last hashed, the nodes of directories and file indexes, and a root ref's commit that is not answered yet.
 * Only hints: the server decides what is ready. One process at a time holds it; a killed one holds nothing.
 */
import { Database, type SQLQueryBindings, type Statement } from 'bun:sqlite';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { bytesToHash, type Hash, hashToBytes } from '@holdfast/protocol';
import { type ByteString, byteStringOf, bytesOf } from './byte-names.ts';

/** Written into the file; a file of another version is made anew. */
const STATE_VERSION = 1;
/** Work is saved this often: what a kill costs at most. */
const SAVE_INTERVAL_MS = 1_000;

export interface DirectoryRow {
  readonly id: number;
  /** undefined while it was never finished */
  readonly hash: Hash | undefined;
  readonly bytes: number;
  readonly entryCount: number;
}

/** A commit that was sent, or was about to be, and whose answer never came. */
export interface PendingCommit {
  readonly requestId: string;
  readonly hash: Hash;
}

/** Another process holds the state of this folder. */
export class TreeStateBusyError extends Error {
  override readonly name = 'TreeStateBusyError';
}

const SCHEMA = `
  CREATE TABLE directories (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL,
    hash BLOB, bytes INTEGER NOT NULL DEFAULT 0, entry_count INTEGER NOT NULL DEFAULT 0, UNIQUE (parent, name)
  );
  CREATE TABLE pages (
    directory INTEGER NOT NULL, page INTEGER NOT NULL, entries BLOB NOT NULL, PRIMARY KEY (directory, page)
  );
  CREATE TABLE files (
    directory INTEGER NOT NULL, name BLOB NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (directory, name)
  );
  CREATE TABLE nodes (
    directory INTEGER NOT NULL, name BLOB NOT NULL, hash BLOB NOT NULL, bytes BLOB NOT NULL,
    PRIMARY KEY (directory, name, hash)
  );
  CREATE TABLE commits (scope TEXT PRIMARY KEY, request_id TEXT NOT NULL, hash BLOB NOT NULL);
  PRAGMA user_version = ${STATE_VERSION};
`;

/** Name under which a directory's own nodes stand; a file's index nodes stand under the file's name. */
const OWN = '';
/** Staged pages of a directory stand under the negative of its id. */
const staged = (directory: number): number => -directory;

type Bytes = Uint8Array<ArrayBuffer>;

export class TreeState {
  readonly #database: Database;
  readonly #onClosed: () => void;
  readonly #statements = new Map<string, Statement>();
  #isWriting = false;
  #savedAt = performance.now();

  /**
   * Throws TreeStateBusyError; a file that is damaged or of another version is replaced. `onClosed` is called when the state
   * was closed.
   */
  static open(path: string, onClosed: () => void = () => undefined): TreeState {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    try {
      return new TreeState(path, onClosed);
    } catch (error) {
      if (error instanceof TreeStateBusyError) throw error;
      if (!isDamage(error)) throw error;
      for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
      return new TreeState(path, onClosed);
    }
  }

  private constructor(path: string, onClosed: () => void) {
    this.#onClosed = onClosed;
    this.#database = new Database(path, { create: true, strict: true });
    try {
      // Names and hashes of private files: for their owner only.
      if (path !== ':memory:') chmodSync(path, 0o600);
      this.#prepare();
    } catch (error) {
      this.#database.close();
      throw isBusy(error)
        ? new TreeStateBusyError('another process holds the state', { cause: error })
        : error;
    }
  }

  #prepare(): void {
    const database = this.#database;
    // Held until the process ends, however it ends.
    database.run('PRAGMA locking_mode = EXCLUSIVE');
    database.run('PRAGMA journal_mode = WAL');
    database.run('PRAGMA synchronous = NORMAL');
    database.run('PRAGMA cache_size = -8192');
    database.run('BEGIN IMMEDIATE');
    const { user_version: version } = database.query('PRAGMA user_version').get() as { user_version: number };
    if (version !== 0 && version !== STATE_VERSION) {
      database.run('COMMIT');
      throw new StateVersionError('the state is of another version');
    }
    if (version === 0) database.run(SCHEMA);
    database.run('COMMIT');
  }

  close(): void {
    this.save();
    for (const statement of this.#statements.values()) statement.finalize();
    this.#database.close();
    this.#onClosed();
  }

  /** Everything written so far outlives the process. */
  save(): void {
    if (this.#isWriting) this.#database.run('COMMIT');
    this.#isWriting = false;
    this.#savedAt = performance.now();
  }

  /** Saves when the last time was long enough ago; to be called where the written rows belong together. */
  saveSometimes(): void {
    if (performance.now() - this.#savedAt > SAVE_INTERVAL_MS) this.save();
  }

  /** Forgets all entries, so that everything is read again. */
  forgetEntries(): void {
    this.#write('DELETE FROM pages');
    this.#write('DELETE FROM files');
  }

  findDirectory(parent: number, name: ByteString): DirectoryRow | undefined {
    const row = this.#read<{ id: number; hash: Uint8Array | null; bytes: number; entry_count: number }>(
      'SELECT id, hash, bytes, entry_count FROM directories WHERE parent = ? AND name = ?',
      parent,
      blob(name),
    );
    if (row === undefined) return undefined;
    const hash = row.hash === null ? undefined : bytesToHash(row.hash);
    return { id: row.id, hash, bytes: row.bytes, entryCount: row.entry_count };
  }

  addDirectory(parent: number, name: ByteString): DirectoryRow {
    this.#write('INSERT INTO directories (parent, name) VALUES (?, ?)', parent, blob(name));
    const row = this.findDirectory(parent, name);
    if (row === undefined) throw new Error('a row that was written is not there; remove the cache folder');
    return row;
  }

  finishDirectory(id: number, hash: Hash, bytes: number, entryCount: number): void {
    this.#write(
      'UPDATE directories SET hash = ?, bytes = ?, entry_count = ? WHERE id = ?',
      hashBlob(hash),
      bytes,
      entryCount,
      id,
    );
  }

  /** Forgets what stood below `directory` under names that `isThere` no longer finds. */
  dropMissing(directory: number, isThere: (name: ByteString) => boolean): void {
    for (const { id, name } of this.#readAll<{ id: number; name: Uint8Array }>(
      'SELECT id, name FROM directories WHERE parent = ?',
      directory,
    )) {
      if (!isThere(byteStringOf(name))) this.#dropDirectory(id);
    }
    for (const { name } of this.#readAll<{ name: Uint8Array }>(
      'SELECT name FROM files WHERE directory = ?',
      directory,
    )) {
      const text = byteStringOf(name);
      if (!isThere(text)) this.dropFile(directory, text);
    }
  }

  #dropDirectory(id: number): void {
    for (const child of this.#readAll<{ id: number }>('SELECT id FROM directories WHERE parent = ?', id)) {
      this.#dropDirectory(child.id);
    }
    for (const table of ['pages', 'files', 'nodes']) {
      this.#write(`DELETE FROM ${table} WHERE directory = ?`, id);
    }
    this.#write('DELETE FROM directories WHERE id = ?', id);
  }

  findPage(directory: number, page: number): Uint8Array | undefined {
    return this.#read<{ entries: Uint8Array }>(
      'SELECT entries FROM pages WHERE directory = ? AND page = ?',
      directory,
      page,
    )?.entries;
  }

  /** Kept beside the present pages until `replacePages`: those are still being read. */
  stagePage(directory: number, page: number, entries: Uint8Array): void {
    this.#write(
      'INSERT OR REPLACE INTO pages (directory, page, entries) VALUES (?, ?, ?)',
      staged(directory),
      page,
      entries as Bytes,
    );
  }

  /** The staged pages take the place of all from `from` on. */
  replacePages(directory: number, from: number): void {
    this.#write('DELETE FROM pages WHERE directory = ? AND page >= ?', directory, from);
    this.#write('UPDATE pages SET directory = ? WHERE directory = ?', directory, staged(directory));
  }

  dropStagedPages(directory: number): void {
    this.#write('DELETE FROM pages WHERE directory = ?', staged(directory));
  }

  /** A large file that was hashed, also when its folder is not finished; a page of one entry. */
  findFile(directory: number, name: ByteString): Uint8Array | undefined {
    return this.#read<{ entry: Uint8Array }>(
      'SELECT entry FROM files WHERE directory = ? AND name = ?',
      directory,
      blob(name),
    )?.entry;
  }

  putFile(directory: number, name: ByteString, entry: Uint8Array): void {
    this.#write(
      'INSERT OR REPLACE INTO files (directory, name, entry) VALUES (?, ?, ?)',
      directory,
      blob(name),
      entry as Bytes,
    );
  }

  dropFile(directory: number, name: ByteString): void {
    this.#write('DELETE FROM files WHERE directory = ? AND name = ?', directory, blob(name));
    this.#write('DELETE FROM nodes WHERE directory = ? AND name = ?', directory, blob(name));
  }

  /** The canonical bytes of a node of a directory, or of the file `name` in it. */
  findNode(directory: number, name: ByteString | typeof OWN, hash: Hash): Uint8Array | undefined {
    return this.#read<{ bytes: Uint8Array }>(
      'SELECT bytes FROM nodes WHERE directory = ? AND name = ? AND hash = ?',
      directory,
      blob(name),
      hashBlob(hash),
    )?.bytes;
  }

  hasNode(directory: number, name: ByteString, hash: Hash): boolean {
    const sql = 'SELECT 1 AS found FROM nodes WHERE directory = ? AND name = ? AND hash = ?';
    return this.#read(sql, directory, blob(name), hashBlob(hash)) !== undefined;
  }

  putNode(directory: number, name: ByteString, hash: Hash, bytes: Uint8Array): void {
    if (this.hasNode(directory, name, hash)) return;
    this.#write(
      'INSERT INTO nodes (directory, name, hash, bytes) VALUES (?, ?, ?, ?)',
      directory,
      blob(name),
      hashBlob(hash),
      bytes as Bytes,
    );
  }

  /** Forgets the nodes of a directory or file other than `kept`. */
  dropNodesExcept(directory: number, name: ByteString, kept: ReadonlySet<Hash>): void {
    const sql = 'SELECT hash FROM nodes WHERE directory = ? AND name = ?';
    for (const { hash } of this.#readAll<{ hash: Uint8Array }>(sql, directory, blob(name))) {
      if (kept.has(bytesToHash(hash))) continue;
      this.#write(
        'DELETE FROM nodes WHERE directory = ? AND name = ? AND hash = ?',
        directory,
        blob(name),
        hash as Bytes,
      );
    }
  }

  findCommit(scope: string): PendingCommit | undefined {
    const row = this.#read<{ request_id: string; hash: Uint8Array }>(
      'SELECT request_id, hash FROM commits WHERE scope = ?',
      scope,
    );
    return row === undefined ? undefined : { requestId: row.request_id, hash: bytesToHash(row.hash) };
  }

  /** On disk when this returns: a commit may be sent only then. */
  keepCommit(scope: string, { requestId, hash }: PendingCommit): void {
    this.#durably(() =>
      this.#write(
        'INSERT OR REPLACE INTO commits (scope, request_id, hash) VALUES (?, ?, ?)',
        scope,
        requestId,
        hashBlob(hash),
      ),
    );
  }

  dropCommit(scope: string): void {
    this.#durably(() => this.#write('DELETE FROM commits WHERE scope = ?', scope));
  }

  #durably(write: () => void): void {
    this.save();
    this.#database.run('PRAGMA synchronous = FULL');
    try {
      write();
      this.save();
    } finally {
      this.#database.run('PRAGMA synchronous = NORMAL');
    }
  }

  #write(sql: string, ...values: SQLQueryBindings[]): void {
    if (!this.#isWriting) this.#database.run('BEGIN');
    this.#isWriting = true;
    this.#statement(sql).run(...values);
  }

  #read<Row>(sql: string, ...values: SQLQueryBindings[]): Row | undefined {
    return (this.#statement(sql).get(...values) as Row | null) ?? undefined;
  }

  #readAll<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#statement(sql).all(...values) as Row[];
  }

  #statement(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

class StateVersionError extends Error {
  override readonly name = 'StateVersionError';
}

function blob(name: ByteString): Bytes {
  return bytesOf(name) as Bytes;
}

function hashBlob(hash: Hash): Bytes {
  return hashToBytes(hash) as Bytes;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function isBusy(error: unknown): boolean {
  return /^SQLITE_(?:BUSY|LOCKED)/.test(codeOf(error));
}

/** A hint that cannot be read is no loss. */
function isDamage(error: unknown): boolean {
  return error instanceof StateVersionError || /^SQLITE_(?:CORRUPT|NOTADB)/.test(codeOf(error));
}
