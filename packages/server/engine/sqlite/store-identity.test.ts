import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EngineRefused } from '../refused.ts';
import { ManualClock } from '../test/samples.ts';
import { SqliteMetadataStore } from './metadata-store.ts';
import { openStoreIdentity } from './store-identity.ts';

let dataDir: string;
let metadata: SqliteMetadataStore;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'holdfast-identity-'));
  const onFatal = (error: Error): never => {
    throw error;
  };
  const path = join(dataDir, 'holdfast.db');
  metadata = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
});
afterEach(async () => {
  await metadata.close();
  await rm(dataDir, { recursive: true });
});

const open = (bytes: 'folder' | 's3') => openStoreIdentity(metadata, dataDir, bytes);

test('the id is made once, and so is the note that its marker was written', async () => {
  for (const bytes of ['folder', 's3'] as const) {
    const first = await open(bytes);
    expect([first.storeId, first.isMarked]).toEqual([expect.stringMatching(/^[a-z0-9-]{36}$/), false]);
    expect(await open(bytes)).toMatchObject({ storeId: first.storeId, isMarked: false });
    if (bytes === 'folder') continue;
    await first.noteMarked();
    await first.noteMarked();
    expect(await open(bytes)).toMatchObject({ storeId: first.storeId, isMarked: true });
  }
});

test('rows whose bytes are in one kind of store are not opened with the other', async () => {
  await (await open('folder')).noteMarked();
  const refused = await open('s3').catch((error) => error);
  expect(refused).toBeInstanceOf(EngineRefused);
  expect(refused.message).toMatch(/are in that folder: leave --content out/);
  await metadata.removeStoreValue('content-store-id');
  await (await open('s3')).noteMarked();
  await expect(open('folder')).rejects.toThrow(/are in another store: give its --content/);
});

test('an id that an earlier version kept for a folder also says that its marker was written', async () => {
  await metadata.insertStoreValue('content-store-id', 'old');
  expect(await open('folder')).toMatchObject({ storeId: 'old', isMarked: true });
  await metadata.removeStoreValue('content-store-id');
  await metadata.insertStoreValue('other-store-id', 'bucket');
  await metadata.insertStoreValue('other-store-marked', 'yes');
  expect(await open('s3')).toMatchObject({ storeId: 'bucket', isMarked: true });
});
