import { Database } from 'bun:sqlite';
import { afterEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { AppRecord, RegistryStore } from '../../auth/registry-store.ts';
import { EngineRefused } from '../refused.ts';
import { describeRegistryStore } from '../test/registry-store-suite.ts';
import { hasSqliteRegistry, openSqliteRegistryStore } from './registry-store.ts';

function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), 'holdfast-registry-'));
}

describeRegistryStore('embedded', async () => {
  const folder = makeFolder();
  return {
    open: () => openSqliteRegistryStore(folder),
    async change(sql) {
      using database = new Database(join(folder, 'registry.db'));
      database.run(sql);
    },
    destroy: async () => rmSync(folder, { recursive: true, force: true }),
  };
});

describe('the registry file', () => {
  const folders: string[] = [];
  const stores: RegistryStore[] = [];
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });
  const folder = (): string => {
    const path = makeFolder();
    folders.push(path);
    return path;
  };
  const open = (path: string): RegistryStore => {
    const store = openSqliteRegistryStore(path);
    stores.push(store);
    return store;
  };

  test('is made with its folder, and only its owner can use either', () => {
    const path = join(folder(), 'new', 'data');
    expect(hasSqliteRegistry(path)).toBe(false);
    open(path);
    expect(hasSqliteRegistry(path)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(statSync(join(path, 'registry.db')).mode & 0o777).toBe(0o600);
  });

  test('gives all Apps as they were written, or as damaged, or fails, whichever byte of it is damaged', async () => {
    const path = join(folder(), 'registry.db');
    const store = openSqliteRegistryStore(dirname(path));
    const sample: Omit<AppRecord, 'appId' | 'algorithms'> = {
      ...{
        issuer: 'https://one.example',
        audience: 'holdfast',
        status: 'suspended',
        tokenLifetimeMsMax: 60_000,
      },
      ...{ keys: { kind: 'url', url: 'https://one.example/jwks' }, createdAt: 1000, updatedAt: 2000 },
      ...{ quotas: { maxBytes: 5, maxNodes: 6 }, spaceQuotas: [], revocations: [] },
    };
    const one = { appId: 'one', algorithms: ['ES256'] } as const;
    const two = { appId: 'two', issuer: 'https://two.example', algorithms: ['EdDSA'] } as const;
    await store.insert({ ...sample, ...one });
    await store.insert({ ...sample, ...two });
    await store.close();
    const whole = readFileSync(path);
    let refusals = 0;
    for (let at = 0; at < whole.length; at += 1) {
      if (whole.subarray(Math.max(0, at - 4), at + 4).every((byte) => byte === 0)) continue;
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] as number) ^ 128;
      for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
      writeFileSync(path, damaged);
      try {
        const opened = openSqliteRegistryStore(dirname(path));
        try {
          const found = await opened.readAll();
          expect(found.length).toBe(2);
          const believed = found.filter(({ status }) => status !== 'damaged');
          if (believed.length < found.length) refusals += 1;
          for (const app of believed)
            expect(app).toEqual({ ...sample, ...(app.appId === 'one' ? one : two) });
        } finally {
          await opened.close();
        }
      } catch (error) {
        if (error instanceof Error && /damaged|registry|malformed|unknown|no such/.test(error.message))
          refusals += 1;
        else throw error;
      }
    }
    expect(refusals).toBeGreaterThan(500);
  });

  test.each([1, 2000, 4096 + 4095])('cut off after %p bytes is not taken for another one', async (length) => {
    const path = join(folder(), 'registry.db');
    await openSqliteRegistryStore(dirname(path)).close();
    writeFileSync(path, readFileSync(path).subarray(0, length));
    expect(() => openSqliteRegistryStore(dirname(path))).toThrow(/cut off.*restore a backup/);
  });

  test('keeps commits over power loss: write-ahead log, full synchronisation', () => {
    const path = folder();
    open(path);
    expect(existsSync(join(path, 'registry.db-wal'))).toBe(true);
    const database = new Database(join(path, 'registry.db'));
    expect(database.query('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    database.close();
  });

  test('of a newer version is left alone, with advice', () => {
    const path = folder();
    open(path);
    const database = new Database(join(path, 'registry.db'));
    database.run('PRAGMA user_version = 99');
    database.run('PRAGMA application_id = 0');
    database.run('UPDATE holdfast_schema SET min_compatible_version = 99');
    database.close();
    expect(() => open(path)).toThrow(EngineRefused);
    expect(() => open(path)).toThrow(/schema version 99.*newer Holdfast/);
  });

  test.each<[string, string, (path: string) => void]>([
    [
      'is no database',
      'restore a backup',
      (path) => writeFileSync(join(path, 'registry.db'), 'not a database, but long'.repeat(512)),
    ],
    ['is a folder', 'check --data', (path) => mkdirSync(join(path, 'registry.db'))],
  ])('that %s is refused in one line', (_, advice, spoil) => {
    const path = folder();
    spoil(path);
    expect(() => open(path)).toThrow(EngineRefused);
    expect(() => open(path)).toThrow(/^the registry [^\n]* cannot be opened [^\n]*$/);
    expect(() => open(path)).toThrow(advice);
  });

  test('below a path that is a file is refused', () => {
    const path = join(folder(), 'file');
    writeFileSync(path, '');
    expect(() => open(path)).toThrow(EngineRefused);
  });

  test('is not read again while nothing has changed', async () => {
    const path = folder();
    const store = open(path);
    const before = await store.readAll();
    expect(await store.readAll()).toBe(before);
    await open(path).remove('nobody');
    expect(await store.readAll()).toBe(before);
  });

  test('can be opened first by many processes at once, and one of equal additions wins', async () => {
    const path = join(folder(), 'data');
    const script = `
      import { openSqliteRegistryStore } from ${JSON.stringify(join(import.meta.dir, 'registry-store.ts'))};
      const store = openSqliteRegistryStore(${JSON.stringify(path)});
      const record = { appId: 'app', issuer: 'i', audience: 'a', status: 'active', createdAt: 1, updatedAt: 1,
        keys: { kind: 'static', jwks: '{}' }, algorithms: undefined, tokenLifetimeMsMax: 1,
        quotas: {}, spaceQuotas: [], revocations: [] };
      console.log(await store.insert(record));
      store.close();`;
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'inherit' });
        return (await new Response(child.stdout).text()).trim();
      }),
    );
    expect(outcomes.toSorted()).toEqual([...Array(5).fill('app-exists'), 'inserted']);
  });
});
