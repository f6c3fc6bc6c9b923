/**
 * Renewing a ready row's lease: by the store's own verb where it has one, else as the rules do it in a transaction. Either way
 * the answer, the row and the counters are those of core/node-row.ts.
 */

import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { MINUTE_MS } from '@holdfast/protocol';
import fc from 'fast-check';
import type { NodeRow, NodeRowState, Space } from '../../core/model.ts';
import { type LeaseWindow, renewLease } from '../../core/node-row.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { hashAt, insertNodes, NOW, readyNode, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const NODES = 4;

export function testReadyLeases(subject: StoreUnderTest): void {
  test('a renewal by the store gives what renewReadyLease gives, for any row, duration and instant', async () => {
    let run = 0;
    const property = fc.asyncProperty(fc.array(row, { maxLength: NODES }), steps, async (given, renewals) => {
      run += 1;
      const space: Space = { appId: 'leases', spaceId: String(run) };
      let now = NOW;
      subject.clock.set(now);
      const rows = given.map(({ state, startedAt, length, edges }, index) =>
        readyNode(hashAt(index), {
          state,
          leaseStartedAt: length === 0 ? 0 : NOW - startedAt,
          leaseExpiresAt: length === 0 ? 0 : NOW - startedAt + length,
          childRefCount: edges,
        }),
      );
      await insertNodes(subject.store, space, rows);
      for (const { node, durationMs, ahead } of renewals) {
        now += ahead;
        subject.clock.set(now);
        const before = rows[node];
        const expected = before?.state === 'ready' ? renewLease(before, now, durationMs) : undefined;
        const renewed = await renew(subject.store, space, hashAt(node), durationMs);
        expect(renewed).toEqual(expected);
        if (before !== undefined) rows[node] = { ...before, ...expected };
        await expectRows(subject.store, space, rows, now);
      }
    });
    await fc.assert(property, { numRuns: 30 });
  });

  test('concurrent renewals of one row or several each get at least their own duration', async () => {
    const rows = Array.from({ length: NODES }, (_, index) =>
      readyNode(hashAt(index), { leaseStartedAt: 5, leaseExpiresAt: index % 2 === 0 ? 10 : NOW + 5 }),
    );
    await insertNodes(subject.store, SPACE, rows);
    const calls = Array.from({ length: 60 }, (_, index) => ({
      index: (index * 7) % NODES,
      durationMs: MINUTE_MS + ((index * 37) % 60) * 1000,
    }));
    const renewed = await Promise.all(
      calls.map(({ index, durationMs }) => renew(subject.store, SPACE, hashAt(index), durationMs)),
    );
    for (const [at, { index, durationMs }] of calls.entries()) {
      expect(renewed[at]?.leaseStartedAt).toBe(index % 2 === 0 ? NOW : 5);
      expect(renewed[at]?.leaseExpiresAt).toBeGreaterThanOrEqual(NOW + durationMs);
    }
    const longest = rows.map((_, index) =>
      Math.max(...calls.filter((call) => call.index === index).map(({ durationMs }) => durationMs)),
    );
    const expected = rows.map((before, index) => ({
      ...before,
      ...renewLease(before, NOW, longest[index] ?? 0),
    }));
    await expectRows(subject.store, SPACE, expected, NOW);
  });

  test('a renewal that meets a lease with a later start counts its duration from there', async () => {
    const lease = { leaseStartedAt: NOW + 40, leaseExpiresAt: NOW + 40 + MINUTE_MS };
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), lease)]);
    expect(await renew(subject.store, SPACE, hashAt(1), 2 * MINUTE_MS)).toEqual({
      leaseStartedAt: NOW + 40,
      leaseExpiresAt: NOW + 40 + 2 * MINUTE_MS,
    });
  });

  test('a missing row, or one of another Space, is not renewed', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    const other = { appId: SPACE.appId, spaceId: 'other' };
    expect(await renew(subject.store, other, hashAt(1), MINUTE_MS)).toBeUndefined();
    expect(await renew(subject.store, SPACE, hashAt(2), MINUTE_MS)).toBeUndefined();
    expect((await subject.store.findNode(SPACE, hashAt(1)))?.leaseExpiresAt).toBe(0);
    expect((await subject.store.readCounters(SPACE)).leasedNodeCount).toBe(0);
  });

  test('a candidate that is renewed is no candidate any more', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1)), readyNode(hashAt(2))]);
    await renew(subject.store, SPACE, hashAt(1), MINUTE_MS);
    const find = () => subject.store.transact(SPACE, (tx) => tx.due('candidates', undefined, 10));
    expect((await find()).map(({ hash }) => hash)).toEqual([hashAt(2)]);
    subject.clock.set(NOW + MINUTE_MS);
    expect((await find()).map(({ hash }) => hash)).toEqual([hashAt(2), hashAt(1)]);
  });

  test('candidates come in the order in which their leases ended, also where a renewal moved an end', async () => {
    const ends = { leaseStartedAt: NOW - MINUTE_MS };
    await insertNodes(subject.store, SPACE, [
      readyNode(hashAt(1), { ...ends, leaseExpiresAt: NOW + 10 }),
      readyNode(hashAt(2), { ...ends, leaseExpiresAt: NOW + 20 }),
      readyNode(hashAt(3), { ...ends, leaseExpiresAt: NOW + 30 }),
    ]);
    await renew(subject.store, SPACE, hashAt(1), MINUTE_MS);
    subject.clock.set(NOW + MINUTE_MS);
    const find = (limit: number) =>
      subject.store.transact(SPACE, (tx) => tx.due('candidates', undefined, limit));
    expect((await find(1)).map(({ hash }) => hash)).toEqual([hashAt(2)]);
    expect((await find(9)).map(({ hash }) => hash)).toEqual([hashAt(2), hashAt(3), hashAt(1)]);
  });
}

const row = fc.record({
  state: fc.constantFrom<NodeRowState>('ready', 'ready', 'ready', 'waiting', 'rotten', 'claimed'),
  /** ms before now; negative because a lease of another process may begin a little after `now` was read */
  startedAt: fc.integer({ min: -50, max: 100 }),
  length: fc.nat({ max: 200 }),
  edges: fc.nat({ max: 1 }),
});

const steps = fc.array(
  fc.record({
    node: fc.nat({ max: NODES - 1 }),
    durationMs: fc.integer({ min: 1, max: 150 }),
    ahead: fc.nat({ max: 90 }),
  }),
  { maxLength: 12 },
);

async function renew(
  store: MetadataStore,
  space: Space,
  hash: Hash,
  durationMs: number,
): Promise<LeaseWindow | undefined> {
  if (store.renewReadyLease !== undefined) return store.renewReadyLease(space, hash, durationMs);
  return store.transact(space, async (tx) => {
    const node = await tx.findNode(hash);
    if (node?.state !== 'ready') return undefined;
    const lease = renewLease(node, tx.now, durationMs);
    await tx.update('node', node, { ...node, ...lease });
    return lease;
  });
}

async function expectRows(
  store: MetadataStore,
  space: Space,
  rows: readonly NodeRow[],
  now: number,
): Promise<void> {
  for (const expected of rows) expect(await store.findNode(space, expected.hash)).toEqual(expected);
  const leased = rows.filter(({ leaseExpiresAt }) => leaseExpiresAt > now).length;
  expect(await store.readCounters(space)).toMatchObject({
    nodeCount: rows.length,
    leasedNodeCount: leased,
  });
}
