/** The live records of packs (core/packs/own-packs.ts), as every engine must keep them. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { ContentRow, Generation } from '../../core/model.ts';
import type { PackRow, PackUse } from '../../core/pack-model.ts';
import type { PackRowTools } from './pack-row-tools.ts';
import {
  judgedPack,
  openPack,
  PACK_HEADER_BYTES,
  packedContent,
  placeIn,
  RECORD_HEADER_BYTES,
} from './pack-samples.ts';
import { NOW, SPACE } from './samples.ts';

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

export function testPackUse({ subject, within, insert, insertContents, change, useOf }: PackRowTools): void {
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
              await tx.insert('content', content);
              next.set(content.generation, content);
            } else if (chosen?.packed !== undefined && place === undefined) {
              await tx.delete('content', chosen.generation);
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
        const found = await subject.store.page('packRecords', { space: SPACE, pack, after: 0, limit: 100 });
        expect(found.map((row) => row.generation)).toContain(generation);
      }
    });
    await fc.assert(property, { numRuns: 8 });
  });

  test('bytes that no row ever named count as dead once the pack is judged', async () => {
    const content = (pack: PackRow, offset: number) => packedContent(placeIn(pack.generation, offset));
    const bytes = (records: number, dead: number) =>
      PACK_HEADER_BYTES + records * (RECORD_HEADER_BYTES + 100) + dead;
    const whole = openPack({ state: 'judging', bytes: bytes(2, 0) });
    const partial = openPack({ state: 'judging', bytes: bytes(1, 50) });
    await insert(whole, partial);
    await insertContents(content(whole, 52), content(whole, 196), content(partial, 52));
    expect((await useOf(partial)).firstDeadAt).toBe(0);
    expect(await subject.store.packs.readDeadBytes()).toBe(0);
    subject.clock.set(NOW + 7);
    await change(whole, { state: 'judged', publishedCount: 2 });
    await change(partial, { state: 'judged', publishedCount: 1 });
    expect(await useOf(whole)).toEqual({ liveRecords: 2, liveBytes: 200, firstDeadAt: 0 });
    expect(await useOf(partial)).toEqual({ liveRecords: 1, liveBytes: 100, firstDeadAt: NOW + 7 });
    expect(await subject.store.packs.readDeadBytes()).toBe(50);
    // As compaction fills a pack.
    const filled = judgedPack({ bytes: bytes(2, 0) });
    await insert(filled);
    await insertContents(content(filled, 52));
    expect((await useOf(filled)).firstDeadAt).toBe(NOW + 7);
    await insertContents(content(filled, 196));
    expect((await useOf(filled)).firstDeadAt).toBe(0);
  });

  test('packs to compact are those partly dead for long, the longest first, then those mostly dead, by their dead bytes', async () => {
    const fill = async (live: number, dead: number, at: number, changes: Partial<PackRow> = {}) => {
      subject.clock.set(at);
      const bytes = PACK_HEADER_BYTES + 2 * RECORD_HEADER_BYTES + live + dead;
      const pack = judgedPack({ bytes, ...changes });
      await insert(pack);
      const gone = packedContent(placeIn(pack.generation, 52 + live, dead));
      await insertContents(packedContent(placeIn(pack.generation, 52, live)), gone);
      await subject.store.transact(SPACE, (tx) => tx.delete('content', gone.generation));
      return pack;
    };
    const mostly = await fill(1000, 9000, NOW + 50);
    const little = await fill(9000, 500, NOW + 55);
    const long = await fill(9000, 600, NOW + 10);
    await fill(10, 90_000, NOW, { state: 'judging' });
    const emptied = judgedPack();
    const alive = judgedPack({ bytes: 8 + 44 + 5000 });
    await insert(emptied, alive);
    await insertContents(packedContent(placeIn(alive.generation, 52, 5000)));
    const find = async (deadSince: number, limit = 10) =>
      (await subject.store.page('packsToCompact', { deadSince, limit })).map(({ pack }) => pack.generation);
    expect(await find(NOW)).toEqual([mostly.generation]);
    expect(await find(NOW + 10)).toEqual([long.generation, mostly.generation]);
    expect(await find(NOW + 60)).toEqual([long.generation, mostly.generation, little.generation]);
    expect(await find(NOW + 10, 1)).toEqual([long.generation]);
    const inspect = (after: string | undefined, limit: number) =>
      subject.store.inspect(SPACE, async (snapshot) => snapshot.readPacks(after, limit));
    const inspected = await inspect(undefined, 10);
    expect(inspected).toHaveLength(6);
    for (const { kept, counted } of inspected) expect(kept).toEqual(counted);
    expect(inspected.find(({ id }) => id === alive.id)).toMatchObject({
      ...{ generation: alive.generation, counted: { liveRecords: 1, liveBytes: 5000 } },
    });
    expect(await inspect(inspected[1]?.id, 2)).toEqual(inspected.slice(2, 4));
    const [first] = await subject.store.page('packsToCompact', { deadSince: NOW, limit: 1 });
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
