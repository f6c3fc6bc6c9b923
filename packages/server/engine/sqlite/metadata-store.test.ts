import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testMetadataStore } from '../test/metadata-store-suite.ts';
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
