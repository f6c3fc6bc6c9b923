import { expect, test } from 'bun:test';
import { hashAt, readyNode } from '../contract/samples.ts';
import { BatchRows, NodeCache, nodeKey } from './node-cache.ts';

const key = (index: number) => nodeKey(1, hashAt(index));
const place = {
  id: 7,
  generation: new Uint8Array(16),
  canonicalSize: 134,
  urlExpiresAt: 0,
  integrity: new Uint8Array(10),
};

test('the cache stays within its bytes and lets the oldest go', () => {
  const cache = new NodeCache(100_000);
  const refs = new Uint8Array(8192);
  for (let index = 0; index < 50; index++)
    cache.set(key(index), { node: readyNode(hashAt(index), { refs }), place });
  const kept = Array.from({ length: 50 }, (_, index) => cache.find(key(index)) !== undefined);
  expect(kept.slice(0, 30)).not.toContain(true);
  expect(kept.slice(-10)).not.toContain(false);
});

test('setting and deleting one key over and over leaves room for the others', () => {
  const cache = new NodeCache(10_000);
  cache.set(key(0), { node: readyNode(hashAt(0)), place: undefined });
  for (let round = 0; round < 100; round++) {
    cache.set(key(1), { node: readyNode(hashAt(1)), place });
    if (round % 2 === 0) cache.delete(key(1));
  }
  expect(cache.find(key(0))).toBeDefined();
});

test('a batch sees its own writes, others see them when it is published', () => {
  const cache = new NodeCache();
  const [old, changed] = [readyNode(hashAt(1)), readyNode(hashAt(1), { childRefCount: 1 })];
  cache.set(key(1), { node: old, place });
  cache.set(key(2), { node: readyNode(hashAt(2)), place: undefined });
  const rows = new BatchRows(cache);
  rows.write(key(1), changed);
  rows.write(key(2), null);
  expect([rows.find(key(1)), rows.find(key(2)), rows.find(key(3))]).toEqual([changed, null, undefined]);
  expect(cache.find(key(1))?.node).toBe(old);
  rows.publish();
  expect(cache.find(key(1))?.node).toBe(changed);
  expect(cache.find(key(2))).toBeUndefined();
});

test('where the content is stays known only while the row points at the same generation', () => {
  const cache = new NodeCache();
  const node = readyNode(hashAt(1));
  cache.set(key(1), { node, place });
  const renewal = new BatchRows(cache);
  renewal.write(key(1), { ...node, leaseExpiresAt: 5 });
  renewal.publish();
  expect(cache.find(key(1))?.place).toBe(place);
  const healing = new BatchRows(cache);
  healing.write(key(1), readyNode(hashAt(1)));
  healing.publish();
  expect(cache.find(key(1))?.place).toBeUndefined();
});

test('a write that was undone is asked of SQLite again, and nothing of it is published', () => {
  const cache = new NodeCache();
  const node = readyNode(hashAt(1));
  cache.set(key(1), { node, place });
  const rows = new BatchRows(cache);
  rows.write(key(1), { ...node, childRefCount: 9 });
  rows.undo(key(1));
  expect(rows.find(key(1))).toBeUndefined();
  rows.learn(key(1), { ...node, childRefCount: 3 });
  rows.publish();
  expect(cache.find(key(1))).toBeUndefined();
});
