import { Database } from 'bun:sqlite';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testDeploymentRows } from '../test/deployment-suite.ts';
import { ManualClock } from '../test/samples.ts';
import { SqliteDeploymentRows } from './deployment-rows.ts';
import { SqliteMetadataStore } from './metadata-store.ts';
import { beginServing } from './store-identity.ts';

testDeploymentRows('embedded', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'holdfast-deployment-'));
  const path = join(dataDir, 'holdfast.db');
  const onFatal = (error: Error): void => {
    throw error;
  };
  const metadata = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  const rows = new SqliteDeploymentRows({ path, metadata, assertSound: () => undefined });
  return {
    ...{ rows, metadata },
    beginServing: () => beginServing(metadata, dataDir),
    async loseNames() {
      using database = new Database(path);
      for (const sql of [
        'UPDATE loose_edges SET space = space + 1024',
        'UPDATE balances SET domain = domain + 1024',
        "UPDATE spaces SET space_id = 'tpace'",
      ])
        database.run(sql);
    },
    async destroy() {
      rows.close();
      await metadata.close();
      await rm(dataDir, { recursive: true });
    },
  };
});
