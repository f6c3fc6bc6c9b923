/** The check of a database with a damaged page, and of rows that have changed since they were counted. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { databasePath, nextTurn } from '../../../test/support/embedded-files.ts';
import { packed, plain } from '../../../test/support/planted-pack.ts';
import { changeRows } from '../../../test/support/reseal-rows.ts';
import { repairCounts } from '../core/collect/repair-counts.ts';
import { readContent } from '../core/read/read-content.ts';
import { isDamage } from '../core/store-failure.ts';
import { CALLER, CoreWorld, objectNode, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { PackClient } from '../core/test/pack-fixture.ts';
import { checkDeployment } from './check-deployment.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});

const check = (rehashPercent = 0) =>
  checkDeployment(world.core, {
    isRepaired: false,
    rehashPercent,
    signal: new AbortController().signal,
    report: () => undefined,
  });

/** Overwrites a page in the middle of a table or index, or the places of its first cells alone, and returns the former bytes. */
function damagePage(
  path: string,
  name: string,
  { isWhole = true } = {},
): { readonly lost: Buffer; readonly mend: () => void } {
  const database = new Database(path);
  database.run('PRAGMA wal_checkpoint(TRUNCATE)');
  const [{ page_size: size } = { page_size: 0 }] = database
    .query<{ page_size: number }, []>('PRAGMA page_size')
    .all();
  const leaves = database
    .query<{ pageno: number }, [string]>("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'")
    .all(name);
  database.close();
  const offset = ((leaves[Math.floor(leaves.length / 2)]?.pageno as number) - 1) * size;
  const lost = readFileSync(path).subarray(offset, offset + size);
  const write = (bytes: Uint8Array): void => {
    const file = openSync(path, 'r+');
    writeSync(file, bytes, 0, size, offset);
    closeSync(file);
  };
  const damaged = Buffer.from(lost).fill(0xff, isWhole ? 0 : 8, isWhole ? size : 64);
  write(damaged);
  return { lost, mend: () => write(lost) };
}

test('check names every node that lies on a damaged page of rows, and no other', async () => {
  const nodes = Array.from({ length: 200 }, (_, seed) => smallNode(seed));
  await world.publish(...nodes);
  await nextTurn();
  const path = databasePath(world.dataDir);
  const { lost, mend } = damagePage(path, 'nodes');
  await world.restart();
  const onPage = nodes.map(({ hash }) => hash).filter((hash) => lost.includes(Buffer.from(hash, 'hex')));
  expect(onPage.length).toBeGreaterThan(2);
  const unreadable: string[] = [];
  for (const node of nodes) {
    await world.row(node).catch((error) => {
      expect(isDamage(error)).toBe(true);
      unreadable.push(node.hash);
    });
  }
  expect(unreadable).toEqual(expect.arrayContaining(onPage));
  const { findings, ok } = await check();
  const named = findings.flatMap(({ hash }) => (hash === null ? [] : [hash]));
  expect(ok).toBe(false);
  expect(named).toEqual(unreadable.toSorted());
  expect(new Set(findings.map(({ kind }) => kind))).toEqual(new Set(['unreadable']));
  // A finding without a node names the Space, or what is damaged in the database.
  expect(findings.filter(({ hash }) => hash === null)).toMatchObject([
    { space: SPACE.spaceId },
    { space: '', message: expect.stringContaining('holdfast.db: the table nodes is damaged') },
  ]);
  await nextTurn();
  mend();
  await world.restart();
  expect(await check()).toMatchObject({ ok: true, findings: [] });
});

test.each(['nodes_by_lease', 'domains', 'balance_history'])(
  'check names %s where a page of it is damaged whether or not a row needs it',
  async (name) => {
    await world.publish(...Array.from({ length: 200 }, (_, seed) => smallNode(seed)));
    await nextTurn();
    const { mend } = damagePage(databasePath(world.dataDir), name);
    const { findings, ok } = await check();
    expect(ok).toBe(false);
    expect(findings.filter(({ app }) => app === '')).toEqual([
      {
        ...{ kind: 'unreadable', app: '', space: '', hash: null, repaired: false },
        message: expect.stringMatching(new RegExp(`^holdfast.db: the (table|index) ${name} is damaged: `)),
      },
    ]);
    await nextTurn();
    mend();
    await world.restart();
    expect(await check()).toMatchObject({ ok: true, findings: [] });
  },
);

test('the look at the pages holds up no writer, names the tables, and ends when it is told to', async () => {
  await world.publish(smallNode(1));
  const tables: string[] = [];
  const look = (signal: AbortSignal) =>
    world.core.metadata.findPageDamage?.({
      ...{ signal, isRepaired: false },
      onTable: (table) => tables.push(table),
    });
  let isOver = false;
  const looking = look(new AbortController().signal)?.finally(() => {
    isOver = true;
  });
  for (let seed = 2; !isOver; seed += 1) await world.publish(smallNode(seed));
  expect(await looking).toEqual([]);
  expect(tables).toContain('nodes of holdfast.db');
  const aborting = new AbortController();
  const aborted = look(aborting.signal);
  aborting.abort();
  expect(await aborted).toEqual([]);
  expect(await look(aborting.signal)).toEqual([]);
});

test('a row that contradicts the bytes of its node is named once they are read, wherever they are', async () => {
  const [inline, large] = [smallNode(1), objectNode(1)];
  const [first, second] = [smallNode(2), smallNode(3)];
  await world.publish(inline, large);
  await new PackClient(world, false).send([first, second], [plain(first), packed(second)]);
  const rehash = () => check(100);
  expect(await rehash()).toMatchObject({ ok: true, checked: 4, findings: [] });
  const plant = (sql: string): void => {
    const database = new Database(databasePath(world.dataDir));
    changeRows(database, sql);
    database.close();
  };
  for (const { hash, contentType } of [inline, large, second]) {
    plant(`UPDATE nodes SET content_type = 'text/wrong' WHERE hash = x'${hash}'`);
    await world.restart();
    const { findings } = await rehash();
    expect(findings).toMatchObject([{ kind: 'row', hash, repaired: false }]);
    expect(findings[0]?.message).toMatch(/its content type is .*, not text\/wrong; check with --repair/);
    expect(await check(0)).toMatchObject({ ok: true });
    plant(`UPDATE nodes SET content_type = '${contentType}' WHERE hash = x'${hash}'`);
  }
  plant(`UPDATE nodes SET refs = zeroblob(32) WHERE hash = x'${large.hash}'`);
  await world.restart();
  const found = (await rehash()).findings.filter(({ kind }) => kind === 'row');
  expect(found).toMatchObject([
    { hash: large.hash, message: expect.stringContaining('its refs are others') },
  ]);
  // The fixture recounts when it closes.
  plant(`UPDATE nodes SET refs = x'' WHERE hash = x'${large.hash}'`);
});

test('bytes that fit in one piece are read once', async () => {
  const large = objectNode(1);
  const [first, second] = [smallNode(2), smallNode(3)];
  await world.publish(large);
  await new PackClient(world, false).send([first, second], [plain(first), packed(second)]);
  const asked: string[] = [];
  const content = new Proxy(world.core.content, {
    get: (store, name) => {
      const value = Reflect.get(store, name);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        asked.push(String(name));
        return value.apply(store, given);
      };
    },
  });
  const signal = new AbortController().signal;
  const run = { isRepaired: false, rehashPercent: 100, signal, report: () => undefined };
  expect(await checkDeployment({ ...world.core, content }, run)).toMatchObject({ ok: true, checked: 3 });
  expect(asked).toEqual(['read', 'read', 'read']);
});

test('a repair leaves alone rows that changed since they were counted, and rows that are gone', async () => {
  const child = smallNode(1);
  const missing = smallNode(2);
  await world.publish(child);
  await world.upload(smallNode(3, [child.hash, missing.hash]));
  const before = await world.row(child);
  if (before === undefined) throw new Error('the child was published');
  const { childRefCount, rootRefCount, heldDomainCount } = before;
  const kept = { childRefCount, rootRefCount, heldDomainCount };
  const counted = { ...kept, childRefCount: childRefCount + 5 };
  const repair = (change: Partial<typeof kept>, loose: number) =>
    world.core.metadata.transact(SPACE, repairCounts, {
      nodes: [
        { hash: child.hash, kept: { ...kept, ...change }, counted },
        { hash: smallNode(9).hash, kept, counted },
      ],
      looseEdges: [{ hash: missing.hash, kept: loose, counted: 7 }],
      counters: undefined,
    });
  // Each count is checked by itself.
  await repair({ childRefCount: childRefCount + 1 }, 2);
  await repair({ rootRefCount: rootRefCount + 1 }, 2);
  await repair({ heldDomainCount: heldDomainCount + 1 }, 2);
  expect(await world.row(child)).toEqual(before);
  expect(await check()).toMatchObject({ ok: true, findings: [] });
  // The recount's own values: now both are changed.
  await repair({}, 1);
  expect(await world.row(child)).toEqual({ ...before, childRefCount: childRefCount + 5 });
  expect((await check()).findings).toHaveLength(2);
  await world.core.metadata.transact(SPACE, repairCounts, {
    nodes: [{ hash: child.hash, kept: counted, counted: kept }],
    looseEdges: [{ hash: missing.hash, kept: 7, counted: 1 }],
    counters: undefined,
  });
});

afterEach(() => world.close());

test('an index that cannot be read takes no content away: it answers 503, and a repair brings it back', async () => {
  const nodes = Array.from({ length: 200 }, (_, seed) => smallNode(seed));
  await world.publish(...nodes);
  await nextTurn();
  damagePage(databasePath(world.dataDir), 'sqlite_autoindex_contents_1', { isWhole: false });
  await world.restart();
  const read = async ({ hash }: (typeof nodes)[number]): Promise<unknown> =>
    (await readContent(world.core, SPACE, hash, undefined, CALLER)).status;
  let failed = 0;
  for (const node of nodes) {
    const error = await read(node).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error === undefined) continue;
    failed += 1;
    expect(error).toMatchObject({
      message: expect.stringMatching(/index of the database is damaged.*check --repair/),
    });
    expect((await world.row(node))?.state).toBe('ready');
  }
  expect(failed).toBeGreaterThan(0);
  await checkDeployment(world.core, {
    ...{ isRepaired: true, rehashPercent: 0, signal: new AbortController().signal, report: () => undefined },
  });
  await world.restart();
  for (const node of nodes) expect(await read(node)).toBe(200);
});
