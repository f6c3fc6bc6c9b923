/** The walk over strays: on a real S3 with foreign keys among ours, and on a stand-in that fails. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { DAY_MS } from '@holdfast/protocol';
import { openCeph, type TestBuckets } from '../../../../test/support/ceph-server.ts';
import { listKeys, type TestBucket } from '../../../../test/support/s3-request.ts';
import type { Generation, ObjectKey } from '../../core/model.ts';
import type { ContentStore } from '../../core/ports.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { NOW, newGeneration, SPACE, sampleNode } from '../test/samples.ts';
import type { S3Limits } from './limits.ts';
import { ObjectKeys } from './object-key.ts';
import { configOf, openStore, overwrite, putDirectly, UPLOAD_TTL_MS } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, startStandIn } from './test/stand-in-store.ts';

const START_MS_MAX = 300_000;
/** The first instant at which an object made at NOW is old. */
const OLD_AT = NOW + DAY_MS + UPLOAD_TTL_MS;
const BRISK: Partial<S3Limits> = { listIntervalMs: 0, walkIntervalMs: 0, listKeysMax: 3, retryPauseMs: 1 };
const keys = new ObjectKeys('some/prefix/');
const spaceKey = spaceKeyOf(SPACE);

let store: ContentStore;
afterEach(() => store.close());

async function open(bucket: TestBucket, limits: Partial<S3Limits> = BRISK): Promise<ContentStore> {
  const config = configOf(bucket, { limits });
  store = await openStore({ ...config, address: { ...config.address, prefix: 'some/prefix/' } });
  return store;
}

const keyOf = (generation: Generation): string => keys.keyOf({ spaceKey, generation });
const madeAt = (at: number): Generation => at.toString(16).padStart(12, '0') + newGeneration().slice(12);
const none = (): ReadonlySet<Generation> => new Set();

describe('on Ceph RGW', () => {
  let buckets: TestBuckets;
  let bucket: TestBucket;
  beforeAll(async () => {
    buckets = await openCeph();
  }, START_MS_MAX);
  afterAll(() => buckets.close());
  beforeEach(async () => {
    bucket = await buckets.createBucket();
  });

  const put = (key: string) => overwrite(bucket, key, new Uint8Array([1]));

  test('only old objects without a record are deleted, and no key of another kind', async () => {
    await open(bucket);
    const strays = Array.from({ length: 7 }, newGeneration);
    const known = Array.from({ length: 4 }, newGeneration);
    const young = [madeAt(NOW + 1), madeAt(NOW + DAY_MS)];
    const foreign = [
      `some/prefix/nodes/${'0'.repeat(32)}`,
      `some/prefix/nodes/zz/${spaceKey}/${newGeneration()}`,
      keyOf(newGeneration()).replace(/nodes\/../, 'nodes/0g'),
      keyOf(newGeneration()).replace(/nodes\/(.)/, (_, digit) => `nodes/${digit === '0' ? '1' : '0'}`),
      `${keyOf(newGeneration())}/more`,
      `other/${keyOf(newGeneration())}`,
      'some/prefix/nodes/ä + %2F & <>"\'',
      `some/prefix/probe/x`,
    ];
    const oldProbe = keys.probeOf(newGeneration());
    const kept = [...known, ...young].map(keyOf).concat(foreign, keys.probeOf(madeAt(NOW + 1)));
    for (const key of [...strays.map(keyOf), ...kept, oldProbe]) await put(key);
    const asked: ObjectKey[] = [];
    for (let step = 0; step < 12; step += 1) {
      await store.sweep((listed) => {
        asked.push(...listed);
        expect(listed.length).toBeLessThanOrEqual(3);
        return new Set(known);
      }, OLD_AT);
    }
    const left = (await listKeys(bucket)).map((key) => key.replace('&amp; &lt;&gt;&quot;&apos;', '& <>"\''));
    expect(left.sort()).toEqual([...kept, keys.marker].sort());
    const askedFor = new Set(asked.map(({ generation }) => generation));
    expect([...askedFor].sort()).toEqual([...strays, ...known].sort());
    for (const { spaceKey: each } of asked) expect(each).toBe(spaceKey);
  }, 300_000);

  test('an object becomes old to the millisecond', async () => {
    await open(bucket);
    const generation = newGeneration();
    await put(keyOf(generation));
    for (let step = 0; step < 3; step += 1) await store.sweep(none, OLD_AT - 1);
    expect(await listKeys(bucket)).toContain(keyOf(generation));
    for (let step = 0; step < 3; step += 1) await store.sweep(none, OLD_AT);
    expect(await listKeys(bucket)).toEqual([keys.marker]);
  });

  test('an object that an old URL brings back after its delete is swept', async () => {
    await open(bucket);
    const { node } = sampleNode(100, 1);
    const generation = newGeneration();
    await putDirectly(store, generation, node);
    expect((await store.delete(SPACE, [generation])).failure).toBeUndefined();
    await putDirectly(store, generation, node);
    expect(await listKeys(bucket)).toContain(keyOf(generation));
    for (let step = 0; step < 3; step += 1) await store.sweep(none, OLD_AT);
    expect(await listKeys(bucket)).toEqual([keys.marker]);
  });

  test('a walk that another process goes on with begins where it was left, and a finished one begins anew', async () => {
    const made = Array.from({ length: 9 }, newGeneration);
    for (const generation of made) await put(keyOf(generation));
    let place: string | undefined;
    const looked: Generation[] = [];
    const walk = {
      findKept: (listed: readonly ObjectKey[]) => {
        looked.push(...listed.map(({ generation }) => generation));
        return new Set(made);
      },
      readPlace: () => place,
      notePlace: async (noted: string | undefined) => {
        place = noted;
      },
    };
    const inOrder = made.toSorted((left, right) => (keyOf(left) < keyOf(right) ? -1 : 1));
    // The first step is that of the probes; each process takes one or two, and ends.
    for (const steps of [2, 1, 1]) {
      await open(bucket);
      for (let step = 0; step < steps; step += 1) await store.sweep(none, OLD_AT, walk);
      await store.close();
    }
    expect(looked).toEqual(inOrder);
    await open(bucket);
    while (place !== undefined) await store.sweep(none, OLD_AT, walk);
    await store.close();
    await open(bucket);
    for (let step = 0; step < 2; step += 1) await store.sweep(none, OLD_AT, walk);
    expect(looked.slice(9)).toEqual(inOrder.slice(0, 3));
  }, 300_000);

  test('walks of two processes do not disturb each other', async () => {
    const first = await open(bucket);
    const second = await open(bucket);
    const generations = Array.from({ length: 8 }, newGeneration);
    for (const generation of generations) await put(keyOf(generation));
    const known = new Set(generations.slice(0, 4));
    for (let step = 0; step < 6; step += 1) {
      await Promise.all([first.sweep(() => known, OLD_AT), second.sweep(() => known, OLD_AT)]);
    }
    expect((await listKeys(bucket)).sort()).toEqual([...[...known].map(keyOf), keys.marker].sort());
    await first.close();
  });
});

describe('on a store that fails', () => {
  let standIn: StandIn;
  beforeEach(async () => {
    standIn = await startStandIn();
  });
  afterEach(() => standIn.close());

  const listings = () => standIn.seen.filter(({ query }) => query.has('list-type'));

  test('pages and walks come no faster than their pace', async () => {
    await open(standIn.bucket, { listIntervalMs: 60_000 });
    for (let step = 0; step < 5; step += 1) await store.sweep(none, OLD_AT);
    expect(listings().length).toBe(1);
    await store.close();
    await open(standIn.bucket, { listIntervalMs: 0, walkIntervalMs: 60_000 });
    standIn.seen.length = 0;
    for (let step = 0; step < 5; step += 1) await store.sweep(none, OLD_AT);
    // Leftovers of probes, then nodes: one walk.
    expect(listings().map(({ query }) => query.get('prefix'))).toEqual([
      'some/prefix/probe/',
      'some/prefix/nodes/',
    ]);
  });

  test('a page whose strays could not be deleted is walked again', async () => {
    await open(standIn.bucket);
    const generation = newGeneration();
    await overwrite(standIn.bucket, keyOf(generation), new Uint8Array([1]));
    await store.sweep(none, OLD_AT);
    standIn.intruder = (seen, answer) => (seen.method === 'POST' ? errorAnswer(500, 'X') : answer());
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const failure = await store.sweep(none, OLD_AT).catch((error) => error);
      expect(failure).toBeInstanceOf(StoreUnavailable);
    }
    standIn.intruder = undefined;
    await store.sweep(none, OLD_AT);
    expect([...standIn.objects.keys()]).toEqual([keys.marker]);
  });

  test('a stray that the store refuses to delete delays no other', async () => {
    await open(standIn.bucket);
    const generations = Array.from({ length: 7 }, newGeneration);
    for (const generation of generations) {
      await overwrite(standIn.bucket, keyOf(generation), new Uint8Array([1]));
    }
    const stuck = [...standIn.objects.keys()].sort().find((key) => key.includes('/nodes/')) as string;
    standIn.intruder = (seen, answer) => {
      if (seen.method !== 'POST') return answer();
      const keys = [...seen.body.toString().matchAll(/<Key>([^<]*)/g)].map(([, key]) => key as string);
      const entries = keys.map((key) => {
        if (key === stuck) return `<Error><Key>${key}</Key><Code>AccessDenied</Code></Error>`;
        standIn.objects.delete(key);
        return `<Deleted><Key>${key}</Key></Deleted>`;
      });
      return { status: 200, body: `<DeleteResult>${entries.join('')}</DeleteResult>` };
    };
    const failures: unknown[] = [];
    for (let step = 0; step < 4; step += 1) {
      await store.sweep(none, OLD_AT).catch((error: unknown) => failures.push(error));
    }
    expect(failures).toEqual([expect.any(StoreUnavailable), expect.any(StoreUnavailable)]);
    const walk = ['some/prefix/probe/', 'some/prefix/nodes/'];
    expect(listings().map(({ query }) => query.get('prefix'))).toEqual([...walk, ...walk]);
    expect([...standIn.objects.keys()].sort()).toEqual([keys.marker, stuck].sort());
  });

  test('in the bucket of another deployment, where every object looks like a stray, nothing is deleted', async () => {
    await open(standIn.bucket);
    const generation = newGeneration();
    await overwrite(standIn.bucket, keyOf(generation), new Uint8Array([1]));
    await overwrite(standIn.bucket, keys.marker, new TextEncoder().encode('another'));
    await store.sweep(none, OLD_AT);
    expect(await store.sweep(none, OLD_AT).catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    expect(standIn.objects.has(keyOf(generation))).toBe(true);
  });

  test('records that cannot be read delete nothing', async () => {
    await open(standIn.bucket);
    const generation = newGeneration();
    await overwrite(standIn.bucket, keyOf(generation), new Uint8Array([1]));
    await store.sweep(none, OLD_AT);
    const sweeping = store.sweep(() => Promise.reject(new StoreUnavailable('no rows')), OLD_AT);
    expect(await sweeping.catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    expect(standIn.objects.has(keyOf(generation))).toBe(true);
  });

  test('a listing token that the store has forgotten begins a new walk', async () => {
    await open(standIn.bucket);
    const more = '<NextContinuationToken>old</NextContinuationToken><IsTruncated>true</IsTruncated>';
    standIn.intruder = (seen, answer) => {
      if (!seen.query.has('list-type')) return answer();
      if (seen.query.has('continuation-token')) return errorAnswer(400, 'InvalidArgument');
      return { status: 200, body: `<ListBucketResult>${more}</ListBucketResult>` };
    };
    const noted: (string | undefined)[] = [];
    const keeper = {
      findKept: none,
      readPlace: () => noted.at(-1),
      notePlace: async (place: string | undefined) => void noted.push(place),
    };
    await store.sweep(none, OLD_AT, keeper);
    expect(noted.at(-1)).toContain('old');
    expect(await store.sweep(none, OLD_AT, keeper).catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    // A process that starts now starts the walk again too.
    expect(noted.at(-1)).toBeUndefined();
    standIn.intruder = undefined;
    await store.sweep(none, OLD_AT, keeper);
    expect(listings().at(-1)?.query.has('continuation-token')).toBe(false);
  });

  test('an answer that is no listing deletes nothing', async () => {
    await open(standIn.bucket);
    for (const body of ['', '<html></html>', '<ListBucketResult/>', 'x'.repeat(5 * 1024 * 1024)]) {
      standIn.intruder = (seen, answer) => (seen.query.has('list-type') ? { status: 200, body } : answer());
      expect(await store.sweep(none, OLD_AT).catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    }
  });
});
