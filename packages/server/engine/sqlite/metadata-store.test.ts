import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { testMetadataStore } from '../test/metadata-store-suite.ts';
import { hashAt, ManualClock, newGeneration, readyNode, SPACE } from '../test/samples.ts';
import { SqliteMetadataStore } from './metadata-store.ts';

for (const isShared of [false, true]) {
  testMetadataStore(isShared ? 'embedded, several processes' : 'embedded, one process', {
    async open(clock) {
      const folder = await mkdtemp(join(tmpdir(), 'holdfast-rows-'));
      const onFatal = (error: Error) => {
        throw error;
      };
      const open = () =>
        new SqliteMetadataStore({ path: join(folder, 'holdfast.db'), clock, onFatal, isShared });
      let current = open();
      return {
        store: current,
        async reopen() {
          await current.close();
          current = open();
          return current;
        },
        async destroy() {
          await current.close();
          await rm(folder, { recursive: true });
        },
      };
    },
  });
}

test('a walk over all Spaces leaves out one whose row is damaged, and goes on', async () => {
  const folder = makeTempFolder('rows');
  const path = join(folder.path, 'holdfast.db');
  const onFatal = (error: Error): never => {
    throw error;
  };
  const store = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  try {
    const integrity = new Uint8Array(1);
    for (const [index, spaceId] of ['damaged', 'sound'].entries())
      await store.transact({ ...SPACE, spaceId }, async (tx) => {
        const row = readyNode(hashAt(index), { storage: 'object' });
        const { generation, canonicalSize } = row;
        await tx.insert('content', {
          generation,
          canonicalSize,
          integrity,
          inlineBytes: undefined,
          urlExpiresAt: 0,
        });
        await tx.insert('node', row);
      });
    using database = new Database(path);
    database.run("UPDATE spaces SET id = id + 8 WHERE space_id = 'damaged'");
    const scrub = store.page('nodesToScrub', { after: undefined, limit: 9 });
    expect(scrub).toMatchObject({ items: [{ node: { hash: hashAt(1) } }], next: undefined });
    const wanted = { after: undefined, before: newGeneration(), contentsMin: 1, limit: 9 };
    expect(store.page('spacesToPack', wanted)).toMatchObject([{ space: { spaceId: 'sound' } }]);
  } finally {
    await store.close();
    folder.remove();
  }
});
