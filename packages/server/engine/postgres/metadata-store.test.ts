import { afterAll, beforeAll, expect } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { testMetadataStore } from '../test/metadata-store-suite.ts';
import { openDatabases, openInstance } from './test/postgres-fixture.ts';

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
});
afterAll(() => databases.close());

testMetadataStore('PostgreSQL', {
  async open(clock) {
    const url = await databases.createDatabase();
    let current = await openInstance(url, { clock });
    const close = async () => {
      expect(current.fatal).toEqual([]);
      await current.close();
    };
    return {
      store: current.store,
      async reopen() {
        await close();
        current = await openInstance(url, { clock });
        return current.store;
      },
      destroy: close,
    };
  },
});
