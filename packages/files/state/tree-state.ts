/** The state of one folder between pushes, one SQLite file in the user's cache folder, held by one process at a time. */
import { Database, type SQLQueryBindings, type Statement } from 'bun:sqlite';
import { createHash } from 'node:crypto';
import { chmodSync, rmSync } from 'node:fs';
import { bytesToHash, type Hash, PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { byteStringOf } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';
import {
  type DirectoryRow,
  type FolderState,
  type OWN_NODES,
  type PendingCommit,
  UNFINISHED,
} from '../push/folder-state.ts';
import { packPage, type SeenEntry, unpackPage } from '../push/stat-pages.ts';
import {
  isBusy,
  isDamage,
  StateVersionError,
  TreeStateBusyError,
  type TreeStateLostError,
  toLostError,
} from '../push/state-failure.ts';
import {
  fileKey,
  packCommit,
  packHash,
  packName,
  packSummary,
  pageKey,
  STATE_SCHEMA,
  STATE_VERSION,
  seal,
  unpackCommit,
  unpackSummary,
  unseal,
} from './state-rows.ts';

/** Staged pages of a directory stand under the negative of its id. */
const staged = (directory: number): number => -directory;

type Bytes = Uint8Array<ArrayBuffer>;

export class TreeState implements FolderState {
  readonly #path: string;
  readonly #database: Database;
  readonly #onClosed: () => void;
  readonly #statements = new Map<string, Statement>();
  #isReplacement = false;
  #isClosed = false;
  #isWriting = false;
  #lost: TreeStateLostError | undefined;
  #savedAt = performance.now();

  /** Throws TreeStateBusyError; a damaged file, or one of another version, is replaced. `onClosed`: the state was closed. */
  static open(path: string, onClosed: () => void = () => undefined): TreeState {
    try {
      return new TreeState(path, onClosed);
    } catch (error) {
      if (error instanceof TreeStateBusyError) throw error;
      if (!isDamage(error)) throw error;
      removeFiles(path);
      const state = new TreeState(path, onClosed);
      state.#isReplacement = true;
      return state;
    }
  }

  private constructor(path: string, onClosed: () => void) {
    this.#path = path;
    this.#onClosed = onClosed;
    this.#database = new Database(path, { create: true, strict: true });
    try {
      // Names and hashes of private files: for their owner only.
      chmodSync(path, PRIVATE_FILE_MODE);
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
    if (version === 0) database.run(STATE_SCHEMA);
    database.run('COMMIT');
    // Read here, so that the caller learns of an unreadable commit before it makes another one.
    this.#guard(() => this.#readCommits());
  }

  get isReplacement(): boolean {
    return this.#isReplacement;
  }

  /** Throws TreeStateLostError when what was written last could not be saved; it is closed all the same. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      this.save();
    } finally {
      for (const statement of this.#statements.values()) statement.finalize();
      this.#statements.clear();
      this.#database.close();
      this.#onClosed();
    }
  }

  /** Removes its files too. */
  discard(): ReadonlyMap<string, PendingCommit> | undefined {
    let commits: ReadonlyMap<string, PendingCommit> | undefined;
    try {
      commits = this.#readCommits();
    } catch {
      // They are in the part that is damaged: the caller says so.
    }
    this.#lost ??= toLostError(new Error('it was discarded'));
    this.close();
    removeFiles(this.#path);
    return commits;
  }

  #readCommits(): ReadonlyMap<string, PendingCommit> {
    const statement = this.#database.prepare<{ scope: string; pending: Uint8Array }, []>(
      'SELECT scope, pending FROM commits',
    );
    try {
      return new Map(statement.all().map(({ scope, pending }) => [scope, unpackCommit(scope, pending)]));
    } finally {
      statement.finalize();
    }
  }

  /** A state that was lost has nothing left to save. */
  save(): void {
    const isOpen = this.#isWriting && this.#lost === undefined;
    this.#isWriting = false;
    this.#savedAt = performance.now();
    if (isOpen) this.#guard(() => this.#database.run('COMMIT'));
  }

  saveSometimes(): void {
    // A kill costs at most a second of work.
    if (performance.now() - this.#savedAt > 1_000) this.save();
  }

  forgetEntries(): void {
    this.#write('DELETE FROM pages');
    this.#write('DELETE FROM files');
    // Without its pages a directory must not keep its totals: an emptied folder would look unchanged.
    this.#write('UPDATE directories SET summary = NULL');
  }

  findDirectory(parent: number, name: ByteString): DirectoryRow | undefined {
    return this.#guard(() => {
      const row = this.#read<{ id: number; summary: Uint8Array | null }>(
        'SELECT id, summary FROM directories WHERE parent = ? AND name = ?',
        parent,
        packName(name),
      );
      if (row === undefined) return undefined;
      const { id, summary } = row;
      const known = summary === null ? UNFINISHED : unpackSummary(id, summary);
      return { ...known, id, isNew: false };
    });
  }

  addDirectory(parent: number, name: ByteString): DirectoryRow {
    const id = this.#write('INSERT INTO directories (parent, name) VALUES (?, ?)', parent, packName(name));
    return { id, isNew: true, ...UNFINISHED };
  }

  finishDirectory(id: number, hash: Hash, bytes: number, entryCount: number): void {
    const summary = packSummary({ id, hash, bytes, entryCount });
    this.#write('UPDATE directories SET summary = ? WHERE id = ?', summary, id);
  }

  dropMissing(directory: number, isThere: (name: ByteString) => boolean): void {
    for (const { id, name } of this.#readAll<{ id: number; name: unknown }>(
      'SELECT id, name FROM directories WHERE parent = ?',
      directory,
    )) {
      if (!isThere(byteStringOf(this.#blob(name)))) this.#guard(() => this.#dropDirectory(id));
    }
    for (const { name } of this.#readAll<{ name: unknown }>(
      'SELECT name FROM files WHERE directory = ?',
      directory,
    )) {
      const text = byteStringOf(this.#blob(name));
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
    return this.#guard(() => {
      const sql = 'SELECT entries FROM pages WHERE directory = ? AND page = ?';
      const row = this.#read<{ entries: Uint8Array }>(sql, directory, page);
      return row === undefined ? undefined : unseal(pageKey(directory, page), row.entries);
    });
  }

  putPage(directory: number, page: number, entries: Uint8Array): void {
    this.#write(
      'INSERT OR REPLACE INTO pages (directory, page, entries) VALUES (?, ?, ?)',
      directory,
      page,
      seal(pageKey(directory, page), entries),
    );
  }

  stagePage(directory: number, page: number, entries: Uint8Array): void {
    this.putPage(staged(directory), page, entries);
  }

  replacePages(directory: number, from: number): void {
    this.#write('DELETE FROM pages WHERE directory = ? AND page >= ?', directory, from);
    this.#write('UPDATE pages SET directory = ? WHERE directory = ?', directory, staged(directory));
  }

  dropStagedPages(directory: number): void {
    this.#write('DELETE FROM pages WHERE directory = ?', staged(directory));
  }

  findFile(directory: number, name: ByteString): SeenEntry | undefined {
    return this.#guard(() => {
      const sql = 'SELECT entry FROM files WHERE directory = ? AND name = ?';
      const row = this.#read<{ entry: Uint8Array }>(sql, directory, packName(name));
      return row === undefined ? undefined : unpackPage(unseal(fileKey(directory, name), row.entry))[0];
    });
  }

  putFile(directory: number, entry: SeenEntry): void {
    this.#write(
      'INSERT OR REPLACE INTO files (directory, name, entry) VALUES (?, ?, ?)',
      directory,
      packName(entry.name),
      seal(fileKey(directory, entry.name), packPage([entry])),
    );
  }

  dropFile(directory: number, name: ByteString): void {
    this.#write('DELETE FROM files WHERE directory = ? AND name = ?', directory, packName(name));
    this.#write('DELETE FROM nodes WHERE directory = ? AND name = ?', directory, packName(name));
  }

  findNode(directory: number, name: ByteString | typeof OWN_NODES, hash: Hash): Uint8Array | undefined {
    const sql = 'SELECT bytes FROM nodes WHERE directory = ? AND name = ? AND hash = ?';
    const row = this.#read<{ bytes: unknown }>(sql, directory, packName(name), packHash(hash));
    if (row === undefined) return undefined;
    const bytes = this.#blob(row.bytes);
    if (createHash('sha256').update(bytes).digest('hex') === hash) return bytes;
    throw this.#lose(new Error('a node has another hash than it was written with'));
  }

  putNode(directory: number, name: ByteString, hash: Hash, bytes: Uint8Array): void {
    this.#write(
      'INSERT OR IGNORE INTO nodes (directory, name, hash, bytes) VALUES (?, ?, ?, ?)',
      directory,
      packName(name),
      packHash(hash),
      bytes as Bytes,
    );
  }

  dropNodesExcept(directory: number, name: ByteString, kept: ReadonlySet<Hash>): void {
    const sql = 'SELECT hash FROM nodes WHERE directory = ? AND name = ?';
    for (const row of this.#readAll<{ hash: unknown }>(sql, directory, packName(name))) {
      const hash = this.#blob(row.hash);
      if (kept.has(this.#guard(() => bytesToHash(hash)))) continue;
      this.#write(
        'DELETE FROM nodes WHERE directory = ? AND name = ? AND hash = ?',
        directory,
        packName(name),
        hash,
      );
    }
  }

  findCommit(scope: string): PendingCommit | undefined {
    return this.#guard(() => {
      const row = this.#read<{ pending: Uint8Array }>('SELECT pending FROM commits WHERE scope = ?', scope);
      return row === undefined ? undefined : unpackCommit(scope, row.pending);
    });
  }

  /** On disk when this returns. */
  keepCommit(scope: string, pending: PendingCommit): void {
    const packed = packCommit(scope, pending);
    this.#durably(() =>
      this.#write('INSERT OR REPLACE INTO commits (scope, pending) VALUES (?, ?)', scope, packed),
    );
  }

  dropCommit(scope: string): void {
    this.#durably(() => this.#write('DELETE FROM commits WHERE scope = ?', scope));
  }

  #durably(write: () => void): void {
    this.save();
    this.#guard(() => this.#database.run('PRAGMA synchronous = FULL'));
    write();
    this.save();
    this.#guard(() => this.#database.run('PRAGMA synchronous = NORMAL'));
  }

  /** Returns the id of the row that was inserted, if one was. */
  #write(sql: string, ...values: SQLQueryBindings[]): number {
    return this.#guard(() => {
      if (!this.#isWriting) this.#database.run('BEGIN');
      this.#isWriting = true;
      return Number(this.#statement(sql).run(...values).lastInsertRowid);
    });
  }

  #read<Row>(sql: string, ...values: SQLQueryBindings[]): Row | undefined {
    return this.#guard(() => (this.#statement(sql).get(...values) as Row | null) ?? undefined);
  }

  #readAll<Row>(sql: string, ...values: SQLQueryBindings[]): Row[] {
    return this.#guard(() => this.#statement(sql).all(...values) as Row[]);
  }

  /** Keeps the first failure as the reason. SQLite may have ended the transaction by itself, and later errors would only say that. */
  #guard<T>(work: () => T): T {
    if (this.#lost !== undefined) throw this.#lost;
    try {
      return work();
    } catch (error) {
      throw this.#lose(error);
    }
  }

  #lose(error: unknown): TreeStateLostError {
    this.#lost ??= toLostError(error);
    return this.#lost;
  }

  /** A flipped bit may turn bytes into text or a number. */
  #blob(value: unknown): Bytes {
    if (value instanceof Uint8Array) return value as Bytes;
    throw this.#lose(new Error('a row holds something else than bytes'));
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

function removeFiles(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
}
