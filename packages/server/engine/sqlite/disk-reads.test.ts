/** Reads that share a transaction for one turn: they see every commit, and leave the log to be emptied. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { open, readFile, stat } from 'node:fs/promises';
import {
  openTemporaryEngine,
  putInline,
  type TemporaryEngine,
} from '../../deployment/test/embedded-engine-fixture.ts';
import { SPACE, sampleNode } from '../test/samples.ts';
import { letGoOfPages } from './database.ts';

let engine: TemporaryEngine;
const first = sampleNode(600, 1);
const second = sampleNode(20_000, 2);

beforeEach(async () => {
  engine = await openTemporaryEngine();
  for (const { hash, node } of [first, second]) {
    await putInline(engine.metadata, engine.content, hash, node);
  }
});
afterEach(() => engine.destroy());

const findContent = async (hash: string) => (await engine.metadata.findNodeWithContent(SPACE, hash))?.content;

test('a commit in the middle of a turn is seen by the next read of that turn', async () => {
  expect((await findContent(first.hash))?.inlineBytes).toEqual(first.node);
  let bytesInside: Uint8Array | undefined;
  await engine.metadata.transact(SPACE, async (tx) => {
    const row = await tx.findNode(first.hash);
    if (row === undefined) throw new Error('no row');
    tx.delete('content', row.generation);
    // Begins a transaction of reads that is still open when this one commits.
    bytesInside = (await findContent(second.hash))?.inlineBytes;
  });
  expect(bytesInside).toEqual(second.node);
  expect(await findContent(first.hash)).toBeUndefined();
  expect((await findContent(second.hash))?.inlineBytes).toEqual(second.node);
});

test('reads do not keep the write-ahead log from being emptied', async () => {
  const cutoffs = { now: 0, abandonedAt: 0, historyAt: 0 };
  const logBytes = async () => (await stat(`${engine.databasePath}-wal`)).size;
  // The log may just have been emptied in a pause. What one small node writes stays until the next look.
  const third = sampleNode(600, 3);
  await putInline(engine.metadata, engine.content, third.hash, third.node);
  for (let look = 0; look < 2; look += 1) {
    // Both are answered by one commit, and the read begins before the log is looked at.
    const reading = engine.metadata.transact(SPACE, () => 0).then(() => findContent(second.hash));
    await Promise.all([reading, engine.metadata.maintain(cutoffs)]);
  }
  expect(await logBytes()).toBe(0);
});

test('pages are released the first time as well as later', async () => {
  await engine.reopen();
  const database = new Database(engine.databasePath, { readonly: true });
  using find = database.prepare<{ inline_bytes: Uint8Array }, [number]>(
    'SELECT inline_bytes FROM contents WHERE canonical_size = ?1',
  );
  const read = () => find.get(first.node.length)?.inline_bytes;
  const at = (await readFile(engine.databasePath)).lastIndexOf(first.node);
  expect(at).toBeGreaterThan(0);
  const file = await open(engine.databasePath, 'r+');
  try {
    for (let round = 0; round < 4; round += 1) {
      const before = read();
      await file.write(new Uint8Array([(before?.[100] as number) ^ 1]), 0, 1, at + 100);
      expect(read()).toEqual(before);
      letGoOfPages(database);
      expect(read()?.[100]).toBe((before?.[100] as number) ^ 1);
    }
  } finally {
    await file.close();
  }
  find.finalize();
  database.close(true);
});
