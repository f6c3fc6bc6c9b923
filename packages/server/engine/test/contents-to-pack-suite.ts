/** How small nodes are found whose bytes are objects of their own (core/pack-ports.ts). */
import { expect, test } from 'bun:test';
import type { ContentRow, Space } from '../../core/model.ts';
import { SMALL_NODE_BYTES_MAX, type SpaceToPack } from '../../core/pack-ports.ts';
import { OTHER, type PackRowTools } from './pack-row-tools.ts';
import { judgedPack, packedContent, placeIn } from './pack-samples.ts';
import { newGeneration, SPACE } from './samples.ts';

const FIRST = '0'.repeat(32);

export function testContentsToPack({ subject, insert }: PackRowTools): void {
  const object = (changes: Partial<ContentRow> = {}): ContentRow => ({
    generation: newGeneration(),
    canonicalSize: SMALL_NODE_BYTES_MAX,
    integrity: new Uint8Array([1, 2]),
    inlineBytes: undefined,
    urlExpiresAt: 5,
    ...changes,
  });
  const store = (space: Space, rows: readonly ContentRow[]) =>
    subject.store.transact(space, async (tx) => {
      for (const row of rows) await tx.insert('content', row);
    });
  const find = (space: Space, after: string, before: string, limit = 10) =>
    subject.store.page('contentsToPack', { space, after, before, limit });
  const spaces = (before: string, contentsMin: number, after?: string, limit = 10) =>
    subject.store.page('spacesToPack', { after, before, contentsMin, limit });

  test('contents that are small objects are found by their age, in their Space', async () => {
    const pack = judgedPack();
    await insert(pack);
    const [one, two, large, packed, three] = [
      object(),
      object({ canonicalSize: 1 }),
      object({ canonicalSize: SMALL_NODE_BYTES_MAX + 1 }),
      packedContent(placeIn(pack.generation, 52)),
      object(),
    ];
    await store(SPACE, [one, two, large, packed, three]);
    const elsewhere = object();
    await store(OTHER, [elsewhere]);
    const end = newGeneration();
    if (subject.store.inlineBytesMax > 0) {
      await store(SPACE, [object({ canonicalSize: 3, inlineBytes: new Uint8Array(3) })]);
    }
    const all = newGeneration();
    expect((await find(SPACE, FIRST, all)).map(({ generation }) => generation)).toEqual(
      [one, two, three].map(({ generation }) => generation),
    );
    expect(await find(SPACE, FIRST, all, 1)).toMatchObject([one]);
    expect(await find(SPACE, one.generation, all)).toMatchObject([two, three]);
    expect(await find(SPACE, FIRST, three.generation)).toMatchObject([one, two]);
    expect(await find(OTHER, FIRST, end)).toMatchObject([elsewhere]);
    await subject.store.transact(SPACE, (tx) => tx.delete('content', two.generation));
    expect(await find(SPACE, FIRST, all)).toMatchObject([one, three]);
  });

  test('each Space with such contents comes once, with whether it has enough of them', async () => {
    expect(await spaces(newGeneration(), 1)).toEqual([]);
    const old = [object(), object(), object()];
    const before = newGeneration();
    await store(SPACE, [...old, object()]);
    await store(OTHER, [object()]);
    const worth = async (contentsMin: number) => {
      const found = await spaces(before, contentsMin);
      return new Map(found.map(({ space, isWorthPacking }) => [space.spaceId, isWorthPacking]));
    };
    expect(await worth(3)).toEqual(
      new Map([
        [SPACE.spaceId, true],
        [OTHER.spaceId, false],
      ]),
    );
    expect(await worth(4)).toEqual(
      new Map([
        [SPACE.spaceId, false],
        [OTHER.spaceId, false],
      ]),
    );
    const walked: SpaceToPack[] = [];
    for (let after: string | undefined; ; ) {
      const [next] = await spaces(before, 1, after, 1);
      if (next === undefined) break;
      walked.push(next);
      after = next.position;
    }
    expect(walked.map(({ space }) => space.spaceId).sort()).toEqual([OTHER.spaceId, SPACE.spaceId].sort());
    for (const { space } of walked) expect(space.appId).toBe(SPACE.appId);
  });
}
