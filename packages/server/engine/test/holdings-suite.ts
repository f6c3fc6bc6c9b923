/** The holdings of a Space besides those that its counters count: bytes that are not judged, and commits (core/tenancy-ports.ts). */
import { expect, test } from 'bun:test';
import type { Space, UploadRow } from '../../core/model.ts';
import type { PackRow } from '../../core/pack-model.ts';
import { openPack } from './pack-samples.ts';
import { hashAt, insertNodes, NOW, newGeneration, openUpload, readyNode, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { GOOD } from './upload-row-suite.ts';

const OTHER: Space = { appId: SPACE.appId, spaceId: 'other' };

export function testHoldings(subject: StoreUnderTest): void {
  const holdings = async (space = SPACE) => {
    const [read, locked] = await Promise.all([
      subject.store.readHoldings(space),
      subject.store.transact(space, (tx) => tx.lockHoldings()),
    ]);
    expect(locked).toEqual(read);
    return read;
  };
  const commit = (space: Space, domain: string, revision: number) =>
    subject.store.transact(space, (tx) =>
      tx.insertRootRefCommit(
        domain,
        { requestId: `r${revision}`, payloadDigest: new Uint8Array(32), revision },
        [{ hash: hashAt(1), before: revision - 1, after: revision }],
      ),
    );

  test('an upload is pending from its evidence until its row goes', async () => {
    const { store } = subject;
    expect(await holdings()).toEqual({ pendingBytes: 0, commitRows: 0 });
    const rows = [1, 2, 3].map((index) => openUpload(hashAt(index)));
    for (const row of rows) await store.transact(SPACE, (tx) => tx.insert('upload', row));
    expect((await holdings()).pendingBytes).toBe(0);
    const [first, second, third] = rows as [(typeof rows)[0], (typeof rows)[0], (typeof rows)[0]];
    const good = { ...first, evidence: GOOD };
    await store.transact(SPACE, async (tx) => {
      await tx.update('upload', first, good);
      await tx.update('upload', second, { ...second, evidence: { ...GOOD, canonicalSize: 1000 } });
      await tx.update('upload', third, {
        ...third,
        evidence: { verdict: 'bad', code: 'NODE_TOO_LARGE', message: 'too large' },
      });
      expect((await tx.lockHoldings()).pendingBytes).toBe(1134);
    });
    expect([(await holdings()).pendingBytes, (await holdings(OTHER)).pendingBytes]).toEqual([1134, 0]);
    expect(await store.readAppTotals(SPACE.appId)).toMatchObject({ pendingBytes: 1134 });
    await store.transact(SPACE, (tx) => tx.delete('upload', good));
    expect((await holdings()).pendingBytes).toBe(1000);
  });

  test('uploads and packs whose bytes were not seen are found page by page until their URLs end; what was seen is pending', async () => {
    const { store } = subject;
    const urlsEndAfter = NOW;
    const uploads = [1, 2, 3, 4].map((index) =>
      openUpload(hashAt(index), { urlExpiresAt: NOW + (index % 2) }),
    );
    const packs = [1, 2].map((index) =>
      openPack({ asked: new Uint8Array(32).fill(index), urlExpiresAt: NOW + 2 }),
    );
    for (const space of [SPACE, OTHER]) {
      await store.transact(space, async (tx) => {
        for (const [index, row] of uploads.entries()) {
          await tx.insert(
            'upload',
            space === SPACE ? row : openUpload(hashAt(index + 1), { urlExpiresAt: NOW + 2 }),
          );
        }
        if (space === SPACE) for (const pack of packs) await tx.insert('pack', pack);
      });
    }
    const findAll = async (limit: number): Promise<string[]> => {
      const found: string[] = [];
      let after: string | undefined;
      for (let pages = 0; pages < 100; pages += 1) {
        const { items, next } = await store.page('unseenUploads', { after, urlsEndAfter, limit });
        found.push(...items.map(({ space, of }) => `${space.spaceId} ${'pack' in of ? of.pack : of.hash}`));
        after = next;
        if (next === undefined) return found.sort();
      }
      throw new Error('the walk does not end');
    };
    const expected = [
      ...[1, 3].map((index) => `${SPACE.spaceId} ${hashAt(index)}`),
      ...packs.map(({ id }) => `${SPACE.spaceId} ${id}`),
      ...[1, 2, 3, 4].map((index) => `${OTHER.spaceId} ${hashAt(index)}`),
    ].sort();
    for (const limit of [1, 3, 100]) expect(await findAll(limit)).toEqual(expected);
    const [first] = uploads as [UploadRow];
    const [pack] = packs as [PackRow];
    await store.transact(SPACE, async (tx) => {
      await tx.update('upload', first, { ...first, seenBytes: 70 });
      await tx.update('pack', (await tx.packs.findPack(pack.id)) ?? pack, { ...pack, bytes: 30 });
    });
    expect(await findAll(2)).toEqual(
      expected.filter((name) => name !== `${SPACE.spaceId} ${first.hash}` && !name.endsWith(pack.id)),
    );
    expect((await holdings()).pendingBytes).toBe(100);
    expect((await store.findUpload(SPACE, first.hash))?.seenBytes).toBe(70);
    await store.transact(SPACE, async (tx) => {
      const upload = (await tx.findUpload(first.hash)) ?? first;
      await tx.update('upload', upload, { ...upload, touchedAt: NOW + 5 });
    });
    expect((await store.findUpload(SPACE, first.hash))?.seenBytes).toBe(70);
    expect((await holdings()).pendingBytes).toBe(100);
  });

  test('a pack is pending while it is open, and with what it has reserved until it is judged', async () => {
    const { store } = subject;
    const row = openPack();
    await store.transact(SPACE, (tx) => tx.insert('pack', row));
    expect((await holdings()).pendingBytes).toBe(0);
    let before = row;
    for (const [step, pendingBytes] of [
      [{ bytes: 500 }, 500],
      [{ state: 'judging' as const, reserved: { bytes: 300, nodes: 2 } }, 300],
      [{ reserved: { bytes: 100, nodes: 1 } }, 100],
      [{ state: 'judged' as const, reserved: { bytes: 0, nodes: 0 } }, 0],
    ] as const) {
      const after = { ...before, ...step };
      await store.transact(SPACE, async (tx) => {
        const read = await tx.packs.findPack(row.id);
        await tx.update('pack', read ?? before, after);
        expect((await tx.lockHoldings()).pendingBytes).toBe(pendingBytes);
      });
      expect((await holdings()).pendingBytes).toBe(pendingBytes);
      before = after;
    }
    await store.transact(SPACE, (tx) =>
      tx.insert('pack', openPack({ generation: newGeneration(), bytes: 7, isDiscarded: true })),
    );
    expect((await holdings()).pendingBytes).toBe(0);
  });

  test('commits are counted over all domains of a Space, and a purge takes them and the Space from the list', async () => {
    const { store } = subject;
    for (const space of [SPACE, OTHER]) await insertNodes(store, space, [readyNode(hashAt(1))]);
    for (const revision of [1, 2, 3]) await commit(SPACE, 'a', revision);
    await commit(SPACE, 'b', 1);
    await commit(OTHER, 'a', 1);
    expect([(await holdings()).commitRows, (await holdings(OTHER)).commitRows]).toEqual([4, 1]);
    expect(await store.readAppTotals(SPACE.appId)).toMatchObject({ commitRows: 5 });
    const listed = async () => {
      const entries = await store.page('spaces', { after: undefined, limit: 10 });
      return Object.fromEntries(
        entries.map(({ space, isPurged, holdings: held }) => [space.spaceId, [isPurged, held?.commitRows]]),
      );
    };
    expect(await listed()).toEqual({ space: [false, 4], other: [false, 1] });
    await store.transact(SPACE, async (tx) => {
      const node = await tx.findNode(hashAt(1));
      if (node !== undefined) await tx.delete('node', node);
    });
    while ((await store.transact(SPACE, (tx) => tx.purging.takeBalances(10))).length > 0);
    while ((await store.transact(SPACE, (tx) => tx.purging.removeHistory(10))) > 0);
    await store.transact(SPACE, (tx) => tx.purging.finish());
    expect(await listed()).toEqual({ space: [true, 0], other: [false, 1] });
    await insertNodes(store, SPACE, [readyNode(hashAt(2))]);
    expect(await listed()).toEqual({ space: [false, 0], other: [false, 1] });
  });
}
