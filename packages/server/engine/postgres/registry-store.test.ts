import { afterAll, beforeAll, expect, test } from 'bun:test';
import {
  openPostgres as openTestPostgres,
  type TestDatabases,
} from '../../../../test/support/postgres-server.ts';
import type { RegistryStore } from '../../auth/registry-store.ts';
import { parsePostgresUrl } from '../postgres-url.ts';
import { appRecord, describeRegistryStore } from '../test/registry-store-suite.ts';
import { hasPostgresRows, openPostgres } from './open-postgres.ts';
import { openPostgresRegistryStore } from './registry-store.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const START_MS_MAX = 300_000;

let databases: TestDatabases;

beforeAll(async () => {
  databases = await openTestPostgres();
}, START_MS_MAX);
afterAll(() => databases.close());

/** Connections to one fresh database, each pool as another process would have it. */
async function openBench() {
  const url = await databases.createDatabase();
  const pools: PostgresPool[] = [];
  return {
    url,
    async open() {
      const pool = await openPostgres({ ...parsePostgresUrl(url, {}), connectionsMax: 2 });
      pools.push(pool);
      return openPostgresRegistryStore(pool);
    },
    change: async (sql: string) => {
      await pools[0]?.lend((connection) =>
        connection.script(`${sql}; UPDATE apps_version SET version = version + 1`),
      );
    },
    async destroy() {
      for (const pool of pools) await pool.close();
    },
  };
}

describeRegistryStore('postgres', openBench);

test('answers the same array while nothing has changed, and another once something has', async () => {
  const bench = await openBench();
  try {
    const [mine, other] = [await bench.open(), await bench.open()];
    await mine.insert(appRecord());
    const first = await mine.readAll();
    expect(await mine.readAll()).toBe(first);
    expect(await other.setStatus('nobody', 'suspended', 9)).toBe(false);
    expect(await other.insert(appRecord())).toBe('app-exists');
    expect(await mine.readAll()).toBe(first);
    expect(await other.setStatus('app', 'suspended', 9)).toBe(true);
    const second = await mine.readAll();
    expect(second).not.toBe(first);
    expect(second[0]?.status).toBe('suspended');
  } finally {
    await bench.destroy();
  }
});

test('takes the longest issuer and App id, byte for byte', async () => {
  const bench = await openBench();
  try {
    const store = await bench.open();
    const long = appRecord({
      appId: '🙂'.repeat(256),
      issuer: 'ü'.repeat(2047),
      audience: '\u202e'.repeat(2048),
    });
    expect(await store.insert(long)).toBe('inserted');
    expect(await store.insert(appRecord({ appId: 'b', issuer: `${'ü'.repeat(2047)}x` }))).toBe('inserted');
    expect(await store.insert(appRecord({ appId: 'c', issuer: long.issuer }))).toBe('issuer-taken');
    expect((await store.readAll()).map(({ issuer }) => issuer.length)).toEqual([2048, 2047]);
  } finally {
    await bench.destroy();
  }
});

test('processes that add Apps at once add each App and each issuer once', async () => {
  const bench = await openBench();
  try {
    const stores = await Promise.all(Array.from({ length: 4 }, () => bench.open()));
    const outcomes = await Promise.all(
      stores.flatMap((store, at) => [
        store.insert(appRecord({ appId: 'same', issuer: `issuer ${at}` })),
        store.insert(appRecord({ appId: `app ${at}`, issuer: 'same' })),
        store.insert(appRecord({ appId: `own ${at}`, issuer: `own ${at}` })),
        store.setStatus('same', at % 2 === 0 ? 'suspended' : 'active', at),
      ]),
    );
    expect(outcomes.filter((outcome) => outcome === 'inserted')).toHaveLength(6);
    const apps = (await (stores[0] as RegistryStore).readAll()).map(({ appId }) => appId);
    expect(apps.filter((appId) => appId.startsWith('own'))).toHaveLength(4);
    expect(apps).toHaveLength(6);
  } finally {
    await bench.destroy();
  }
});

test('a database that no Holdfast has used has no registry, and looking for one makes none', async () => {
  const address = parsePostgresUrl(await databases.createDatabase(), {});
  expect(await hasPostgresRows(address)).toBe(false);
  expect(await hasPostgresRows(address)).toBe(false);
});
