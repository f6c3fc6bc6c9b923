import { expect, test } from 'bun:test';
import { hashAt, NOW, readyNode } from '../test/samples.ts';
import { BatchRows, NodeCache, nodeKey } from './node-cache.ts';

const key = (index: number) => nodeKey(1, hashAt(index));
const place = {
  id: 7,
  generation: new Uint8Array(16),
  canonicalSize: 134,
  urlExpiresAt: 0,
  integrity: new Uint8Array(10),
  moves: 0,
};

test('the cache stays within its bytes and lets the oldest go', () => {
  const cache = new NodeCache(100_000);
  const refs = new Uint8Array(8192);
  for (let index = 0; index < 50; index++)
    cache.set(key(index), { node: readyNode(hashAt(index), { refs }), place, readAt: 0 });
  const kept = Array.from({ length: 50 }, (_, index) => cache.find(key(index)) !== undefined);
  expect(kept.slice(0, 30)).not.toContain(true);
  expect(kept.slice(-10)).not.toContain(false);
});

test('setting and deleting one key over and over leaves room for the others', () => {
  const cache = new NodeCache(10_000);
  cache.set(key(0), { node: readyNode(hashAt(0)), place: undefined, readAt: 0 });
  for (let round = 0; round < 100; round++) {
    cache.set(key(1), { node: readyNode(hashAt(1)), place, readAt: 0 });
    if (round % 2 === 0) cache.delete(key(1));
  }
  expect(cache.find(key(0))).toBeDefined();
});

test('a batch sees its own writes, others see them when it is published', () => {
  const cache = new NodeCache();
  const [old, changed] = [readyNode(hashAt(1)), readyNode(hashAt(1), { childRefCount: 1 })];
  cache.set(key(1), { node: old, place, readAt: 0 });
  cache.set(key(2), { node: readyNode(hashAt(2)), place: undefined, readAt: 0 });
  const rows = new BatchRows(cache);
  rows.write(key(1), changed);
  rows.write(key(2), null);
  expect([rows.find(key(1)), rows.find(key(2)), rows.find(key(3))]).toEqual([changed, null, undefined]);
  expect(cache.find(key(1))?.node).toBe(old);
  rows.publish();
  expect(cache.find(key(1))?.node).toBe(changed);
  expect(cache.find(key(2))).toBeUndefined();
});

const lease = (index: number, leaseExpiresAt: number) => [key(index), NOW, leaseExpiresAt] as const;

test('a commit of leases changes them in the cached rows, which keep their place of content', () => {
  const cache = new NodeCache();
  const node = readyNode(hashAt(1));
  cache.set(key(1), { node, place, readAt: 6 });
  cache.apply({ commit: 7, leases: [lease(1, 5), lease(2, 5)], others: [], hasMoved: false });
  expect(cache.find(key(1))?.node).toEqual({ ...node, leaseStartedAt: NOW, leaseExpiresAt: 5 });
  expect(cache.find(key(1))?.place).toBe(place);
  expect(cache.find(key(2))).toBeUndefined();
  cache.apply({ commit: 8, leases: [], others: [key(1)], hasMoved: false });
  expect(cache.find(key(1))).toBeUndefined();
});

test('a row that was read during commits is not replaced by an older state of them', () => {
  const cache = new NodeCache();
  cache.set(key(1), { node: readyNode(hashAt(1), { leaseExpiresAt: 9 }), place, readAt: 8 });
  cache.apply({ commit: 7, leases: [lease(1, 5)], others: [], hasMoved: false });
  expect(cache.find(key(1))).toBeUndefined();
});

test('a commit that moved records says so, and what was read before is told from what is read after', () => {
  const cache = new NodeCache();
  const rows = new BatchRows(new NodeCache());
  expect(rows.publish().hasMoved).toBe(false);
  rows.noteMoved();
  cache.apply({ commit: 1, ...rows.publish() });
  expect(cache.moves).toBe(1);
  cache.apply({ commit: 2, leases: [], others: [], hasMoved: false });
  expect(cache.moves).toBe(1);
});

test('a batch tells which rows it changed, and in which of them only the lease', () => {
  const cache = new NodeCache();
  const nodes = [0, 1, 2, 3, 4, 5].map((index) => readyNode(hashAt(index)));
  for (const [index, node] of nodes.entries()) cache.set(key(index), { node, place: undefined, readAt: 0 });
  const [renewed, counted, gone, undone, both] = nodes.map((node) => ({ ...node, leaseExpiresAt: 5 }));
  if (renewed === undefined || counted === undefined || both === undefined) throw new Error('no rows');
  const rows = new BatchRows(cache);
  rows.write(key(0), renewed);
  rows.write(key(1), { ...counted, childRefCount: 1 });
  rows.write(key(2), null);
  rows.write(key(3), undone ?? null);
  rows.undo(key(3));
  rows.write(key(4), { ...both, childRefCount: 1 });
  rows.write(key(4), both);
  rows.write(key(99), renewed);
  expect(gone).toBeDefined();
  expect(rows.publish()).toEqual({
    leases: [
      [key(0), renewed.leaseStartedAt, 5],
      [key(4), both.leaseStartedAt, 5],
    ],
    others: [key(1), key(2), key(3), key(99)],
    hasMoved: false,
  });
});

test('a row whose write was undone is read from SQLite again, and nothing of the write is published', () => {
  const cache = new NodeCache();
  const node = readyNode(hashAt(1));
  cache.set(key(1), { node, place, readAt: 0 });
  const rows = new BatchRows(cache);
  rows.write(key(1), { ...node, childRefCount: 9 });
  rows.undo(key(1));
  expect(rows.find(key(1))).toBeUndefined();
  rows.learn(key(1), { ...node, childRefCount: 3 });
  rows.publish();
  expect(cache.find(key(1))).toBeUndefined();
});

test('a new row in the place of one that the same batch deleted is told to others', () => {
  const [writers, readers] = [new NodeCache(), new NodeCache()];
  const [old, anew] = [readyNode(hashAt(1), { state: 'claimed' }), readyNode(hashAt(1))];
  for (const cache of [writers, readers]) cache.set(key(1), { node: old, place: undefined, readAt: 0 });
  const rows = new BatchRows(writers);
  rows.write(key(1), null);
  rows.insert(key(1), anew);
  rows.insert(key(2), readyNode(hashAt(2)));
  const published = rows.publish();
  expect(published.others).toEqual([key(1)]);
  readers.apply({ commit: 1, ...published });
  expect(readers.find(key(1))).toBeUndefined();
});

test('a row that a batch deleted is told to others, although its next body was undone', () => {
  const cache = new NodeCache();
  cache.set(key(1), { node: readyNode(hashAt(1)), place: undefined, readAt: 0 });
  const rows = new BatchRows(cache);
  rows.write(key(1), null);
  rows.insert(key(1), readyNode(hashAt(1)));
  rows.undo(key(1));
  rows.learnAbsent(key(1));
  rows.write(key(1), readyNode(hashAt(1), { childRefCount: 1 }));
  expect(rows.publish().others).toEqual([key(1)]);
});
