import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ServeError } from '../errors.ts';
import { explainFolderError, holdDataFolder, joinDataFolder } from './data-folder.ts';

let parent: string;

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-folder-'));
});

afterEach(() => rmSync(parent, { recursive: true, force: true }));

describe('data folder', () => {
  test('is made private with its parents, and held by one server until it lets go', () => {
    const path = join(parent, 'a', 'b');
    const held = holdDataFolder(path);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(() => holdDataFolder(path)).toThrow(/in use by another holdfast/);
    held.release();
    holdDataFolder(path).release();
  });

  /** A process that holds `path` by `call` until it is killed. */
  async function startHolder(call: 'holdDataFolder' | 'joinDataFolder', path: string) {
    const script = `
      const { ${call} } = await import(${JSON.stringify(join(import.meta.dir, 'data-folder.ts'))});
      ${call}(${JSON.stringify(path)});
      // A holder that drops the returned object still holds the folder.
      Bun.gc(true);
      console.log('held');
      setInterval(() => {}, 1000);`;
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'inherit' });
    const { value } = await child.stdout.getReader().read();
    expect(new TextDecoder().decode(value)).toBe('held\n');
    return async (): Promise<void> => {
      child.kill('SIGKILL');
      await child.exited;
    };
  }

  test('is taken from who leaves it between two looks', () => {
    const path = join(parent, 'data');
    holdDataFolder(path).release();
    const leaving = holdDataFolder(path, { withWorkers: true });
    const { run } = Database.prototype;
    const spy = spyOn(Database.prototype, 'run').mockImplementation(function (this: Database, ...given) {
      try {
        return run.apply(this, given);
      } finally {
        if (String(given[0]) === 'BEGIN EXCLUSIVE') leaving.release();
      }
    });
    try {
      holdDataFolder(path).release();
      expect(spy.mock.calls.filter(([sql]) => sql === 'BEGIN EXCLUSIVE')).toHaveLength(2);
    } finally {
      spy.mockRestore();
    }
  });

  test('the lock of a killed process does not keep out the next server', async () => {
    const path = join(parent, 'data');
    const kill = await startHolder('holdDataFolder', path);
    try {
      expect(() => holdDataFolder(path)).toThrow(ServeError);
    } finally {
      await kill();
    }
    holdDataFolder(path).release();
  });

  test('a worker holds the folder beside its server, and after it', async () => {
    const path = join(parent, 'data');
    const held = holdDataFolder(path, { withWorkers: true });
    const kill = await startHolder('joinDataFolder', path);
    try {
      expect(() => holdDataFolder(path)).toThrow(/in use by another holdfast server/);
      held.release();
      expect(() => holdDataFolder(path)).toThrow(/workers of a server that was killed .* has to be killed/);
      expect(() => holdDataFolder(path, { withWorkers: true })).toThrow(
        /workers of a server that was killed/,
      );
    } finally {
      await kill();
    }
    holdDataFolder(path).release();
  });

  test('a server without workers lets nobody join', () => {
    const held = holdDataFolder(parent);
    expect(() => joinDataFolder(parent)).toThrow(/in use by another holdfast server/);
    held.release();
  });

  test('a file is no folder', () => {
    const path = join(parent, 'file');
    writeFileSync(path, '');
    expect(() => holdDataFolder(path)).toThrow(/is not a folder/);
    expect(() => holdDataFolder(join(path, 'below'))).toThrow(/is not a folder/);
  });

  test.each([
    ['EACCES', /cannot be written/],
    ['SQLITE_READONLY', /cannot be written/],
    ['ENOENT', /cannot be made or opened/],
    ['EROFS', /read-only/],
    ['ENOSPC', /full/],
    ['SQLITE_FULL', /full/],
    ['SQLITE_IOERR_SHMSIZE', /full/],
    ['EIO', /I\/O error/],
    ['SQLITE_IOERR_READ', /I\/O error/],
    ['SQLITE_NOTADB', /damaged.*restore a backup/],
    ['SQLITE_CORRUPT', /damaged.*restore a backup/],
    ['SQLITE_CORRUPT_INDEX', /damaged.*restore a backup/],
    // The error of SQLite for a schema with one flipped bit.
    ['SQLITE_ERROR', /damaged.*restore a backup/],
  ])('%s is explained', (code, message) => {
    const explained = explainFolderError('/data', Object.assign(new Error('x'), { code }));
    expect(explained).toBeInstanceOf(ServeError);
    expect((explained as Error).message).toMatch(message);
    expect((explained as Error).message).toContain('/data');
  });

  test('a failed read of the rows is explained by its cause', () => {
    const cause = Object.assign(new Error('malformed'), { code: 'SQLITE_CORRUPT' });
    const explained = explainFolderError('/data', new Error('reading failed', { cause }));
    expect(explained).toBeInstanceOf(ServeError);
    expect((explained as Error).message).toMatch(/damaged \(reading failed\)/);
  });

  test('a damaged lock is not taken for damaged data', () => {
    const path = join(parent, 'data');
    holdDataFolder(path).release();
    writeFileSync(join(path, 'lock.db'), new Uint8Array(4096).fill(1));
    expect(() => holdDataFolder(path)).toThrow(/lock\.db is damaged: .* remove it/);
  });

  test('an error that is not about the folder is passed on unchanged', () => {
    const error = new TypeError('bug');
    expect(explainFolderError('/data', error)).toBe(error);
  });
});
