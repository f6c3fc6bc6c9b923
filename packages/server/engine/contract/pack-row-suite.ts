/** Rows of packs, and the content rows that name them (core/pack-ports.ts). */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { ContentRow, Generation, PackRow, PackUse, Space } from '../../core/model.ts';
import type { PackVerbs } from '../../core/pack-ports.ts';
import type { Awaitable } from '../../core/ports.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import {
  judgedPack,
  openPack,
  PACK_HEADER_BYTES,
  packedContent,
  placeIn,
  RECORD_HEADER_BYTES,
} from './pack-samples.ts';
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

const OTHER: Space = { appId: 'app', spaceId: 'other' };
const NO_USE: PackUse = { liveRecords: 0, liveBytes: 0, firstDeadAt: 0 };

interface Subject {
  readonly subject: StoreUnderTest;
  within<T>(verb: (packs: PackVerbs) => Awaitable<T>, space?: Space): Promise<T>;
  insert(...rows: readonly PackRow[]): Promise<void>;
  insertContents(...rows: readonly ContentRow[]): Promise<void>;
  change(before: PackRow, changes: Partial<PackRow>): Promise<PackRow>;
  useOf(pack: PackRow): Promise<PackUse>;
}

export function testPackRows(subject: StoreUnderTest): void {
  const within: Subject['within'] = (verb, space = SPACE) =>
    subject.store.transact(space, async (tx) => verb(tx.packs));
  const tools: Subject = {
    ...{ subject, within },
    insert: (...rows) =>
      within(async (packs) => {
        for (const row of rows) await packs.insertPack(row);
      }),
    insertContents: (...rows) =>
      subject.store.transact(SPACE, async (tx) => {
        for (const row of rows) await tx.insertContent(row);
      }),
    async change(before, changes) {
      const after = { ...before, ...changes };
      await within((packs) => packs.updatePack(before, after));
      return after;
    },
    useOf: ({ generation }) => within((packs) => packs.findUse(generation)),
  };
  testRows(tools);
  testUse(tools);
  testMoves(tools);
  testFinding(tools);
  testLimits(tools);
}

function testRows({ subject, within, insert, change, useOf }: Subject): void {
  test('every field of a pack survives every change, in its own Space', async () => {
    const row = openPack();
    await insert(row);
    const read = async () => [
      await subject.store.findPack(SPACE, row.id),
      await within((packs) => packs.findPack(row.id)),
    ];
    expect(await read()).toEqual([row, row]);
    expect(await subject.store.findPack(OTHER, row.id)).toBeUndefined();
    expect(await within((packs) => packs.findPack(row.id), OTHER)).toBeUndefined();
    expect(await subject.store.findPack(SPACE, newGeneration())).toBeUndefined();
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
    await within((packs) => packs.deletePack(before));
    expect(await read()).toEqual([undefined, undefined]);
    expect(await useOf(row)).toEqual(NO_USE);
  });

  test('the same id in two Spaces is two packs', async () => {
    const here = openPack();
    const there = openPack({ id: here.id });
    await insert(here);
    await within((packs) => packs.insertPack(there), OTHER);
    expect(await subject.store.findPack(SPACE, here.id)).toEqual(here);
    expect(await subject.store.findPack(OTHER, here.id)).toEqual(there);
  });

  test('verdicts are kept with their pack, replaced, and go with it', async () => {
    const row = openPack();
    await insert(row);
    const read = async (space: Space = SPACE) => [
      await subject.store.findPackVerdicts(space, row.generation),
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
    await within((packs) => packs.deletePack(row));
    expect(await read()).toEqual([undefined, undefined]);
  });

  test('a body that fails leaves no pack, no verdict and no use', async () => {
    const row = openPack();
    const kept = judgedPack();
    await insert(kept);
    const failing = subject.store.transact(SPACE, async (tx) => {
      await tx.packs.insertPack(row);
      await tx.packs.setVerdicts(row.generation, {
        ...{ hashes: new Uint8Array(32), rejections: [], broken: undefined },
      });
      await tx.insertContent(packedContent(placeIn(kept.generation, 8)));
      expect((await tx.packs.findUse(kept.generation)).liveRecords).toBe(1);
      throw new Error('planted');
    });
    await expect(failing).rejects.toThrow('planted');
    expect(await subject.store.findPack(SPACE, row.id)).toBeUndefined();
    expect(await subject.store.findPackVerdicts(SPACE, row.generation)).toBeUndefined();
    expect(await useOf(kept)).toEqual(NO_USE);
  });
}

type Step =
  | { readonly kind: 'insert'; readonly pack: number; readonly length: number }
  | { readonly kind: 'delete'; readonly record: number }
  | { readonly kind: 'move'; readonly record: number; readonly pack: number };

const PACKS = 3;
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('insert' as const), pack: fc.nat(PACKS - 1), length: fc.nat(1000) }),
  fc.record({ kind: fc.constant('delete' as const), record: fc.nat(20) }),
  fc.record({ kind: fc.constant('move' as const), record: fc.nat(20), pack: fc.nat(PACKS - 1) }),
);
const body = fc.record({ steps: fc.array(step, { maxLength: 8 }), fails: fc.boolean() });

function testUse({ subject, within, insert, insertContents, change, useOf }: Subject): void {
  test('the live records of packs equal a recount after any inserts, deletions, moves and failures', async () => {
    const property = fc.asyncProperty(fc.array(body, { maxLength: 8 }), async (bodies) => {
      const packs = Array.from({ length: PACKS }, () => openPack({ state: 'judging' }));
      await insert(...packs);
      let live = new Map<Generation, ContentRow>();
      let dead = new Set<Generation>();
      for (const { steps, fails } of bodies) {
        const next = new Map(live);
        const died = new Set(dead);
        const run = subject.store.transact(SPACE, async (tx) => {
          for (const [index, one] of steps.entries()) {
            const chosen =
              one.kind === 'insert' ? undefined : [...next.values()][one.record % (next.size || 1)];
            const pack = one.kind === 'delete' ? undefined : packs[one.pack]?.generation;
            const place =
              pack === undefined ? undefined : placeIn(pack, 8 + next.size * 1000 + index, 1 + index);
            if (one.kind === 'insert' && place !== undefined) {
              const content = packedContent({ ...place, storedLength: 1 + one.length });
              await tx.insertContent(content);
              next.set(content.generation, content);
            } else if (chosen?.packed !== undefined && place === undefined) {
              await tx.deleteContent(chosen.generation);
              next.delete(chosen.generation);
              died.add(chosen.packed.pack);
            } else if (chosen?.packed !== undefined && place !== undefined) {
              const { generation, packed: from, integrity } = chosen;
              const to = { ...place, storedLength: from.storedLength };
              expect(await tx.packs.moveRecords([{ generation, from, to, integrity }])).toBe(1);
              next.set(generation, { ...chosen, packed: to });
              died.add(from.pack);
            }
          }
          if (fails) throw new Error('planted');
        });
        if (fails) await expect(run).rejects.toThrow('planted');
        else {
          await run;
          live = next;
          dead = died;
        }
        for (const pack of packs) expect(await useOf(pack)).toEqual(recount(pack, live, dead));
      }
      for (const { packed, generation } of live.values()) {
        const { pack = '' } = packed ?? {};
        const found = await subject.store.findPackRecords(SPACE, pack, 0, 100);
        expect(found.map((row) => row.generation)).toContain(generation);
      }
    });
    await fc.assert(property, { numRuns: 8 });
  });

  test('bytes that no row ever named are dead once the pack is judged, until it has none', async () => {
    const content = (pack: PackRow, offset: number) => packedContent(placeIn(pack.generation, offset));
    const bytes = (records: number, dead: number) =>
      PACK_HEADER_BYTES + records * (RECORD_HEADER_BYTES + 100) + dead;
    const whole = openPack({ state: 'judging', bytes: bytes(2, 0) });
    const partial = openPack({ state: 'judging', bytes: bytes(1, 50) });
    await insert(whole, partial);
    await insertContents(content(whole, 52), content(whole, 196), content(partial, 52));
    expect((await useOf(partial)).firstDeadAt).toBe(0);
    subject.clock.set(NOW + 7);
    await change(whole, { state: 'judged', publishedCount: 2 });
    await change(partial, { state: 'judged', publishedCount: 1 });
    expect(await useOf(whole)).toEqual({ liveRecords: 2, liveBytes: 200, firstDeadAt: 0 });
    expect(await useOf(partial)).toEqual({ liveRecords: 1, liveBytes: 100, firstDeadAt: NOW + 7 });
    // As compaction fills a pack.
    const filled = judgedPack({ bytes: bytes(2, 0) });
    await insert(filled);
    await insertContents(content(filled, 52));
    expect((await useOf(filled)).firstDeadAt).toBe(NOW + 7);
    await insertContents(content(filled, 196));
    expect((await useOf(filled)).firstDeadAt).toBe(0);
  });

  test('packs to compact come by their dead bytes: those that are mostly dead, or in part for long', async () => {
    const fill = async (live: number, dead: number, at: number, changes: Partial<PackRow> = {}) => {
      subject.clock.set(at);
      const bytes = PACK_HEADER_BYTES + 2 * RECORD_HEADER_BYTES + live + dead;
      const pack = judgedPack({ bytes, ...changes });
      await insert(pack);
      const gone = packedContent(placeIn(pack.generation, 52 + live, dead));
      await insertContents(packedContent(placeIn(pack.generation, 52, live)), gone);
      await subject.store.transact(SPACE, (tx) => tx.deleteContent(gone.generation));
      return pack;
    };
    const mostly = await fill(1000, 9000, NOW + 50);
    const little = await fill(9000, 500, NOW + 50);
    const long = await fill(9000, 600, NOW + 10);
    await fill(10, 90_000, NOW, { state: 'judging' });
    const emptied = judgedPack();
    const alive = judgedPack({ bytes: 8 + 44 + 5000 });
    await insert(emptied, alive);
    await insertContents(packedContent(placeIn(alive.generation, 52, 5000)));
    const find = async (deadSince: number, limit = 10) =>
      (await subject.store.findPacksToCompact({ deadSince, limit })).map(({ pack }) => pack.generation);
    expect(await find(NOW)).toEqual([mostly.generation]);
    expect(await find(NOW + 10)).toEqual([mostly.generation, long.generation]);
    expect(await find(NOW + 60)).toEqual([mostly.generation, long.generation, little.generation]);
    expect(await find(NOW + 60, 1)).toEqual([mostly.generation]);
    const [first] = await subject.store.findPacksToCompact({ deadSince: NOW, limit: 1 });
    const use = { liveRecords: 1, liveBytes: 1000, firstDeadAt: NOW + 50 };
    expect(first).toEqual({ space: SPACE, pack: mostly, use });
    expect(await within((packs) => packs.findUse(mostly.generation))).toEqual(use);
  });
}

function recount(
  { generation }: PackRow,
  live: ReadonlyMap<Generation, ContentRow>,
  dead: ReadonlySet<Generation>,
): PackUse {
  const places = [...live.values()].flatMap(({ packed }) => (packed?.pack === generation ? [packed] : []));
  return {
    liveRecords: places.length,
    liveBytes: places.reduce((sum, { storedLength }) => sum + storedLength, 0),
    firstDeadAt: dead.has(generation) ? NOW : 0,
  };
}

function testMoves({ subject, within, insert, insertContents, useOf }: Subject): void {
  test('a record moves only from the place that it has; readers then have the new one', async () => {
    const [from, to] = [judgedPack(), judgedPack()];
    await insert(from, to);
    const content = packedContent(placeIn(from.generation, 52));
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
    const { items } = await subject.store.findNodesToScrub(undefined, 10);
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
      (await subject.store.findPackRecords(SPACE, pack.generation, after, limit)).map(
        ({ packed }) => packed?.offset,
      );
    expect(await find(0, 10)).toEqual([52, 300, 900, 5000]);
    expect(await find(52, 2)).toEqual([300, 900]);
    expect(await find(5000, 2)).toEqual([]);
    expect(await subject.store.findPackRecords(OTHER, pack.generation, 0, 10)).toEqual([]);
    expect((await subject.store.findPackRecords(SPACE, pack.generation, 0, 1))[0]).toEqual(
      rows[1] as ContentRow,
    );
  });

  test('many nodes are read with their content, aligned with what was asked', async () => {
    const pack = judgedPack();
    await insert(pack);
    const packed = packedContent(placeIn(pack.generation, 52));
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
    await subject.store.transact(SPACE, (tx) => tx.insertUpload(upload));
    expect((await within((packs) => packs.findUploads(asked)))[1]).toEqual(upload);
  });

  test('what is stored of a node is counted until it is healed with other bytes', async () => {
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

function testFinding({ subject, within, insert, insertContents, change }: Subject): void {
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

  test('the sweep finds packs that were given up, are empty, or are to be forgotten, and their Spaces', async () => {
    const AT = NOW - 100;
    const spaces = async () => {
      const cutoffs = { now: NOW, abandonedAt: AT, historyAt: 0 };
      return (await subject.store.findSpacesToSweep(cutoffs, 10)).map(({ spaceId }) => spaceId);
    };
    const sweep = async (limit = 10) =>
      (await within((packs) => packs.findPacksToSweep(AT, limit))).map(({ pack }) => pack.generation).sort();
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
        (packs) => packs.insertPack({ ...pack, id: newGeneration(), generation: newGeneration() }),
        space,
      );
      await insert(pack);
    }
    expect(await sweep()).toEqual(given.map(({ generation }) => generation).sort());
    expect(await sweep(3)).toHaveLength(3);
    expect((await spaces()).sort()).toEqual(['space', 'space-0', 'space-1', 'space-2', 'space-3']);
    const everything = await within((packs) => packs.findPacksToSweep(Number.MAX_SAFE_INTEGER, 100));
    expect(everything).toHaveLength(7);
  });

  test('a pack that was emptied is found in the transaction that emptied it', async () => {
    const pack = judgedPack();
    await insert(pack);
    const content = packedContent(placeIn(pack.generation, 52));
    await insertContents(content);
    const found = await subject.store.transact(SPACE, async (tx) => {
      const before = await tx.packs.findPacksToSweep(0, 10);
      await tx.deleteContent(content.generation);
      return [before.length, (await tx.packs.findPacksToSweep(0, 10)).length];
    });
    expect(found).toEqual([0, 1]);
  });

  test('known generations are those of packs too, until they are discarded', async () => {
    const pack = openPack();
    const gone = judgedPack({ isDiscarded: true });
    await insert(pack, gone);
    const keys = [pack, gone].map(({ generation }) => ({ spaceKey: spaceKeyOf(SPACE), generation }));
    expect([...(await subject.store.findKnownGenerations(keys))]).toEqual([pack.generation]);
  });
}

function testLimits({ subject, within, insert, change }: Subject): void {
  test('packs are active as uploads are, until they are judged', async () => {
    const count = (atMost = 10) => subject.store.transact(SPACE, (tx) => tx.countActiveUploads(atMost));
    await subject.store.transact(SPACE, (tx) => tx.insertUpload(openUpload(hashAt(1))));
    const [open, judging] = [openPack({ urlExpiresAt: NOW + 1 }), openPack({ state: 'judging' })];
    await insert(open, judging, openPack({ urlExpiresAt: NOW }), judgedPack());
    expect([await count(), await count(2), await count(1)]).toEqual([3, 2, 1]);
    const within3 = await subject.store.transact(SPACE, async (tx) => {
      const before = await tx.countActiveUploads(10);
      await tx.packs.insertPack(openPack());
      return [before, await tx.countActiveUploads(10)];
    });
    expect(within3).toEqual([3, 4]);
    await change(judging, { state: 'judged' });
    expect(await count()).toBe(3);
    subject.clock.set(NOW + 1);
    expect(await count()).toBe(2);
    await within((packs) => packs.deletePack(open));
    expect(await count()).toBe(2);
  });

  test('what packs keep free counts as stored', async () => {
    const read = () => subject.store.transact(SPACE, (tx) => tx.lockStored());
    const pack = openPack({ state: 'judging', reserved: { bytes: 1000, nodes: 3 } });
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    await insert(pack, openPack({ state: 'judging', reserved: { bytes: 5, nodes: 0 } }));
    expect(await read()).toEqual({ bytes: 1139, nodes: 4 });
    const inside = await subject.store.transact(SPACE, async (tx) => {
      await tx.packs.updatePack(pack, { ...pack, reserved: { bytes: 10, nodes: 1 } });
      return tx.lockStored();
    });
    expect(inside).toEqual({ bytes: 149, nodes: 2 });
    expect(await subject.store.transact(OTHER, (tx) => tx.lockStored())).toEqual({ bytes: 0, nodes: 0 });
  });
}
