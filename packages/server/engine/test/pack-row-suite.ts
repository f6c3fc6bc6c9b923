/** Rows of packs, and the content rows that name them (core/pack-ports.ts). */
import { expect, test } from 'bun:test';
import type { ContentRow, Space } from '../../core/model.ts';
import type { PackRow } from '../../core/pack-model.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { testContentsToPack } from './contents-to-pack-suite.ts';
import { NO_USE, OTHER, type PackRowTools, packRowTools } from './pack-row-tools.ts';
import { judgedPack, openPack, packedContent, placeIn } from './pack-samples.ts';
import { testPackUse } from './pack-use-suite.ts';
import {
  hashAt,
  insertNodes,
  NOW,
  newGeneration,
  openUpload,
  readyNode,
  SPACE,
  updateNode,
} from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export function testPackRows(subject: StoreUnderTest): void {
  const tools = packRowTools(subject);
  testRows(tools);
  testPackUse(tools);
  testContentsToPack(tools);
  testMoves(tools);
  testFinding(tools);
  testLimits(tools);
}

function testRows({ subject, within, insert, change, useOf }: PackRowTools): void {
  test('every field of a pack survives every change, in its own Space', async () => {
    const row = openPack();
    await insert(row);
    const read = async () => [
      await subject.store.packs.findPack(SPACE, row.id),
      await within((packs) => packs.findPack(row.id)),
    ];
    expect(await read()).toEqual([row, row]);
    expect(await subject.store.packs.findPack(OTHER, row.id)).toBeUndefined();
    expect(await within((packs) => packs.findPack(row.id), OTHER)).toBeUndefined();
    expect(await subject.store.packs.findPack(SPACE, newGeneration())).toBeUndefined();
    const steps: Partial<PackRow>[] = [
      { touchedAt: NOW + 5, urlExpiresAt: NOW + 2000 },
      { bytes: 0 },
      { state: 'judging', bytes: 123, reserved: { bytes: 1000, nodes: 2 } },
      { publishedCount: 256, reserved: { bytes: 1, nodes: 0 } },
      { state: 'judged', publishedCount: 300, reserved: { bytes: 0, nodes: 0 } },
      { isDiscarded: true },
    ];
    let before = row;
    for (const step of steps) {
      before = await change(before, step);
      expect(await read()).toEqual([before, before]);
    }
    await within((_, tx) => tx.delete('pack', before));
    expect(await read()).toEqual([undefined, undefined]);
    expect(await useOf(row)).toEqual(NO_USE);
  });

  test('the same id in two Spaces is two packs', async () => {
    const here = openPack();
    const there = openPack({ id: here.id });
    await insert(here);
    await within((_, tx) => tx.insert('pack', there), OTHER);
    expect(await subject.store.packs.findPack(SPACE, here.id)).toEqual(here);
    expect(await subject.store.packs.findPack(OTHER, here.id)).toEqual(there);
  });

  test('rows that are published together are as those inserted one by one', async () => {
    const [pack, other] = [judgedPack(), judgedPack()];
    await insert(pack);
    await within((_, tx) => tx.insert('pack', other), OTHER);
    const rows = [1, 2, 3].map((index) => {
      const content = packedContent(placeIn(pack.generation, index * 200));
      const held = index === 1 ? { childRefCount: 2 } : { leaseExpiresAt: NOW + 1000 };
      const node = readyNode(hashAt(index), { generation: content.generation, storage: 'packed', ...held });
      return { node: { ...node, canonicalSize: content.canonicalSize }, content };
    });
    await within((_, tx) => tx.insert('published', rows));
    for (const [index, { node, content }] of rows.entries()) {
      const alike = packedContent(placeIn(other.generation, index * 200));
      await within((_, tx) => tx.insert('content', alike), OTHER);
      await within((_, tx) => tx.insert('node', node), OTHER);
      expect(await subject.store.findNodeWithContent(SPACE, node.hash)).toEqual({ node, content });
    }
    expect(await subject.store.readCounters(SPACE)).toEqual(await subject.store.readCounters(OTHER));
    expect(await useOf(pack)).toMatchObject({ liveRecords: 3 });
  });

  test('verdicts are stored with their pack, replaced, and deleted with it', async () => {
    const row = openPack();
    await insert(row);
    const read = async (space: Space = SPACE) => [
      await subject.store.packs.findPackVerdicts(space, row.generation),
      await within((packs) => packs.findVerdicts(row.generation), space),
    ];
    expect(await read()).toEqual([undefined, undefined]);
    const first = { hashes: new Uint8Array(64).fill(3), rejections: [], broken: undefined };
    await within((packs) => packs.setVerdicts(row.generation, first));
    expect(await read()).toEqual([first, first]);
    expect(await read(OTHER)).toEqual([undefined, undefined]);
    const rejections = [{ index: 1, code: 'NODE_TOO_LARGE', message: 'ünlike "this"' } as const];
    const second = { hashes: new Uint8Array(0), rejections, broken: { byte: 8, message: 'cut off' } };
    await within((packs) => packs.setVerdicts(row.generation, second));
    expect(await read()).toEqual([second, second]);
    await within((_, tx) => tx.delete('pack', row));
    expect(await read()).toEqual([undefined, undefined]);
  });

  test('a transaction that fails leaves no pack, no verdict and no use of one', async () => {
    const row = openPack();
    const kept = judgedPack();
    await insert(kept);
    const failing = subject.store.transact(SPACE, async (tx) => {
      await tx.insert('pack', row);
      await tx.packs.setVerdicts(row.generation, {
        ...{ hashes: new Uint8Array(32), rejections: [], broken: undefined },
      });
      await tx.insert('content', packedContent(placeIn(kept.generation, 8)));
      expect((await tx.packs.findUse(kept.generation)).liveRecords).toBe(1);
      throw new Error('planted');
    });
    await expect(failing).rejects.toThrow('planted');
    expect(await subject.store.packs.findPack(SPACE, row.id)).toBeUndefined();
    expect(await subject.store.packs.findPackVerdicts(SPACE, row.generation)).toBeUndefined();
    expect(await useOf(kept)).toEqual(NO_USE);
  });
}

function testMoves({ subject, within, insert, insertContents, useOf }: PackRowTools): void {
  test('a record moves only from the place it has, and readers then see the new place', async () => {
    const [from, to] = [judgedPack(), judgedPack()];
    await insert(from, to);
    const content = { ...packedContent(placeIn(from.generation, 52)), canonicalSize: 134 };
    const { generation, packed } = content as ContentRow & { packed: NonNullable<ContentRow['packed']> };
    const node = readyNode(hashAt(1), { generation, storage: 'packed', storedSize: 77 });
    await insertNodes(subject.store, SPACE, [node]);
    await insertContents(content);
    const read = async () => [
      await subject.store.findNodeWithContent(SPACE, node.hash),
      (await subject.store.findNodesWithContent(SPACE, [node.hash]))[0],
    ];
    expect(await read()).toEqual(Array.from({ length: 2 }, () => ({ node, content })));
    // A node that was read a moment ago is in memory.
    expect(await read()).toEqual(Array.from({ length: 2 }, () => ({ node, content })));
    const integrity = new Uint8Array([9, 9]);
    const move = (place: typeof packed) => ({
      ...{ generation, from: place, integrity },
      to: placeIn(to.generation, 8),
    });
    for (const wrong of [{ ...packed, offset: 53 }, placeIn(to.generation, 52)]) {
      expect(await within((packs) => packs.moveRecords([move(wrong)]))).toBe(0);
    }
    expect(await within((packs) => packs.moveRecords([move(packed)]), OTHER)).toBe(0);
    expect(await read()).toEqual(Array.from({ length: 2 }, () => ({ node, content })));
    expect(await within((packs) => packs.moveRecords([move(packed)]))).toBe(1);
    const moved = { ...content, packed: placeIn(to.generation, 8), integrity };
    expect(await read()).toEqual(Array.from({ length: 2 }, () => ({ node, content: moved })));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(generation))).toEqual(moved);
    expect(await within((packs) => packs.moveRecords([move(packed)]))).toBe(0);
    expect(await useOf(from)).toEqual({ ...NO_USE, firstDeadAt: NOW });
    expect(await useOf(to)).toMatchObject({ liveRecords: 1, liveBytes: 100 });
    const { items } = await subject.store.page('nodesToScrub', { after: undefined, limit: 10 });
    expect(items).toEqual([{ space: SPACE, node, content: moved }]);
    const inspected = await subject.store.inspect(SPACE, async (snapshot) =>
      snapshot.readNodes(undefined, 10),
    );
    expect(inspected[0]?.content).toMatchObject({ packed: moved.packed, inlineLength: undefined });
  });

  test('records of a pack are found by their offset, page by page', async () => {
    const pack = judgedPack();
    await insert(pack);
    const offsets = [5000, 52, 900, 300];
    const rows = offsets.map((offset) => packedContent(placeIn(pack.generation, offset)));
    await insertContents(...rows);
    const find = async (after: number, limit: number) =>
      (await subject.store.page('packRecords', { space: SPACE, pack: pack.generation, after, limit })).map(
        ({ packed }) => packed?.offset,
      );
    expect(await find(0, 10)).toEqual([52, 300, 900, 5000]);
    expect(await find(52, 2)).toEqual([300, 900]);
    expect(await find(5000, 2)).toEqual([]);
    expect(
      await subject.store.page('packRecords', { space: OTHER, pack: pack.generation, after: 0, limit: 10 }),
    ).toEqual([]);
    expect(
      (
        await subject.store.page('packRecords', { space: SPACE, pack: pack.generation, after: 0, limit: 1 })
      )[0],
    ).toEqual(rows[1] as ContentRow);
  });

  test('many nodes are read with their content, in the order of the request', async () => {
    const pack = judgedPack();
    await insert(pack);
    const packed = { ...packedContent(placeIn(pack.generation, 52)), canonicalSize: 134 };
    const inline: ContentRow = {
      ...{ generation: newGeneration(), canonicalSize: 134, integrity: new Uint8Array([1]) },
      ...{ inlineBytes: new Uint8Array(134), urlExpiresAt: 0 },
    };
    const nodes = [
      readyNode(hashAt(1), { generation: packed.generation, storage: 'packed', storedSize: 60 }),
      readyNode(hashAt(2), { generation: inline.generation }),
      readyNode(hashAt(3)),
    ];
    await insertNodes(subject.store, SPACE, nodes);
    await insertContents(packed, inline);
    const asked = [hashAt(3), hashAt(9), hashAt(2), hashAt(1)];
    expect(await subject.store.findNodesWithContent(SPACE, asked)).toEqual([
      { node: nodes[2] as never, content: undefined },
      undefined,
      { node: nodes[1] as never, content: inline },
      { node: nodes[0] as never, content: packed },
    ]);
    expect(await subject.store.findNodesWithContent(OTHER, asked)).toEqual(asked.map(() => undefined));
    expect(await within((packs) => packs.findUploads(asked))).toEqual(asked.map(() => undefined));
    const upload = openUpload(hashAt(9));
    await subject.store.transact(SPACE, (tx) => tx.insert('upload', upload));
    expect((await within((packs) => packs.findUploads(asked)))[1]).toEqual(upload);
  });

  test('the stored bytes of a node count as they are until it is healed with others', async () => {
    const stored = async () => (await subject.store.readCounters(SPACE)).readyStoredBytes;
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), { storage: 'packed', storedSize: 60 })]);
    expect(await stored()).toBe(60);
    await updateNode(subject.store, SPACE, hashAt(1), { state: 'rotten' });
    expect(await stored()).toBe(0);
    await updateNode(subject.store, SPACE, hashAt(1), { state: 'ready', storage: 'inline', storedSize: 134 });
    expect(await stored()).toBe(134);
    expect(await subject.store.findNode(SPACE, hashAt(1))).toMatchObject({
      storage: 'inline',
      storedSize: 134,
    });
  });
}

function testFinding({ subject, within, insert, insertContents, change }: PackRowTools): void {
  test('an open pack is found by what it was opened for, while its URL is good', async () => {
    const asked = new Uint8Array(32).fill(1);
    const find = async (space?: Space) =>
      (await within((packs) => packs.findOpenPack(asked), space))?.generation;
    await insert(openPack(), openPack({ asked, urlExpiresAt: NOW }));
    expect(await find()).toBeUndefined();
    const earlier = openPack({ asked, createdAt: NOW - 5, urlExpiresAt: NOW + 1 });
    const later = openPack({ asked, createdAt: NOW - 4, urlExpiresAt: NOW + 1 });
    await insert(later, earlier);
    expect(await find()).toBe(later.generation);
    expect(await find(OTHER)).toBeUndefined();
    await change(later, { state: 'judging' });
    expect(await find()).toBe(earlier.generation);
    subject.clock.set(NOW + 1);
    expect(await find()).toBeUndefined();
  });

  test('the sweep finds abandoned, empty and outdated packs, and their Spaces', async () => {
    const AT = NOW - 100;
    const spaces = async () => {
      const cutoffs = { now: NOW, abandonedAt: AT, historyAt: 0 };
      return (await subject.store.page('spacesToSweep', { cutoffs, limit: 10 })).spaces.map(
        ({ spaceId }) => spaceId,
      );
    };
    const sweep = async (limit = 10) =>
      (await within((_, tx) => tx.due('packs', AT, limit))).map(({ pack }) => pack.generation).sort();
    const live = judgedPack({ touchedAt: 0 });
    await insert(
      openPack({ touchedAt: AT, urlExpiresAt: AT + 1 }),
      openPack({ touchedAt: AT + 1, urlExpiresAt: AT }),
      judgedPack({ isDiscarded: true, touchedAt: AT + 1 }),
      live,
    );
    await insertContents(packedContent(placeIn(live.generation, 52)));
    expect([await sweep(), await spaces()]).toEqual([[], []]);
    const given = [
      openPack({ touchedAt: AT, urlExpiresAt: AT }),
      openPack({ state: 'judging', touchedAt: 0, urlExpiresAt: AT }),
      judgedPack({ touchedAt: NOW }),
      judgedPack({ isDiscarded: true, touchedAt: AT }),
    ];
    for (const [index, pack] of given.entries()) {
      const space = { appId: 'app', spaceId: `space-${index}` };
      await within(
        (_, tx) => tx.insert('pack', { ...pack, id: newGeneration(), generation: newGeneration() }),
        space,
      );
      await insert(pack);
    }
    expect(await sweep()).toEqual(given.map(({ generation }) => generation).sort());
    expect(await sweep(3)).toHaveLength(3);
    expect((await spaces()).sort()).toEqual(['space', 'space-0', 'space-1', 'space-2', 'space-3']);
    const everything = await within((_, tx) => tx.due('packs', Number.MAX_SAFE_INTEGER, 100));
    expect(everything).toHaveLength(7);
  });

  test('a pack that was emptied is found in the transaction that emptied it', async () => {
    const pack = judgedPack();
    await insert(pack);
    const content = packedContent(placeIn(pack.generation, 52));
    await insertContents(content);
    const found = await subject.store.transact(SPACE, async (tx) => {
      const before = await tx.due('packs', 0, 10);
      await tx.delete('content', content.generation);
      return [before.length, (await tx.due('packs', 0, 10)).length];
    });
    expect(found).toEqual([0, 1]);
  });

  test('known generations are those of packs too, until they are discarded', async () => {
    const pack = openPack();
    const gone = judgedPack({ isDiscarded: true });
    await insert(pack, gone);
    const keys = [pack, gone].map(({ generation }) => ({ spaceKey: spaceKeyOf(SPACE), generation }));
    expect([...(await subject.store.page('knownGenerations', keys))]).toEqual([pack.generation]);
  });
}

function testLimits({ subject, within, insert, change }: PackRowTools): void {
  test('packs are active as uploads are, until they are judged', async () => {
    const count = (atMost = 10) => subject.store.transact(SPACE, (tx) => tx.countActiveUploads(atMost));
    await subject.store.transact(SPACE, (tx) => tx.insert('upload', openUpload(hashAt(1))));
    const [open, judging] = [openPack({ urlExpiresAt: NOW + 1 }), openPack({ state: 'judging' })];
    await insert(open, judging, openPack({ urlExpiresAt: NOW }), judgedPack());
    expect([await count(), await count(2), await count(1)]).toEqual([3, 2, 1]);
    const within3 = await subject.store.transact(SPACE, async (tx) => {
      const before = await tx.countActiveUploads(10);
      await tx.insert('pack', openPack());
      return [before, await tx.countActiveUploads(10)];
    });
    expect(within3).toEqual([3, 4]);
    await change(judging, { state: 'judged' });
    expect(await count()).toBe(3);
    subject.clock.set(NOW + 1);
    expect(await count()).toBe(2);
    await within((_, tx) => tx.delete('pack', open));
    expect(await count()).toBe(2);
  });

  test('room that packs reserve counts as stored', async () => {
    const read = () => subject.store.transact(SPACE, (tx) => tx.lockStored());
    const pack = openPack({ state: 'judging', reserved: { bytes: 1000, nodes: 3 } });
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    await insert(pack, openPack({ state: 'judging', reserved: { bytes: 5, nodes: 0 } }));
    expect(await read()).toEqual({ bytes: 1139, nodes: 4 });
    const inside = await subject.store.transact(SPACE, async (tx) => {
      await tx.update('pack', pack, { ...pack, reserved: { bytes: 10, nodes: 1 } });
      return tx.lockStored();
    });
    expect(inside).toEqual({ bytes: 149, nodes: 2 });
    expect(await subject.store.transact(OTHER, (tx) => tx.lockStored())).toEqual({ bytes: 0, nodes: 0 });
  });
}
