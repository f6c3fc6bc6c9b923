/** Damaged pages of the database: requests for what they hold fail with the reason, and all others are served. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { encodeNode, type Hash } from '@holdfast/protocol';
import { claimCandidates } from '../../core/collect/collection.ts';
import { planGc } from '../../core/collect/plan-gc.ts';
import { purgeSpace } from '../../core/collect/purge-space.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import { scrub } from '../../core/collect/scrub.ts';
import type { Core } from '../../core/core.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import { finishUpload } from '../../core/lease/receive-node.ts';
import { NO_QUOTAS } from '../../core/quotas.ts';
import { readContent } from '../../core/read/read-content.ts';
import { RottenNodes } from '../../core/rotten-nodes.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { StrayWatch } from '../../core/stray-watch.ts';
import type { SpaceEntry } from '../../core/tenancy-ports.ts';
import { CALLER } from '../../core/test/core-fixture.ts';
import type { ScrubPosition } from '../../core/upkeep-ports.ts';
import { digestOf, hashAt, NOW, readyNode, SPACE } from '../../engine/test/samples.ts';
import {
  openTemporaryEngine,
  putInline,
  receiverOf,
  type TemporaryEngine,
} from './embedded-engine-fixture.ts';

const PAGE_BYTES = 4096;
/** The first byte of a page of rows: of tables with row ids, and of tables without. */
const TABLE_LEAF = 0x0d;
const LEAVES = [TABLE_LEAF, 0x0a];
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
      await tx.insert('node', readyNode(hashAt(index), { contentType, leaseExpiresAt: NOW }));
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
function damagePageOf(text: string, leaves = LEAVES): void {
  const file = readFileSync(engine.databasePath);
  const pages = new Set<number>();
  for (let at = file.indexOf(text); at >= 0; at = file.indexOf(text, at + 1)) {
    const page = at - (at % PAGE_BYTES);
    // A former page of rows may be a page of keys now, with the text in a gap.
    if (leaves.includes(file[page] as number)) pages.add(page);
  }
  expect(pages.size).toBe(1);
  damagedPages = [...pages].map((at) => ({ at, bytes: file.subarray(at, at + PAGE_BYTES) }));
  for (const page of pages) writePage(page, new Uint8Array(PAGE_BYTES));
}

/** as they were before, by `damagePageOf` */
let damagedPages: readonly { readonly at: number; readonly bytes: Uint8Array }[] = [];

function writePage(at: number, bytes: Uint8Array): void {
  const descriptor = openSync(engine.databasePath, 'r+');
  writeSync(descriptor, bytes, 0, PAGE_BYTES, at);
  closeSync(descriptor);
}

const renew = (index: number): Promise<void> =>
  engine.metadata.transact(SPACE, async (tx) => {
    const row = await tx.findNode(hashAt(index));
    if (row === undefined) throw new Error(`${index} is not there`);
    await tx.update('node', row, { ...row, leaseExpiresAt: row.leaseExpiresAt + 1 });
  });

const errorOf = (work: () => unknown): Promise<unknown> =>
  (async () => work())().then(
    () => undefined,
    (error) => error,
  );

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('content on a damaged page fails, and other content is read in the same turn and later', async () => {
  const [damaged, ...others] = contents.map(({ hash }) => hash) as [Hash, ...Hash[]];
  const read = (hash: Hash) => engine.metadata.findNodeWithContent(SPACE, hash);
  // From now on the place of each node is cached, and only its bytes come from the disk.
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
    // One page holds the bytes of very few nodes.
    expect(found).toBeGreaterThan(4);
    await nextTurn();
  }
});

test('a node on a damaged page cannot be leased, but nodes that share its commit are', async () => {
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

test('the scrub reports a damaged page and continues behind it', async () => {
  damagePageOf(`number=${DAMAGED}.`);
  await engine.reopen();
  const found = new Set<Hash>();
  let failures = 0;
  let position: ScrubPosition | undefined;
  for (let steps = 0; steps < 200; steps += 1) {
    try {
      const { items, next } = await engine.metadata.page('nodesToScrub', { after: position, limit: 8 });
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

/** The rules over this engine, with the names of the nodes they report. */
let made = 0;
function makeCore(reports: string[]): Core {
  return {
    metadata: engine.metadata,
    content: engine.content,
    random: {
      bytes: (count: number) => {
        made += 1;
        return new Uint8Array(count).fill(made);
      },
    },
    rottenNodes: new RottenNodes(({ kind, hash }) => reports.push(`${kind} ${hash}`)),
    strays: new StrayWatch(),
    quotas: NO_QUOTAS,
    settings: { nodeBytesMax: 1_000_000, activeUploadsMax: 100, uploadTtlMs: 60_000 },
    signer: { sign: () => new Uint8Array(32), verify: () => true },
  } as unknown as Core;
}

/** A lease that asks for the bytes, their upload, and the lease that judges them. */
async function put(core: Core, { hash, node }: { hash: Hash; node: Uint8Array }): Promise<void> {
  const asked = await leaseNode(core, SPACE, hash, 60_000, () => '');
  expect(asked.state).toBe('awaiting_upload');
  const generation = (await engine.metadata.findUpload(SPACE, hash))?.generation ?? '';
  const staged = await receiverOf(engine.content).receive(
    { space: SPACE, generation, hash },
    node,
    node.length,
    core.settings,
  );
  const { evidence, inlineBytes } = staged;
  const finished = { hash, generation, evidence, inlineBytes, isSealed: false };
  expect(await engine.metadata.transact(SPACE, finishUpload, finished)).toBe(true);
  await staged.release();
  expect((await leaseNode(core, SPACE, hash, 60_000, () => '')).state).toBe('ready');
}

/** Publishes nodes and damages the page with the bytes of the middle one, which is returned. */
async function damageOne(reports: string[], before: () => Promise<unknown> = async () => undefined) {
  const nodes = ['before', 'damaged', 'behind'].map((name) => {
    const content = new TextEncoder().encode(`bytes ${name}.`.padEnd(3000, '-'));
    const node = encodeNode({ contentType: 'text/plain', refs: [], content });
    return { hash: digestOf(node), node };
  });
  for (const each of nodes) await put(makeCore(reports), each);
  await before();
  await engine.reopen();
  damagePageOf('bytes damaged.');
  await engine.reopen();
  const [, damaged] = nodes;
  if (damaged === undefined) throw new Error('no node');
  return { core: makeCore(reports), damaged };
}

test.each(['a read', 'the scrub'])(
  'bytes on a damaged page that %s meets are asked for again, and heal',
  async (who) => {
    const reports: string[] = [];
    const { core, damaged } = await damageOne(reports);
    expect((await leaseNode(core, SPACE, damaged.hash, 60_000, () => '')).state).toBe('ready');
    if (who === 'a read') {
      for (let reads = 0; reads < 2; reads += 1) {
        const refused = await errorOf(() => readContent(core, SPACE, damaged.hash, undefined, CALLER));
        expect(refused).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
        expect((refused as Error).message).toContain('upload its bytes again');
      }
    } else {
      let next: ScrubPosition | undefined;
      do next = (await scrub(core, next)).next;
      while (next !== undefined);
    }
    expect(reports).toContain(`rotten ${damaged.hash}`);
    await put(core, damaged);
    expect(reports).toContain(`healed ${damaged.hash}`);
    await engine.reopen();
    expect((await readContent(makeCore([]), SPACE, damaged.hash, undefined, CALLER)).size).toBe(3000);
  },
);

test('rot marks the row alone, and bytes that are good after all are served again', async () => {
  const reports: string[] = [];
  const { core, damaged } = await damageOne(reports);
  const find = async () => (await engine.metadata.findNode(SPACE, damaged.hash))!;
  const { generation } = await find();
  await errorOf(() => readContent(core, SPACE, damaged.hash, undefined, CALLER));
  expect(await find()).toMatchObject({ state: 'rotten', generation });
  const [page] = damagedPages;
  await engine.reopen();
  writePage(page!.at, page!.bytes);
  await engine.reopen();
  let next: ScrubPosition | undefined;
  do next = (await scrub(makeCore(reports), next)).next;
  while (next !== undefined);
  expect(reports).toContain(`sound ${damaged.hash}`);
  expect(await find()).toMatchObject({ state: 'ready', generation });
  expect((await readContent(makeCore([]), SPACE, damaged.hash, undefined, CALLER)).size).toBe(3000);
});

test('a rotten node whose bytes are on a damaged page is collected', async () => {
  const { core, damaged } = await damageOne([]);
  await errorOf(() => readContent(core, SPACE, damaged.hash, undefined, CALLER));
  engine.clock.set(NOW + 60_001);
  await errorOf(() => runGc(core, SPACE, 1000));
  expect(await engine.metadata.findNode(SPACE, damaged.hash)).toBeUndefined();
});

test('a pass collects nodes whose bytes are on a damaged page too, and claims what it cannot collect', async () => {
  damagePageOf('content 0.');
  await engine.reopen();
  engine.clock.set(NOW + 1);
  for (let passes = 0; passes < 2; passes += 1) {
    expect(await errorOf(() => runGc(makeCore([]), SPACE, 1000))).toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
    });
    expect(await engine.metadata.findNode(SPACE, contents[0]!.hash)).toBeUndefined();
    const { nodeCount, notReadyNodeCount } = await engine.metadata.readCounters(SPACE);
    expect([nodeCount, notReadyNodeCount]).toEqual([notReadyNodeCount, nodeCount]);
    // Of the pages beside it SQLite may not take rows, and each holds the bytes of very few nodes.
    expect(nodeCount).toBeWithin(1, 5);
  }
});

test('a node that was claimed before its bytes were damaged is collected, and can be published again', async () => {
  const wanted = { limit: 1000, uploads: 'server', isDamaged: true, from: 0 } as const;
  const { core, damaged } = await damageOne([], () => {
    engine.clock.set(NOW + 60_001);
    return engine.metadata.transact(SPACE, claimCandidates, wanted);
  });
  const find = () => engine.metadata.findNode(SPACE, damaged.hash);
  expect((await find())?.state).toBe('claimed');
  await errorOf(() => runGc(core, SPACE, 1000));
  expect(await find()).toBeUndefined();
  await put(core, damaged);
  await engine.reopen();
  expect((await readContent(makeCore([]), SPACE, damaged.hash, undefined, CALLER)).size).toBe(3000);
});

test('Spaces whose counts are on a damaged page are listed all the same', async () => {
  const others = Array.from({ length: 200 }, (_, index) => ({ ...SPACE, spaceId: `other space ${index}` }));
  for (const other of others) {
    await engine.metadata.transact(other, (tx) => tx.insert('node', readyNode(hashAt(1))));
  }
  await engine.reopen();
  damagePageOf('other space 177', [TABLE_LEAF]);
  const list = (after?: string) => engine.metadata.page('spaces', { after, limit: 30 });
  const found: SpaceEntry[] = [];
  do found.push(...(await list(found.at(-1)?.position)));
  while (found.length % 30 === 0);
  expect(found.map(({ space }) => space.spaceId)).toEqual([SPACE, ...others].map(({ spaceId }) => spaceId));
  const unread = found.filter(({ counters }) => counters === undefined);
  expect(unread.length).toBeWithin(1, 150);
  for (const { damage } of unread)
    expect((damage as Error).message).toContain('a page of the database is damaged');
  for (const { counters } of found) expect(counters?.nodeCount ?? 1).toBeGreaterThan(0);
  const ofApp = await engine.metadata.page('spaces', { appId: 'nobody', after: undefined, limit: 30 });
  expect(ofApp).toEqual([]);
});

test('a pass collects around a damaged page of node rows, and says 503 each time', async () => {
  damagePageOf(`number=${DAMAGED}.`);
  await engine.reopen();
  engine.clock.set(NOW + 1);
  for (let passes = 0; passes < 2; passes += 1) {
    const refused = await errorOf(() => runGc(makeCore([]), SPACE, 1000));
    expect(refused).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect((refused as Error).message).toContain('rows of this Space cannot be read');
  }
  let left = 0;
  for (let index = 0; index < NODES; index += 1) {
    const found = await errorOf(async () => {
      const row = await engine.metadata.findNode(SPACE, hashAt(index));
      if (row !== undefined) throw new Error(row.state);
    });
    if (found !== undefined) left += 1;
  }
  // One page holds few rows, and SQLite may not take rows from the pages beside it.
  expect(left).toBeWithin(1, NODES / 2);
  expect(await engine.metadata.findNode(SPACE, contents[0]!.hash)).toBeUndefined();
});

test('a plan, and then a purge, go around a damaged page of node rows and name it', async () => {
  damagePageOf(`number=${DAMAGED}.`);
  await engine.reopen();
  engine.clock.set(NOW + 1);
  const core = makeCore([]);
  const { nodes, damage } = await planGc(core, SPACE, 1000);
  expect((damage as Error).message).toContain('a page of the database is damaged');
  expect(nodes.length).toBeGreaterThan(NODES / 2);

  const refused = await errorOf(() => purgeSpace(core, SPACE, async () => true));
  expect(refused).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  const [, removed, left] =
    /(\d+) nodes were removed, and (\d+) are left/.exec((refused as Error).message) ?? [];
  expect(Number(removed) + Number(left)).toBe(NODES + contents.length);
  expect(Number(removed)).toBeGreaterThan(NODES / 2);
  expect((await engine.metadata.readCounters(SPACE)).nodeCount).toBe(Number(left));
});
