import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import { DAY_MS } from '@holdfast/protocol';
import { openTemporaryEngine, type TemporaryEngine } from '../deployment/test/embedded-engine-fixture.ts';
import { judgedPack, packedContent, placeIn } from '../engine/test/pack-samples.ts';
import { NOW, newGeneration, SPACE } from '../engine/test/samples.ts';
import { createPackGeneration, recordGeneration } from './generation.ts';
import type { Generation } from './model.ts';
import { spaceKeyOf } from './space-map.ts';
import { isBehind, moveEpoch, readEpochs } from './store-epoch.ts';
import { acceptStrays, StraysSuspicious, StrayWatch, TOMBSTONE_MS } from './stray-watch.ts';

let engine: TemporaryEngine;
beforeEach(async () => {
  engine = await openTemporaryEngine();
});
afterEach(() => engine.destroy());

const keysOf = (generations: readonly Generation[]) =>
  generations.map((generation) => ({ spaceKey: spaceKeyOf(SPACE), generation }));
const record = (generation: Generation) =>
  engine.metadata.transact(SPACE, (tx) => tx.insert('discard', { generation, dueAt: NOW, urlExpiresAt: 0 }));

test('a stray goes only after a week in which no record appeared', async () => {
  expect(TOMBSTONE_MS).toBe(7 * DAY_MS);
  const stray = newGeneration();
  const known = newGeneration();
  await record(known);
  const keys = keysOf([stray, known]);
  const look = (now: number) => new StrayWatch().findKept(engine.metadata, keys, now);
  expect(await look(NOW)).toEqual(new Set([stray, known]));
  expect(await look(NOW + TOMBSTONE_MS - 1)).toEqual(new Set([stray, known]));
  expect(await look(NOW + TOMBSTONE_MS)).toEqual(new Set([known]));
  // A record that appears ends the tombstone: when it goes again, another week begins.
  await record(stray);
  expect(await look(NOW + TOMBSTONE_MS)).toEqual(new Set([stray, known]));
  await engine.metadata.transact(SPACE, (tx) => tx.delete('discard', stray));
  expect(await look(NOW + TOMBSTONE_MS + 1)).toEqual(new Set([stray, known]));
  expect(await look(NOW + 2 * TOMBSTONE_MS)).toEqual(new Set([stray, known]));
  expect(await look(NOW + 2 * TOMBSTONE_MS + 1)).toEqual(new Set([known]));
});

test('no object goes because one bit in the key of its record is wrong', async () => {
  const [object, pack, stray] = [newGeneration(), judgedPack(), newGeneration()];
  const packedAs = packedContent(placeIn(pack.generation, 8));
  await engine.metadata.transact(SPACE, async (tx) => {
    const bytes = { canonicalSize: 1, integrity: new Uint8Array(1), inlineBytes: undefined, urlExpiresAt: 0 };
    await tx.insert('content', { generation: object, ...bytes });
    await tx.insert('pack', pack);
    await tx.insert('content', packedAs);
  });
  const flip = (generation: Generation): Generation =>
    `${generation.slice(0, -1)}${(Number.parseInt(generation.slice(-1), 16) ^ 4).toString(16)}`;
  using database = new Database(engine.databasePath);
  for (const [table, { generation }] of [
    ['contents', { generation: object }] as const,
    ['packs', pack] as const,
  ]) {
    const { changes } = database
      .prepare(`UPDATE ${table} SET generation = ?1 WHERE generation = ?2`)
      .run(Buffer.from(flip(generation), 'hex'), Buffer.from(generation, 'hex'));
    expect(changes).toBe(1);
  }
  const keys = keysOf([object, pack.generation, stray]);
  const look = (now: number) => new StrayWatch().findKept(engine.metadata, keys, now);
  expect((await look(NOW)).size).toBe(3);
  expect(await look(NOW + TOMBSTONE_MS)).toEqual(new Set([object, pack.generation]));
});

test('a pack without a record goes, though its records are in another pack now: one question for a page', async () => {
  const digits = () => newGeneration().slice(12);
  const strays = [createPackGeneration(NOW, digits()), createPackGeneration(NOW, digits()), newGeneration()];
  const pack = judgedPack();
  await engine.metadata.transact(SPACE, async (tx) => {
    await tx.insert('pack', pack);
    const content = packedContent(placeIn(pack.generation, 8));
    await tx.insert('content', { ...content, generation: recordGeneration(strays[0] as Generation, 0) });
  });
  const asked = spyOn(engine.metadata, 'page');
  const look = (now: number) => new StrayWatch().findKept(engine.metadata, keysOf(strays), now);
  expect((await look(NOW)).size).toBe(3);
  expect((await look(NOW + TOMBSTONE_MS)).size).toBe(0);
  expect(asked.mock.calls.filter(([kind]) => kind === 'knownGenerations')).toHaveLength(3);
});

test('a walk that meets more than one in a hundred stops until an operator accepts it', async () => {
  const watch = new StrayWatch();
  const known = Array.from({ length: 1_900 }, newGeneration);
  for (let at = 0; at < known.length; at += 1) await record(known[at] as Generation);
  expect((await watch.findKept(engine.metadata, keysOf(known), NOW)).size).toBe(1_900);
  const strays = Array.from({ length: 20 }, newGeneration);
  const look = (generations: readonly Generation[], now = NOW) =>
    watch.findKept(engine.metadata, keysOf(generations), now);
  expect((await look(strays.slice(0, 19))).size).toBe(19);
  await expect(look(strays.slice(19))).rejects.toBeInstanceOf(StraysSuspicious);
  expect(watch.stopped).toContain('accept-restore');
  // The walk noted nothing of the stopped step, and a second step changes nothing.
  await expect(look(strays.slice(19))).rejects.toBeInstanceOf(StraysSuspicious);
  expect((await engine.metadata.page('tombstones', strays)).size).toBe(19);
  await acceptStrays(engine.metadata, NOW);
  expect((await look(strays.slice(19))).size).toBe(1);
  expect(watch.stopped).toBeUndefined();
  expect((await engine.metadata.page('tombstones', strays)).size).toBe(20);
});

test('many strays are judged a few at a time, so that requests go on meanwhile', async () => {
  const keys = keysOf(Array.from({ length: 16 }, newGeneration));
  await new StrayWatch().findKept(engine.metadata, keys, NOW);
  const asked = spyOn(engine.metadata, 'page');
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  expect((await new StrayWatch().findKept(engine.metadata, keys, NOW + TOMBSTONE_MS)).size).toBe(0);
  clearImmediate(next);
  const counts = asked.mock.calls.map(([, given]) => (Array.isArray(given) ? given.length : 0));
  expect(Math.max(...counts)).toBeWithin(1, 2_000);
  expect(turns).toBeGreaterThan(2);
});

test('a walk that stopped stays so, however often its step is tried again', async () => {
  const watch = new StrayWatch();
  const known = Array.from({ length: 100 }, newGeneration);
  for (const generation of known) await record(generation);
  const keys = keysOf([...known, ...Array.from({ length: 17 }, newGeneration)]);
  for (let tries = 0; tries < 20; tries += 1) {
    await expect(watch.findKept(engine.metadata, keys, NOW)).rejects.toBeInstanceOf(StraysSuspicious);
  }
  expect(watch.stopped).toContain('17 of the first 117 objects');
});

test('what an operator accepted holds for three days, and each walk is judged by itself', async () => {
  const watch = new StrayWatch();
  const look = (count: number, now: number) =>
    watch.findKept(engine.metadata, keysOf(Array.from({ length: count }, newGeneration)), now);
  await acceptStrays(engine.metadata, NOW);
  expect((await look(50, NOW + 3 * DAY_MS - 1)).size).toBe(50);
  await expect(look(1, NOW + 3 * DAY_MS)).rejects.toBeInstanceOf(StraysSuspicious);
  watch.begin();
  expect((await look(16, NOW + 3 * DAY_MS)).size).toBe(16);
  await expect(look(1, NOW + 3 * DAY_MS)).rejects.toBeInstanceOf(StraysSuspicious);
});

test('the tombstone of an object that no walk finds any more is forgotten after 30 days', async () => {
  const [first = '', second = ''] = [newGeneration(), newGeneration()];
  const look = (generation: Generation, now: number) =>
    new StrayWatch().findKept(engine.metadata, keysOf([generation]), now);
  const isNoted = async () => (await engine.metadata.page('tombstones', [first])).has(first);
  await look(first, NOW);
  await look(second, NOW + 30 * DAY_MS);
  expect(await isNoted()).toBe(true);
  await look(second, NOW + 30 * DAY_MS + 1);
  expect(await isNoted()).toBe(false);
});

test('the rows have a new epoch before their bucket, and are read after it', async () => {
  const order: string[] = [];
  let rows = '4';
  let bucket = 4;
  const move = async (): Promise<void> => {
    rows = '5';
    bucket = 5;
  };
  let whileReading: () => Promise<void> = async () => undefined;
  const stores = {
    metadata: {
      page: (async () => rows) as never,
      settle: (async (_kind: string, { value }: { readonly value: number }) => {
        rows = String(value);
        order.push('rows');
      }) as never,
    },
    content: {
      epoch: {
        read: async () => {
          const read = bucket;
          await whileReading();
          return read;
        },
        write: async (epoch: number) => {
          bucket = epoch;
          order.push('bucket');
        },
      },
    },
  };
  // Another server moves both on between the two reads.
  whileReading = move;
  const epochs = await readEpochs(stores);
  expect(epochs).toEqual({ rows: 5, store: 4 });
  expect(isBehind(epochs)).toBe(false);
  await moveEpoch(stores, { rows: 5, store: 5 });
  expect([order, rows, bucket]).toEqual([['rows', 'bucket'], '6', 6]);
});

test('rows that are older than their bucket are found out', async () => {
  let bucket: number | undefined;
  const content = {
    epoch: {
      read: async () => bucket,
      write: async (epoch: number) => {
        bucket = epoch;
      },
    },
  };
  const stores = { metadata: engine.metadata, content };
  const read = async () => (await readEpochs(stores)) ?? { rows: -1, store: -1 };
  expect(isBehind(await read())).toBe(false);
  await moveEpoch(stores, await read());
  const before = await engine.metadata.page('note', 'store-epoch');
  await moveEpoch(stores, await read());
  expect(isBehind(await read())).toBe(false);
  await engine.metadata.settle('note', { name: 'store-epoch', value: before as string });
  expect(isBehind(await read())).toBe(true);
  await moveEpoch(stores, await read());
  expect(isBehind(await read())).toBe(false);
  expect(bucket).toBe(3);
});
