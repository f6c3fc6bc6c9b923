/** However small the steps, together they are the page. */
import { afterAll, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Hash } from '@holdfast/protocol';
import { readBalancePage } from '../rows/balance-page.ts';
import { hashAt, ManualClock, SPACE } from '../test/samples.ts';
import { assertBalancesThere, readBalanceStep } from './balance-page.ts';
import { openReader } from './database.ts';
import { SqliteMetadataStore } from './metadata-store.ts';
import { SpaceDirectory } from './space-directory.ts';
import { finalize, prepareReads } from './statements.ts';

const HASHES = Array.from({ length: 9 }, (_, index) => hashAt(index));
const folder = await mkdtemp(join(tmpdir(), 'holdfast-page-'));
const path = join(folder, 'holdfast.db');
const onFatal = (error: Error) => {
  throw error;
};
const store = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
/** revision → balances, written with every hash coming, changing and going at some revision */
const revisions: ReadonlyMap<Hash, number>[] = [new Map()];
for (let revision = 1; revision <= 12; revision++) {
  const before = revisions[revision - 1] as ReadonlyMap<Hash, number>;
  const changes = HASHES.map((hash, index) => {
    const was = before.get(hash) ?? 0;
    const step = (revision * revision * 3 + index * revision + index * 5) % 7;
    return { hash, before: was, after: step === 0 ? 0 : step === 1 ? was + 1 : was };
  });
  await store.transact(SPACE, (tx) =>
    tx.insertRootRefCommit(
      'd',
      { requestId: `${revision}`, payloadDigest: new Uint8Array(32), revision },
      changes,
    ),
  );
  if (revision === 1) await store.transact(SPACE, (tx) => tx.noteWalk('d'));
  revisions.push(new Map(changes.filter(({ after }) => after !== 0).map(({ hash, after }) => [hash, after])));
}
const reader = openReader(path, 0);
const sql = prepareReads(reader);

afterAll(async () => {
  finalize(sql);
  reader.close();
  await store.close();
  await rm(folder, { recursive: true });
});

test.each([1, 2, 3, 5, 100])('steps of %i rows', async (rowsMax) => {
  const reads = { sql, spaces: new SpaceDirectory() };
  for (const [revision, expected] of [...revisions.entries()].slice(1)) {
    const page = await readBalancePage(
      {
        readStep: (step, rows) => readBalanceStep(reads, 1, 'd', step, rows),
        assertAllThere: () => assertBalancesThere(sql, 1, 'd'),
      },
      { revision, after: undefined, limit: 100 },
      rowsMax,
    );
    expect(page?.items.map(({ hash, balance }): [Hash, number] => [hash, balance])).toEqual([...expected]);
  }
});
