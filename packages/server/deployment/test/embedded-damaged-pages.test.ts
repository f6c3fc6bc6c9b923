/** Pages of the database that SQLite finds damaged: who asks for what they hold is told so, everybody else is served. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { encodeNode, type Hash } from '@holdfast/protocol';
import type { Core } from '../../core/core.ts';
import { type ScrubPosition, StoreUnavailable } from '../../core/ports.ts';
import { runGc } from '../../core/run-gc.ts';
import { digestOf, hashAt, NOW, readyNode, SPACE } from '../../engine/contract/samples.ts';
import { openTemporaryEngine, putInline, type TemporaryEngine } from './embedded-engine-fixture.ts';

const PAGE_BYTES = 4096;
/** How pages of rows begin: of tables with row ids, and of those without. */
const LEAVES = [0x0d, 0x0a];
const NODES = 200;
const DAMAGED = 100;

let engine: TemporaryEngine;
const contents = Array.from({ length: 8 }, (_, index) => {
  const content = new TextEncoder().encode(`content ${index}.`.padEnd(3000, '-'));
  const node = encodeNode({ contentType: 'text/plain', refs: [], content });
  return { hash: digestOf(node), node };
});

beforeEach(async () => {
  engine = await openTemporaryEngine();
  await engine.metadata.transact(SPACE, async (tx) => {
    for (let index = 0; index < NODES; index += 1) {
      const contentType = `text/plain; number=${index}.`;
      await tx.insertNode(readyNode(hashAt(index), { contentType, leaseExpiresAt: NOW }));
    }
  });
  for (const { hash, node } of contents) await putInline(engine.metadata, engine.content, hash, node);
  await engine.reopen();
});
afterEach(async () => {
  await engine.destroy();
  expect(engine.fatal).toEqual([]);
});

/** Zeroes the page of rows that holds `text`, under the open engine, which was opened anew before. */
function damagePageOf(text: string): void {
  const file = readFileSync(engine.databasePath);
  const pages = new Set<number>();
  for (let at = file.indexOf(text); at >= 0; at = file.indexOf(text, at + 1)) {
    const page = at - (at % PAGE_BYTES);
    // What was a page of rows may be one of keys now, with the text in a gap.
    if (LEAVES.includes(file[page] as number)) pages.add(page);
  }
  expect(pages.size).toBe(1);
  const descriptor = openSync(engine.databasePath, 'r+');
  for (const page of pages) writeSync(descriptor, new Uint8Array(PAGE_BYTES), 0, PAGE_BYTES, page);
  closeSync(descriptor);
}

const renew = (index: number): Promise<void> =>
  engine.metadata.transact(SPACE, async (tx) => {
    const row = await tx.findNode(hashAt(index));
    if (row === undefined) throw new Error(`${index} is not there`);
    await tx.updateNode(row, { ...row, leaseExpiresAt: row.leaseExpiresAt + 1 });
  });

const errorOf = (work: () => unknown): Promise<unknown> =>
  (async () => work())().then(
    () => undefined,
    (error) => error,
  );

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('content on a damaged page fails, other content is read on, in that turn and later', async () => {
  const [damaged, ...others] = contents.map(({ hash }) => hash) as [Hash, ...Hash[]];
  const read = (hash: Hash) => engine.metadata.findNodeWithContent(SPACE, hash);
  // From now on it is known where each is, and only its bytes come from the disk.
  for (const { hash } of contents) await read(hash);
  await nextTurn();
  damagePageOf('content 0.');
  for (let turn = 0; turn < 3; turn += 1) {
    expect(await errorOf(() => read(damaged))).toBeInstanceOf(StoreUnavailable);
    let found = 0;
    for (const hash of others) {
      const error = await errorOf(async () => {
        const content = (await read(hash))?.content;
        if (content === undefined) throw new Error('no content');
        engine.content.verifyInline(content);
        found += 1;
      });
      if (error !== undefined) expect(error).toBeInstanceOf(StoreUnavailable);
    }
    // One page holds the bytes of very few.
    expect(found).toBeGreaterThan(4);
    await nextTurn();
  }
});

test('a node on a damaged page cannot be leased, and those that share its commit are', async () => {
  damagePageOf(`number=${DAMAGED}.`);
  await engine.reopen();
  const [before, damaged, after] = await Promise.all([
    errorOf(() => renew(0)),
    errorOf(() => renew(DAMAGED)),
    errorOf(() => renew(NODES - 1)),
  ]);
  expect(damaged).toBeInstanceOf(StoreUnavailable);
  expect((damaged as Error).message).toContain('damaged');
  expect([before, after]).toEqual([undefined, undefined]);
  for (const index of [0, NODES - 1]) {
    expect((await engine.metadata.findNode(SPACE, hashAt(index)))?.leaseExpiresAt).toBe(NOW + 1);
  }
  expect(await errorOf(() => engine.metadata.findNode(SPACE, hashAt(DAMAGED)))).toBeInstanceOf(
    StoreUnavailable,
  );
});

test('the scrub says that it met a damaged page, and goes on behind it', async () => {
  damagePageOf(`number=${DAMAGED}.`);
  await engine.reopen();
  const found = new Set<Hash>();
  let failures = 0;
  let position: ScrubPosition | undefined;
  for (let steps = 0; steps < 200; steps += 1) {
    try {
      const { items, next } = await engine.metadata.findNodesToScrub(position, 8);
      for (const { node } of items) found.add(node.hash);
      position = next;
      if (next === undefined) break;
    } catch (error) {
      expect(error).toBeInstanceOf(StoreUnavailable);
      failures += 1;
    }
  }
  expect(position).toBeUndefined();
  expect(failures).toBeGreaterThan(0);
  expect(found.has(hashAt(DAMAGED))).toBe(false);
  for (const index of [0, 1]) expect(found.has(hashAt(index))).toBe(true);
  for (const { hash } of contents) expect(found.has(hash)).toBe(true);
});

test('a pass collects what is not on a damaged page, says 503 each time, and claims what it cannot collect', async () => {
  damagePageOf('content 0.');
  await engine.reopen();
  engine.clock.set(NOW + 1);
  const core = { metadata: engine.metadata, content: engine.content } as Core;
  const candidates = NODES + contents.length;
  for (let passes = 0; passes < 2; passes += 1) {
    expect(await errorOf(() => runGc(core, SPACE, 1000))).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    const { nodeCount, notReadyNodeCount } = await engine.metadata.readCounters(SPACE);
    expect([nodeCount, notReadyNodeCount]).toEqual([notReadyNodeCount, nodeCount]);
    // One page holds the bytes of very few.
    expect(nodeCount).toBeWithin(1, candidates - NODES - 3);
    const damaged = await engine.metadata.findNode(SPACE, contents[0]!.hash);
    expect(damaged?.state).toBe('claimed');
  }
});
