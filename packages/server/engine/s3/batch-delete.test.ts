/** Deletes by the batch, and what a store can do to them. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { ContentStore } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { newGeneration, SPACE, sampleNode } from '../test/samples.ts';
import { configOf, openStore, putDirectly } from './test/s3-fixture.ts';
import { errorAnswer, type StandIn, startStandIn } from './test/stand-in-store.ts';

const QUICK = { retryPauseMs: 1 };
/** For the test that waits for it. */
const STALL_MS_MAX = 400;

let standIn: StandIn;
let store: ContentStore;

beforeEach(async () => {
  standIn = await startStandIn();
  store = await openStore(configOf(standIn.bucket, { limits: QUICK }));
});
afterEach(async () => {
  await store.close();
  await standIn.close();
});

async function putSmall() {
  const generation = newGeneration();
  await putDirectly(store, generation, sampleNode(1000, 1).node);
  const key = [...standIn.objects.keys()].find((each) => each.endsWith(generation)) as string;
  return { generation, key };
}

describe('deletes', () => {
  test('are sent in batches of a thousand, and failed keys are named', async () => {
    const generations = Array.from({ length: 2500 }, newGeneration);
    const batches: number[] = [];
    standIn.intruder = (seen, answer) => {
      if (seen.method !== 'POST') return answer();
      const keys = [...seen.body.toString().matchAll(/<Key>([^<]*)/g)].map(([, key]) => key as string);
      batches.push(keys.length);
      if (batches.length !== 2) return answer();
      const entries = keys.map((key, index) =>
        index === 3
          ? `<Error><Key>${key}</Key><Code>AccessDenied</Code></Error>`
          : index === 4
            ? `<Error><Key>${key}</Key><Code>NoSuchKey</Code></Error>`
            : `<Deleted><Key>${key}</Key></Deleted>`,
      );
      return { status: 200, body: `<DeleteResult>${entries.slice(0, -1).join('')}</DeleteResult>` };
    };
    const { deleted, failure } = await store.delete(SPACE, generations);
    expect(batches).toEqual([1000, 1000, 500]);
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect(String(failure)).toContain(' (AccessDenied); it will be tried again');
    // Neither the one that failed, nor the one that was passed over in silence.
    expect(deleted.size).toBe(2498);
    expect([deleted.has(generations[1003]!), deleted.has(generations[1004]!)]).toEqual([false, true]);
    expect(deleted.has(generations[1999]!)).toBe(false);
  });

  test('end at the first request that fails: the store is not asked for the rest', async () => {
    let posts = 0;
    standIn.intruder = (seen, answer) => {
      if (seen.method !== 'POST') return answer();
      posts += 1;
      return posts === 1 ? answer() : errorAnswer(503, 'SlowDown');
    };
    const generations = Array.from({ length: 3000 }, newGeneration);
    const { deleted, failure } = await store.delete(SPACE, generations);
    expect([deleted.size, failure instanceof StoreUnavailable]).toEqual([1000, true]);
    const asked = standIn.seen.filter(
      ({ method, body }) => method === 'POST' && body.includes(generations[2000]!),
    );
    expect(asked).toEqual([]);
  });

  test('are repeated if an answer is lost or garbled, then unavailable, and never reject', async () => {
    const { generation, key } = await putSmall();
    await store.close();
    store = await openStore(configOf(standIn.bucket, { limits: { ...QUICK, stallMsMax: STALL_MS_MAX } }));
    let posts = 0;
    standIn.intruder = (seen, answer) => {
      if (seen.method !== 'POST') return answer();
      posts += 1;
      const good = answer();
      if (posts === 1) return { ...good, breakOff: { afterBytes: 5, how: 'hang' } };
      return posts === 2 ? { status: 200, body: '<Delete' } : good;
    };
    expect(await store.delete(SPACE, [generation])).toEqual({
      deleted: new Set([generation]),
      failure: undefined,
    });
    expect([posts, standIn.objects.has(key)]).toEqual([3, false]);
    standIn.intruder = (seen, answer) => (seen.method === 'POST' ? errorAnswer(503, 'SlowDown') : answer());
    const { deleted, failure } = await store.delete(SPACE, [generation]);
    expect([deleted.size, failure instanceof StoreUnavailable]).toEqual([0, true]);
  });

  test('carry the digest that S3 asks for', async () => {
    await store.delete(SPACE, [newGeneration()]);
    const post = standIn.seen.findLast(({ method }) => method === 'POST');
    const digest = new Bun.CryptoHasher('md5').update(post?.body ?? '').digest('base64');
    expect(post?.headers['content-md5']).toBe(digest);
  });
});
