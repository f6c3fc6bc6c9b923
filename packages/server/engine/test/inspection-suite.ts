/** The inspection of a whole Space, and the changes of a repair (core/inspection-ports.ts). */
import { expect, test } from 'bun:test';
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { CounterBroken } from '../../core/invariant.ts';
import type { UploadEvidence } from '../../core/model.ts';
import { hashAt, insertNodes, NOW, newGeneration, openUpload, readyNode, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const DOMAIN = 'photos';
const NOTHING: KeptCounters = {
  ...{ nodeCount: 0, readyContentBytes: 0, readyStoredBytes: 0 },
  ...{ waitingBytes: 0, notReadyNodeCount: 0, leasedCount: 0 },
};

export function testInspection(subject: StoreUnderTest): void {
  const look = () => ({
    ...{ signal: new AbortController().signal, onTable: () => undefined, isRepaired: false },
  });

  async function commit(domain: string, changes: readonly (readonly [number, number, number])[]) {
    await subject.store.transact(SPACE, async (tx) => {
      const revision = (await tx.findRevision(domain)) + 1;
      const record = { requestId: `r${revision}`, payloadDigest: new Uint8Array(32), revision };
      const given = changes.map(([index, before, after]) => ({ hash: hashAt(index), before, after }));
      await tx.insertRootRefCommit(domain, record, given);
    });
  }

  /** Rows of each kind. */
  async function fill(): Promise<void> {
    const leased = { leaseStartedAt: NOW, leaseExpiresAt: NOW + 1_000 };
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), leased), readyNode(hashAt(2))]);
    const generation = newGeneration();
    const integrity = new Uint8Array([1, 2]);
    const evidence: UploadEvidence = {
      verdict: 'good',
      ...{ size: 100, canonicalSize: 134, contentType: 'text/plain' },
      ...{ refs: new Uint8Array(0), integrity, inline: false },
    };
    await subject.store.transact(SPACE, async (tx) => {
      await tx.setLooseEdges(hashAt(7), 3);
      await tx.setLooseEdges(hashAt(8), 1);
      await tx.insert('upload', openUpload(hashAt(5)));
      await tx.insert('upload', openUpload(hashAt(6), { generation, evidence }));
      const content = { generation, canonicalSize: 134, integrity, inlineBytes: undefined, urlExpiresAt: 0 };
      await tx.insert('content', content);
    });
    await commit(DOMAIN, [[1, 0, 2]]);
    await subject.store.transact(SPACE, (tx) => tx.noteWalk(DOMAIN));
    await commit(DOMAIN, [
      [1, 2, 3],
      [2, 0, -1],
    ]);
    await commit('other', [[1, 0, 5]]);
  }

  test('a snapshot gives each kind of row, page by page', async () => {
    await fill();
    subject.store.rest?.();
    await subject.store.inspect(SPACE, async (snapshot) => {
      expect((await snapshot.findNode(hashAt(1)))?.leaseExpiresAt).toBe(NOW + 1_000);
      expect(await snapshot.findNode(hashAt(5))).toBeUndefined();
      const uploads = await snapshot.readUploads(undefined, 10);
      expect(uploads.map(({ hash, canonicalSize, inline }) => ({ hash, canonicalSize, inline }))).toEqual([
        { hash: hashAt(6), canonicalSize: 134, inline: false },
      ]);
      expect(await snapshot.readUploads(hashAt(6), 10)).toEqual([]);
      const loose = [
        { hash: hashAt(7), count: 3 },
        { hash: hashAt(8), count: 1 },
      ];
      expect(await snapshot.readLooseEdges(undefined, 10)).toEqual(loose);
      expect(await snapshot.readLooseEdges(hashAt(7), 10)).toEqual(loose.slice(1));
      expect(await snapshot.readLooseEdges(undefined, 1)).toEqual(loose.slice(0, 1));
      const domains = await snapshot.readDomains();
      expect(domains.toSorted((left, right) => (left.domain < right.domain ? -1 : 1))).toEqual([
        { domain: 'other', revision: 1, historyFloor: 0, commits: 1, lastRevision: 1 },
        { domain: DOMAIN, revision: 2, historyFloor: 0, commits: 2, lastRevision: 2 },
      ]);
      const balances = [
        { hash: hashAt(1), balance: 3, fromRevision: 2, historyEnd: 2 },
        { hash: hashAt(2), balance: -1, fromRevision: 2, historyEnd: 0 },
      ];
      expect(await snapshot.readBalances(DOMAIN, undefined, 10)).toEqual(balances);
      expect(await snapshot.readBalances(DOMAIN, hashAt(1), 10)).toEqual(balances.slice(1));
      expect(await snapshot.readBalances('none', undefined, 10)).toEqual([]);
      const held = await snapshot.findBalancesOf(hashAt(1));
      expect(held.toSorted((left, right) => left.balance - right.balance)).toEqual([
        { domain: DOMAIN, balance: 3 },
        { domain: 'other', balance: 5 },
      ]);
      const around = await snapshot.readNodesAround(undefined, 10);
      expect(around.nodes.map(({ row }) => row.hash)).toEqual([hashAt(1), hashAt(2)]);
      expect([around.unreadable, around.next]).toEqual([[], undefined]);
    });
  });

  test('whole rows and pages are not called damaged', async () => {
    await fill();
    expect((await subject.store.findRowDamage?.(look())) ?? []).toEqual([]);
    expect((await subject.store.findPageDamage?.(look())) ?? []).toEqual([]);
  });

  test('counters are corrected by so much, in one Space, or not at all', async () => {
    await fill();
    const other = { appId: 'other', spaceId: 'other' };
    const kept = () => subject.store.inspect(SPACE, async (snapshot) => await snapshot.readKeptCounters());
    const before = await kept();
    expect(before).toMatchObject({ nodeCount: 2, readyContentBytes: 200, leasedCount: 1 });
    const by = { ...NOTHING, nodeCount: 3, readyContentBytes: -50, waitingBytes: 7, leasedCount: 2 };
    await subject.store.transact(SPACE, (tx) => tx.correctCounters(by));
    const after = { ...before, nodeCount: 5, readyContentBytes: 150, waitingBytes: 7, leasedCount: 3 };
    expect(await kept()).toEqual(after);
    const failing = subject.store.transact(SPACE, async (tx) => {
      await tx.correctCounters(by);
      throw new Error('stop');
    });
    expect((await failing.catch((error) => error)).message).toBe('stop');
    expect(await kept()).toEqual(after);
    await subject.store.transact(other, (tx) => tx.correctCounters({ ...NOTHING, nodeCount: 1 }));
    const none = { appId: 'other', spaceId: 'none' };
    for (const [space, below] of [
      [SPACE, { nodeCount: -6 }],
      [other, { leasedCount: -1 }],
      [none, { waitingBytes: -1 }],
    ] as const) {
      const correcting = subject.store.transact(space, (tx) => tx.correctCounters({ ...NOTHING, ...below }));
      expect(await Promise.resolve(correcting).catch((error) => error)).toBeInstanceOf(CounterBroken);
    }
    expect(await kept()).toEqual(after);
    const store = await subject.reopen();
    expect((await store.readCounters(SPACE)).nodeCount).toBe(5);
    expect((await store.readCounters(other)).nodeCount).toBe(1);
    await store.transact(SPACE, (tx) =>
      tx.correctCounters({
        ...NOTHING,
        nodeCount: -3,
        readyContentBytes: 50,
        waitingBytes: -7,
        leasedCount: -2,
      }),
    );
    expect(await kept()).toEqual(before);
  });
}
