/** What clients write to a store that takes uploads itself counts for quotas before any lease judges it (docs/operations.md, Quotas). */
import { expect, test } from 'bun:test';
import { makePack, plain } from '../../../../test/support/planted-pack.ts';
import type { Core } from '../core.ts';
import { NO_QUOTAS } from '../quotas.ts';
import { type CoreWorld, MINUTE_MS, objectNode, SPACE } from '../test/core-fixture.ts';
import { type PackClient, usePackWorld } from '../test/pack-fixture.ts';
import { UnseenUploads } from './unseen-uploads.ts';

const URL_LIFE_MS = 5 * MINUTE_MS;
const NODE_BYTES = objectNode(1).bytes.length;

let world: CoreWorld;
let client: PackClient;
usePackWorld(true, (opened, itsClient) => {
  world = opened;
  client = itsClient;
});

const look = () => new UnseenUploads(world.core).look();
const pending = async (): Promise<number> => (await world.core.metadata.readHoldings(SPACE)).pendingBytes;
const limit = (maxBytes: number): void => {
  world.quotas.space = { maxBytes, maxNodes: undefined };
};
const put = async (seed: number): Promise<string> => {
  const { upload } = await world.begin(objectNode(seed));
  expect(world.direct.put(upload.url, objectNode(seed).bytes)).toBe(200);
  return upload.url;
};

test('bytes that no lease followed are pending once they were looked at, and a lease judges them as before', async () => {
  await put(1);
  await world.begin(objectNode(2));
  const pack = await client.open([objectNode(3)]);
  const packBytes = makePack([plain(objectNode(3))]);
  expect(await client.put(pack, packBytes)).toBe(200);
  expect(await pending()).toBe(0);
  await look();
  await look();
  expect(await pending()).toBe(NODE_BYTES + packBytes.length);
  expect((await world.lease(objectNode(1))).state).toBe('ready');
  expect((await client.lease(pack.id)).results).toMatchObject([{ state: 'ready' }]);
  expect([await pending(), (await world.lease(objectNode(2))).state]).toEqual([0, 'awaiting_upload']);
});

test('what a quota refuses is deleted at once, what it has room for stays, and the next lease gives a new upload', async () => {
  limit(2 * NODE_BYTES);
  const urls = [await put(1), await put(2), await put(3)];
  await look();
  expect([await pending(), world.direct.generations.length]).toEqual([2 * NODE_BYTES, 2]);
  const pack = await client.open([objectNode(4)]);
  await client.put(pack, makePack([plain(objectNode(4))]));
  await look();
  expect([await pending(), world.direct.generations.length]).toEqual([2 * NODE_BYTES, 2]);
  expect(await client.pack(pack.id)).toBe(undefined);
  const anew = [1, 2, 3].map((seed) => world.lease(objectNode(seed)));
  const states = (await Promise.all(anew)).map(({ state }) => state);
  expect(states.sort()).toEqual(['awaiting_upload', 'ready', 'ready']);
  const [first] = (await Promise.all(anew)).filter((answer) => 'upload' in answer);
  expect(urls).not.toContain(first?.upload.url ?? urls[0]);
});

test('a lease that nobody expected leaves what is pending its room', async () => {
  limit(2 * NODE_BYTES);
  for (const seed of [1, 2]) await put(seed);
  await look();
  await put(3);
  await expect(world.lease(objectNode(3))).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  expect([await pending(), world.direct.generations.length]).toEqual([2 * NODE_BYTES, 2]);
  for (const seed of [1, 2]) expect((await world.lease(objectNode(seed))).state).toBe('ready');
  expect((await world.lease(objectNode(3))).state).toBe('awaiting_upload');
});

test('what a URL writes again after a refusal goes again, until the URL has ended', async () => {
  limit(1);
  const url = await put(1);
  await look();
  expect(world.direct.generations).toEqual([]);
  for (let minute = 1; minute * MINUTE_MS < URL_LIFE_MS; minute += 1) {
    expect(world.direct.put(url, objectNode(1).bytes)).toBe(200);
    world.now += MINUTE_MS;
    await world.sweepAll();
    expect(world.direct.generations).toEqual([]);
  }
});

test('a PUT that lands after its URL has ended is looked at too', async () => {
  const { upload } = await world.begin(objectNode(1));
  const land = world.direct.beginPut(upload.url);
  world.now += URL_LIFE_MS;
  expect(land(objectNode(1).bytes)).toBe(200);
  limit(1);
  await look();
  expect(world.direct.generations).toEqual([]);
});

test('one that cannot be looked at, or not be noted, holds up no other, and keeps no room', async () => {
  for (const seed of [1, 2, 3]) await put(seed);
  const { metadata, content } = world.core;
  if (content.upload.kind !== 'direct') throw new Error('this store takes uploads itself');
  const { upload } = content;
  let looks = 0;
  let notes = 0;
  let held = 0;
  const core: Core = {
    ...world.core,
    content: {
      ...content,
      upload: {
        ...upload,
        findBytes: async (...given) => {
          looks += 1;
          if (looks === 1) throw new Error('planted: no look');
          return upload.findBytes(...given);
        },
      },
    },
    metadata: {
      readClock: () => metadata.readClock(),
      page: (...given) => metadata.page(...given),
      transact: (space, name, input) => {
        notes += 1;
        if (notes === 1) throw new Error('planted: no note');
        return metadata.transact(space, name, input);
      },
    } as Partial<Core['metadata']> as Core['metadata'],
    quotas: {
      ...NO_QUOTAS,
      find: () => ({ space: undefined, isAppLimited: true }),
      reserveReceipt: async (_, bytes) => {
        held += 1;
        return {
          more: { bytes, nodes: 0 },
          settle: () => {
            held -= 1;
          },
        };
      },
    },
  };
  await expect(new UnseenUploads(core).look()).rejects.toThrow('planted: no look');
  expect([looks, notes, held, await pending()]).toEqual([3, 2, 0, NODE_BYTES]);
});
