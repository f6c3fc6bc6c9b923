/** What every RegistryStore does, as tests (auth/registry-store.ts). An engine calls this with a way to open its store. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { AppRecord, RegistryStore } from '../../auth/registry-store.ts';

export interface RegistryStoreBench {
  /** Opens one more connection to the same rows, as another process would. */
  open(): RegistryStore | Promise<RegistryStore>;
  /** Closes and deletes everything. */
  destroy(): Promise<void>;
}

/** An App as the registry keeps it. */
export function appRecord(change: Partial<AppRecord> = {}): AppRecord {
  return {
    appId: 'app',
    issuer: 'https://issuer.test',
    audience: 'aud',
    status: 'active',
    keys: { kind: 'static', jwks: '{"keys":[]}' },
    algorithms: undefined,
    tokenLifetimeMsMax: 86_400_000,
    createdAt: 1_700_000_000_000,
    updatedAt: 1_700_000_000_001,
    ...change,
  };
}

/** The store of the test that runs, and more connections to it. */
interface Subject {
  bench: RegistryStoreBench;
  store: RegistryStore;
}

export function describeRegistryStore(engine: string, openBench: () => Promise<RegistryStoreBench>): void {
  describe(`registry store: ${engine}`, () => {
    const subject = {} as Subject;
    beforeEach(async () => {
      subject.bench = await openBench();
      subject.store = await subject.bench.open();
    });
    afterEach(async () => {
      await subject.store.close();
      await subject.bench.destroy();
    });
    testReading(subject);
    testChanges(subject);
    testConnections(subject);
  });
}

function testReading(subject: Subject): void {
  test('is empty at first', async () => {
    expect(await subject.store.readAll()).toEqual([]);
  });

  test.each<[string, Partial<AppRecord>]>([
    ['a key set', {}],
    ['a URL', { keys: { kind: 'url', url: 'https://issuer.test/jwks.json' } }],
    ['a narrower list', { algorithms: ['EdDSA', 'ES256'] }],
    ['a suspended App', { status: 'suspended' }],
    ['the longest lifetime', { tokenLifetimeMsMax: Number.MAX_SAFE_INTEGER }],
    ['other scripts', { appId: 'a/b ü 🙂', issuer: 'iss\'"--;', audience: '\u202e' }],
  ])('gives back what was put in: %s', async (_, change) => {
    expect(await subject.store.insert(appRecord(change))).toBe('inserted');
    expect(await subject.store.readAll()).toEqual([appRecord(change)]);
  });

  test('orders Apps by the bytes of their ids and folds nothing', async () => {
    const ids = ['b', 'B', 'a', 'é', 'e\u0301', '\uffff', '🙂', 'a '];
    for (const appId of ids)
      expect(await subject.store.insert(appRecord({ appId, issuer: appId }))).toBe('inserted');
    const sorted = ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect((await subject.store.readAll()).map((each) => each.appId)).toEqual(sorted);
  });
}

function testChanges(subject: Subject): void {
  test('refuses a second App of one id, and one issuer for two Apps', async () => {
    await subject.store.insert(appRecord());
    expect(await subject.store.insert(appRecord({ issuer: 'other' }))).toBe('app-exists');
    expect(await subject.store.insert(appRecord({ appId: 'other' }))).toBe('issuer-taken');
    expect(await subject.store.insert(appRecord())).toBe('app-exists');
    expect(await subject.store.readAll()).toEqual([appRecord()]);
  });

  test('replaces all but status and time of creation', async () => {
    await subject.store.insert(appRecord({ status: 'suspended' }));
    const change: Partial<AppRecord> = {
      issuer: 'new',
      audience: 'new',
      keys: { kind: 'url', url: 'https://new.test/' },
      algorithms: ['RS256'],
      tokenLifetimeMsMax: 60_000,
      updatedAt: 5,
    };
    expect(await subject.store.replace(appRecord({ ...change, createdAt: 4, status: 'active' }))).toBe(
      'replaced',
    );
    expect(await subject.store.readAll()).toEqual([appRecord({ ...change, status: 'suspended' })]);
    expect(await subject.store.replace(appRecord())).toBe('replaced');
    expect(await subject.store.readAll()).toEqual([appRecord({ status: 'suspended' })]);
  });

  test('replaces nothing that is not there, and takes no issuer from another App', async () => {
    expect(await subject.store.replace(appRecord())).toBe('app-unknown');
    await subject.store.insert(appRecord());
    await subject.store.insert(appRecord({ appId: 'other', issuer: 'other' }));
    expect(await subject.store.replace(appRecord({ appId: 'other' }))).toBe('issuer-taken');
    expect(await subject.store.replace(appRecord({ appId: 'other', issuer: 'other', audience: 'new' }))).toBe(
      'replaced',
    );
    expect((await subject.store.readAll()).map((each) => each.audience)).toEqual(['aud', 'new']);
  });

  test('sets the status, again and again', async () => {
    await subject.store.insert(appRecord());
    for (const status of ['suspended', 'suspended', 'active', 'active'] as const) {
      expect(await subject.store.setStatus('app', status, 9)).toBe(true);
      expect(await subject.store.readAll()).toEqual([appRecord({ status, updatedAt: 9 })]);
    }
    expect(await subject.store.setStatus('App', 'suspended', 9)).toBe(false);
  });

  test('frees id and issuer of a removed App at once', async () => {
    await subject.store.insert(appRecord());
    expect(await subject.store.remove('other')).toBe(false);
    expect(await subject.store.remove('app')).toBe(true);
    expect(await subject.store.remove('app')).toBe(false);
    expect(await subject.store.readAll()).toEqual([]);
    expect(await subject.store.insert(appRecord({ appId: 'other' }))).toBe('inserted');
    expect(await subject.store.insert(appRecord({ issuer: 'other' }))).toBe('inserted');
  });
}

function testConnections(subject: Subject): void {
  test('shows every change to other connections, and theirs here', async () => {
    const other = await subject.bench.open();
    try {
      await subject.store.insert(appRecord());
      expect(await other.readAll()).toEqual([appRecord()]);
      await other.setStatus('app', 'suspended', 9);
      expect((await subject.store.readAll())[0]?.status).toBe('suspended');
      await subject.store.remove('app');
      expect(await other.readAll()).toEqual([]);
      expect(await other.insert(appRecord())).toBe('inserted');
      expect(await subject.store.insert(appRecord())).toBe('app-exists');
    } finally {
      await other.close();
    }
  });

  test('keeps everything when it is closed and opened again', async () => {
    await subject.store.insert(appRecord());
    await subject.store.close();
    subject.store = await subject.bench.open();
    expect(await subject.store.readAll()).toEqual([appRecord()]);
  });
}
