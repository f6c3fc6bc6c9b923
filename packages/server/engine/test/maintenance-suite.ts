/** The work that background tasks find: Spaces to sweep, nodes to scrub. */
import { expect, test } from 'bun:test';
import type { Space } from '../../core/model.ts';
import type { ScrubItem, ScrubPosition } from '../../core/upkeep-ports.ts';
import {
  discardOf,
  hashAt,
  insertNodes,
  NOW,
  newGeneration,
  openUpload,
  readyNode,
  SPACE,
} from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const CUTOFFS = { now: NOW, abandonedAt: NOW - 100, historyAt: 0 };

export function testMaintenance(subject: StoreUnderTest): void {
  const inSpace = (spaceId: string): Space => ({ appId: 'sweep', spaceId });
  const names = async (limit: number) =>
    (await subject.store.page('spacesToSweep', { cutoffs: CUTOFFS, limit })).spaces
      .map(({ spaceId }) => spaceId)
      .sort();

  test('a Space is to be swept when it has abandoned rows, claims or discards, and only then', async () => {
    expect(await names(10)).toEqual([]);
    await insertNodes(subject.store, inSpace('ready'), [readyNode(hashAt(1), { leaseExpiresAt: 1 })]);
    const waiting = (waitingTouchedAt: number) =>
      readyNode(hashAt(1), { state: 'waiting', waitingTouchedAt });
    await insertNodes(subject.store, inSpace('waiting-new'), [waiting(NOW - 99)]);
    await insertNodes(subject.store, inSpace('waiting-old'), [waiting(NOW - 100)]);
    await insertNodes(subject.store, inSpace('claimed'), [
      readyNode(hashAt(1), { state: 'claimed', claimHeldUntil: NOW }),
    ]);
    const upload = (spaceId: string, touchedAt: number, urlExpiresAt: number) =>
      subject.store.transact(inSpace(spaceId), (tx) =>
        tx.insert('upload', openUpload(hashAt(1), { touchedAt, urlExpiresAt })),
      );
    await upload('upload-old', NOW - 100, NOW - 100);
    await upload('upload-touched', NOW - 99, NOW - 100);
    await upload('upload-open', NOW - 100, NOW - 99);
    await subject.store.transact(inSpace('discard'), (tx) =>
      tx.insert('discard', discardOf(newGeneration(), { dueAt: NOW })),
    );
    await subject.store.transact(inSpace('discard-later'), (tx) =>
      tx.insert('discard', discardOf(newGeneration(), { dueAt: NOW + 1 })),
    );
    await insertNodes(subject.store, inSpace('claim-held'), [
      readyNode(hashAt(1), { state: 'claimed', claimHeldUntil: NOW + 1 }),
    ]);
    expect(await names(10)).toEqual(['claimed', 'discard', 'upload-old', 'waiting-old']);
  });

  test('over several calls every Space gets its turn', async () => {
    const expected = new Set<string>();
    for (let index = 0; index < 12; index++) {
      const spaceId = `space-${index}`;
      expected.add(spaceId);
      if (index % 2 === 0) {
        await subject.store.transact(inSpace(spaceId), (tx) =>
          tx.insert('discard', discardOf(newGeneration())),
        );
      } else {
        await insertNodes(subject.store, inSpace(spaceId), [readyNode(hashAt(1), { state: 'claimed' })]);
      }
    }
    const seen = new Set<string>();
    for (let call = 0; call < 20; call++) {
      const spaces = await names(3);
      expect(spaces.length).toBeLessThanOrEqual(3);
      for (const spaceId of spaces) seen.add(spaceId);
    }
    expect(seen).toEqual(expected);
  });

  test('Spaces with rotten rows are found in pages, each with how many it has', async () => {
    const look = async (limit: number): Promise<Record<string, number>> => {
      const found: Record<string, number> = {};
      for (let after: string | undefined, pages = 0; ; pages++) {
        expect(pages).toBeLessThan(10);
        const page = await subject.store.page('rottenSpaces', { after, limit });
        expect(page.length).toBeLessThanOrEqual(limit);
        for (const { space, nodes } of page) found[`${space.appId} ${space.spaceId}`] = nodes;
        after = page.at(-1)?.position;
        if (after === undefined) return found;
      }
    };
    expect(await look(10)).toEqual({});
    const rotten = (index: number) => readyNode(hashAt(index), { state: 'rotten' });
    const states = ['ready', 'waiting', 'claimed'] as const;
    await insertNodes(
      subject.store,
      inSpace('sound'),
      states.map((state, index) => readyNode(hashAt(index), { state })),
    );
    expect(await look(10)).toEqual({});
    for (const count of [1, 2, 3, 4, 5]) {
      const rows = Array.from({ length: count }, (_, index) => rotten(index));
      await insertNodes(subject.store, inSpace(`rotten-${count}`), [...rows, readyNode(hashAt(9))]);
    }
    const expected = Object.fromEntries([1, 2, 3, 4, 5].map((count) => [`sweep rotten-${count}`, count]));
    for (const limit of [1, 2, 5, 10]) expect(await look(limit)).toEqual(expected);
    const listed = await subject.store.page('rottenNodes', { space: inSpace('rotten-3'), limit: 10 });
    expect(listed.toSorted()).toEqual([0, 1, 2].map(hashAt));
    expect(await subject.store.page('rottenNodes', { space: inSpace('rotten-3'), limit: 2 })).toHaveLength(2);
    expect(await subject.store.page('rottenNodes', { space: inSpace('sound'), limit: 10 })).toEqual([]);
    expect(await subject.store.page('rottenNodes', { space: inSpace('nowhere'), limit: 10 })).toEqual([]);
    await subject.store.transact(inSpace('rotten-1'), async (tx) => {
      const row = await tx.findNode(hashAt(0));
      if (row !== undefined) await tx.update('node', row, { ...row, state: 'ready' });
    });
    expect(await look(10)).not.toHaveProperty('sweep rotten-1');
  });

  test('upkeep with nothing to do says that it is done', async () => {
    expect(await subject.store.maintain(CUTOFFS)).toEqual({ moreToDo: false, forgottenCommits: 0 });
  });

  test('the scrub walks over every node with its content, once, in bounded pages', async () => {
    const expected = new Map<string, Space>();
    for (const space of [SPACE, inSpace('a'), inSpace('b')]) {
      for (let index = 0; index < 7; index++) {
        const row = readyNode(hashAt(index), { state: index === 3 ? 'rotten' : 'ready' });
        await subject.store.transact(space, async (tx) => {
          await tx.insert('node', row);
          await tx.insert('content', {
            generation: row.generation,
            canonicalSize: row.canonicalSize,
            integrity: new Uint8Array([index]),
            inlineBytes: undefined,
            urlExpiresAt: 0,
          });
        });
        expected.set(row.generation, space);
      }
    }
    const items: ScrubItem[] = [];
    let after: ScrubPosition | undefined;
    for (let pages = 0; ; pages++) {
      expect(pages).toBeLessThan(50);
      const page = await subject.store.page('nodesToScrub', { after, limit: 4 });
      expect(page.items.length).toBeLessThanOrEqual(4);
      items.push(...page.items);
      if (page.next === undefined) break;
      after = page.next;
    }
    expect(items.length).toBe(expected.size);
    for (const { node, space, content } of items) {
      expect(expected.get(node.generation)).toEqual(space);
      expect(content?.generation).toBe(node.generation);
      expected.delete(node.generation);
    }
  });
}
