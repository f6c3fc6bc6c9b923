/** A row of balances that one wrong bit put out of order hides no other: a page that the search for it would begin too late is damage. */
import { afterAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Hash } from '@holdfast/protocol';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { readBalancePage } from '../rows/balance-page.ts';
import { ManualClock, SPACE } from '../test/samples.ts';
import { assertBalancesThere, readBalanceStep } from './balance-page.ts';
import { openReader } from './database.ts';
import { SqliteMetadataStore } from './metadata-store.ts';
import { SpaceDirectory } from './space-directory.ts';
import { finalize, prepareReads, type ReadStatements } from './statements.ts';

const PAGE = 2;
const HIGHEST_BIT = 0x80;
/** 1010…, 2020…, to f0f0… */
const HASHES = Array.from({ length: 15 }, (_, index): Hash => `${(index + 1).toString(16)}0`.repeat(32));
const folder = makeTempFolder('balance-order', { fast: true });
const path = join(folder.path, 'holdfast.db');
const onFatal = (error: Error) => {
  throw error;
};
const origin = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
const changes = HASHES.map((hash) => ({ hash, before: 0, after: 1 }));
const commit = { requestId: '1', payloadDigest: new Uint8Array(32), revision: 1 };
await origin.transact(SPACE, (tx) => tx.insertRootRefCommit('d', commit, changes));
await origin.transact(SPACE, (tx) => tx.noteWalk('d'));
await origin.transact(SPACE, (tx) =>
  tx.insertRootRefCommit(
    'd',
    { ...commit, requestId: '2', revision: 2 },
    HASHES.map((hash) => ({ hash, before: 1, after: 2 })),
  ),
);
await origin.close();
const bytes = readFileSync(path);

afterAll(() => folder.remove());

const copy = join(folder.path, 'copy.db');

/** @throws what a page answers that is damaged */
async function walk(sql: ReadStatements, revision: number): Promise<Hash[]> {
  const reads = { sql, spaces: new SpaceDirectory() };
  const found: Hash[] = [];
  for (let after: Hash | undefined; ; after = found.at(-1)) {
    const page = await readBalancePage(
      {
        readStep: (step, rows) => readBalanceStep(reads, 1, 'd', step, rows),
        assertAllThere: () => assertBalancesThere(sql, 1, 'd'),
      },
      { revision, after, limit: PAGE },
    );
    found.push(...(page?.items ?? []).map(({ hash }) => hash));
    if ((page?.items.length ?? 0) < PAGE) return found;
  }
}

test.each([1, 2])('at revision %i', async (revision) => {
  let damagedCount = 0;
  for (const hash of HASHES) {
    // Every row that has the hash: each alone.
    for (const place of placesOf(bytes, Buffer.from(hash, 'hex'))) {
      const damaged = Buffer.from(bytes);
      damaged[place] = (bytes[place] as number) ^ HIGHEST_BIT;
      writeFileSync(copy, damaged);
      using reader = openReader(copy, 0);
      const sql = prepareReads(reader);
      try {
        const found = await walk(sql, revision).catch((error: unknown) => error);
        if (found instanceof StoreUnavailable) damagedCount += 1;
        else expect(found).toEqual(HASHES);
      } finally {
        finalize(sql);
      }
    }
  }
  expect(damagedCount).toBeGreaterThanOrEqual(HASHES.length);
});

function placesOf(file: Buffer, hash: Buffer): number[] {
  const places: number[] = [];
  for (let at = file.indexOf(hash); at >= 0; at = file.indexOf(hash, at + 1)) places.push(at);
  return places;
}
