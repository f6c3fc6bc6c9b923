/** The behaviour of every RegistryStore, as tests (auth/registry-store.ts). An engine calls this with a way to open its store. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import {
  type AppRecord,
  REVOCATIONS_MAX,
  type RegistryStore,
  SPACE_QUOTAS_MAX,
} from '../../auth/registry-store.ts';

export interface RegistryStoreBench {
  /** Opens one more connection to the same rows, as another process would. */
  open(): RegistryStore | Promise<RegistryStore>;
  /** By SQL, past every rule. */
  change(sql: string): Promise<unknown>;
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
    quotas: { maxBytes: undefined, maxNodes: undefined },
    spaceQuotas: [],
    revocations: [],
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
    testLimits(subject);
    testStops(subject);
    testDamage(subject);
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
    [
      'quotas and revocations',
      {
        quotas: { maxBytes: Number.MAX_SAFE_INTEGER, maxNodes: undefined },
        spaceQuotas: [
          { spaceId: 'B', maxBytes: undefined, maxNodes: 0 },
          { spaceId: 'a "\'ü', maxBytes: 5, maxNodes: 6 },
        ],
        revocations: [
          { claim: 'jti', value: 'x'.repeat(2048), until: 5 },
          { claim: 'sub', value: 'ü "\'', until: Number.MAX_SAFE_INTEGER },
        ],
      },
    ],
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

  test('replaces everything of an App but its status and time of creation', async () => {
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

  test('replaces no App that is not there, and takes no issuer from another App', async () => {
    expect(await subject.store.replace(appRecord())).toBe('app-unknown');
    await subject.store.insert(appRecord());
    await subject.store.insert(appRecord({ appId: 'other', issuer: 'other' }));
    expect(await subject.store.replace(appRecord({ appId: 'other' }))).toBe('issuer-taken');
    expect(await subject.store.replace(appRecord({ appId: 'other', issuer: 'other', audience: 'new' }))).toBe(
      'replaced',
    );
    expect((await subject.store.readAll()).map((each) => each.audience)).toEqual(['aud', 'new']);
  });

  test('sets the status of an App any number of times', async () => {
    await subject.store.insert(appRecord());
    for (const status of ['suspended', 'suspended', 'active', 'active'] as const) {
      expect(await subject.store.setStatus('app', status, 9)).toBe(true);
      expect(await subject.store.readAll()).toEqual([appRecord({ status, updatedAt: 9 })]);
    }
    expect(await subject.store.setStatus('App', 'suspended', 9)).toBe(false);
  });

  test('frees the id and issuer of a removed App at once', async () => {
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
  test('shows every change to other connections, and sees theirs', async () => {
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

function testLimits(subject: Subject): void {
  const readApp = async () => (await subject.store.readAll())[0];

  test('changes one limit and keeps the other; lifting both leaves no trace', async () => {
    await subject.store.insert(appRecord());
    expect(await subject.store.setQuotas('nobody', undefined, { maxBytes: 1 })).toBe('app-unknown');
    for (const spaceId of [undefined, 'space']) {
      expect(await subject.store.setQuotas('app', spaceId, { maxBytes: 10 })).toBe('changed');
      expect(await subject.store.setQuotas('app', spaceId, { maxNodes: 0 })).toBe('changed');
    }
    expect(await readApp()).toMatchObject({
      quotas: { maxBytes: 10, maxNodes: 0 },
      spaceQuotas: [{ spaceId: 'space', maxBytes: 10, maxNodes: 0 }],
    });
    await subject.store.setQuotas('app', undefined, { maxBytes: null });
    await subject.store.setQuotas('app', 'space', { maxNodes: null });
    expect(await readApp()).toMatchObject({
      quotas: { maxBytes: undefined, maxNodes: 0 },
      spaceQuotas: [{ spaceId: 'space', maxBytes: 10, maxNodes: undefined }],
    });
    await subject.store.setQuotas('app', undefined, { maxNodes: null });
    await subject.store.setQuotas('app', 'space', { maxBytes: null, maxNodes: null });
    expect(await readApp()).toEqual(appRecord());
  });

  test('adds, prolongs and lifts revocations; those that have expired go when one is added', async () => {
    await subject.store.insert(appRecord());
    const revoke = (claim: 'jti' | 'sub', value: string, until: number, now = 0) =>
      subject.store.revoke('app', { claim, value, until }, now);
    expect(await subject.store.revoke('nobody', { claim: 'jti', value: 'a', until: 5 }, 0)).toBe(
      'app-unknown',
    );
    await revoke('sub', 'b', 5);
    await revoke('jti', 'b', 7);
    await revoke('jti', 'b', 9);
    expect((await readApp())?.revocations).toEqual([
      { claim: 'jti', value: 'b', until: 9 },
      { claim: 'sub', value: 'b', until: 5 },
    ]);
    expect(await subject.store.liftRevocation('app', 'jti', 'a')).toBe(false);
    expect(await subject.store.liftRevocation('app', 'jti', 'b')).toBe(true);
    expect(await revoke('sub', 'c', 50, 5)).toBe('changed');
    expect((await readApp())?.revocations).toEqual([{ claim: 'sub', value: 'c', until: 50 }]);
  });

  test('refuses revocations and quotas of Spaces beyond their limits', async () => {
    const spaceQuotas = Array.from({ length: SPACE_QUOTAS_MAX }, (_, index) => ({
      ...{ spaceId: String(index).padStart(6, '0'), maxBytes: 1, maxNodes: undefined },
    }));
    const revocations = Array.from({ length: REVOCATIONS_MAX }, (_, index) => ({
      ...{ claim: 'jti' as const, value: String(index).padStart(6, '0'), until: index === 0 ? 5 : 50 },
    }));
    await subject.store.insert(appRecord({ spaceQuotas, revocations }));
    expect(await subject.store.setQuotas('app', 'one more', { maxBytes: 1 })).toBe('too-many');
    expect(await subject.store.setQuotas('app', '000001', { maxBytes: 2 })).toBe('changed');
    expect(await subject.store.setQuotas('app', undefined, { maxBytes: 2 })).toBe('changed');
    const one = { claim: 'jti', value: 'one more', until: 9 } as const;
    expect(await subject.store.revoke('app', one, 4)).toBe('too-many');
    expect(await subject.store.revoke('app', { ...one, value: '000001' }, 4)).toBe('changed');
    expect(await subject.store.revoke('app', one, 5)).toBe('changed');
  }, 60_000);

  test('keeps revocations and quotas when an App is replaced, or removed and added again', async () => {
    await subject.store.insert(appRecord());
    await subject.store.setQuotas('app', undefined, { maxBytes: 1 });
    await subject.store.setQuotas('app', 'space', { maxBytes: 1 });
    await subject.store.revoke('app', { claim: 'jti', value: 'a', until: 5 }, 0);
    const before = (await readApp()) as AppRecord;
    await subject.store.replace(appRecord());
    expect(await readApp()).toEqual(before);
    await subject.store.remove('app');
    expect(await subject.store.setQuotas('app', undefined, { maxBytes: 2 })).toBe('app-unknown');
    expect(await subject.store.readAll()).toEqual([]);
    await subject.store.insert(appRecord());
    expect(await readApp()).toEqual(before);
    expect(await subject.store.setQuotas('app', undefined, { maxBytes: null })).toBe('changed');
    expect(await readApp()).toEqual({ ...before, quotas: { maxBytes: undefined, maxNodes: undefined } });
  });
}

function testStops(subject: Subject): void {
  test('keeps since when an App is suspended or removed', async () => {
    const { store } = subject;
    const startedAt = Date.now();
    expect(await store.findStoppedAt('app')).toBe(undefined);
    await store.insert(appRecord());
    expect(await store.findStoppedAt('app')).toBe(undefined);
    await store.setStatus('app', 'suspended', 9);
    const suspendedAt = (await store.findStoppedAt('app')) as number;
    expect(Math.abs(suspendedAt - startedAt)).toBeLessThan(60_000);
    await Bun.sleep(5);
    await store.setStatus('app', 'suspended', 9);
    expect(await store.findStoppedAt('app')).toBe(suspendedAt);
    await store.remove('app');
    expect(await store.findStoppedAt('app')).toBeGreaterThan(suspendedAt);
  });
}

function testDamage(subject: Subject): void {
  const readStates = async () => {
    const store = await subject.bench.open();
    const states = (await store.readAll()).map(({ appId, status }) => [appId, status]);
    await store.close();
    return states;
  };

  test.each([
    "UPDATE apps SET issuer = 'https://other.test' WHERE app_id = 'app'",
    "UPDATE apps SET audience = 'bud' WHERE app_id = 'app'",
    "UPDATE apps SET status = 'suspended' WHERE app_id = 'app'",
    "UPDATE apps SET jwks = replace(jwks, 'k', 'j') WHERE app_id = 'app'",
    "UPDATE apps SET algorithms = 'ES256,none' WHERE app_id = 'app'",
    'UPDATE apps SET token_lifetime_ms_max = 9007199254740993',
    "UPDATE quotas SET max_bytes = 9007199254740993 WHERE app_id = 'app'",
    "UPDATE quotas SET space_id = 'spaze' WHERE space_id = 'space'",
    "UPDATE revocations SET value = 'b'",
    'UPDATE revocations SET until = 2000',
    "UPDATE revocations SET app_id = 'other'",
    'DELETE FROM revocations',
  ])('believes nothing of an App of which a row is damaged: %s', async (sql) => {
    const { store } = subject;
    await store.insert(appRecord());
    const other = appRecord({ appId: 'other', issuer: 'https://other-issuer.test' });
    if (!sql.includes('max = ')) await store.insert(other);
    await store.setQuotas('app', 'space', { maxBytes: 5 });
    await store.revoke('app', { claim: 'jti', value: 'a', until: 1000 }, 0);
    await subject.bench.change(sql);
    expect((await readStates())[0]).toEqual(['app', 'damaged']);
    // No change gives what is damaged the sum of what is right.
    for (const change of [
      () => store.setStatus('app', 'active', 1),
      () => store.setQuotas('app', undefined, { maxBytes: 1 }),
      () => store.revoke('app', { claim: 'sub', value: 'c', until: 1000 }, 0),
      () => store.liftRevocation('app', 'jti', 'a'),
    ])
      await expect((async () => change())()).rejects.toThrow(/"app".* is damaged/);
    expect(await store.findStoppedAt('app')).toBeUndefined();
    expect(await store.replace(appRecord({ updatedAt: 5 }))).toBe('replaced');
    expect(await store.findStoppedAt('app')).toBeNumber();
    expect((await store.readAll())[0]).toEqual(appRecord({ status: 'suspended', updatedAt: 5 }));
    expect(await store.setStatus('app', 'active', 6)).toBe(true);
    expect((await readStates())[0]).toEqual(['app', 'active']);
  });

  test('of an App whose id is damaged, and of others', async () => {
    const { store } = subject;
    await store.insert(appRecord());
    await store.insert(appRecord({ appId: 'other', issuer: 'https://other.test' }));
    await subject.bench.change("UPDATE apps SET app_id = 'apq' WHERE app_id = 'app'");
    expect(await readStates()).toEqual([
      ['apq', 'damaged'],
      ['other', 'active'],
    ]);
    expect(await store.remove('apq')).toBe(true);
    expect(await readStates()).toEqual([['other', 'active']]);
  });

  test('an App that is older than sums gets its sum when it is opened', async () => {
    await subject.store.insert(appRecord());
    await subject.bench.change('UPDATE apps SET record_sum = NULL');
    expect(await readStates()).toEqual([['app', 'active']]);
    await subject.bench.change("UPDATE apps SET audience = 'bud'");
    expect(await readStates()).toEqual([['app', 'damaged']]);
  });
}
