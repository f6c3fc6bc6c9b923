/** How often each operation waits for PostgreSQL, counted: what it costs where the database is a network away. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import type { Core } from '../../core/core.ts';
import { getUsage } from '../../core/read/get-usage.ts';
import { readMetadata } from '../../core/read/read-metadata.ts';
import { listRootRefs } from '../../core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import type { DirectStore } from '../../core/test/direct-store.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../test/samples.ts';
import {
  bring,
  coreOf,
  leaseFor,
  makeContent,
  openDatabases,
  openInstance,
  publish,
  type StoreInstance,
} from './test/postgres-fixture.ts';

const START_MS_MAX = 300_000;
const DOMAIN = 'photos';

let databases: TestDatabases;
let url: string;
let instance: StoreInstance;
let content: DirectStore;
let core: Core;
let made = 0;

beforeAll(async () => {
  databases = await openDatabases();
  // One connection, so that every statement is known to it once it was used.
  url = await databases.createDatabase();
  instance = await openInstance(url, { connectionsMax: 1 });
  content = makeContent();
  core = coreOf(instance, content);
}, START_MS_MAX);
afterAll(async () => {
  await instance.close();
  await databases.close();
});

function newNode(refs: readonly string[] = []): CanonicalNode {
  made += 1;
  return makeNode(`node ${made}`, { refs });
}

async function readyNodes(count: number): Promise<CanonicalNode[]> {
  const nodes = Array.from({ length: count }, () => newNode());
  for (const node of nodes) expect((await publish(core, content, node)).state).toBe('ready');
  return nodes;
}

async function tripsOf(work: () => unknown): Promise<number> {
  const before = instance.pool.counter.roundTrips;
  await work();
  return instance.pool.counter.roundTrips - before;
}

/** The third run: the first use of a statement on a connection costs a trip more, and the second may take other ones. */
async function expectTrips(expected: number, prepare: () => Promise<() => unknown>): Promise<void> {
  await (await prepare())();
  await (await prepare())();
  const work = await prepare();
  expect(await tripsOf(work)).toBe(expected);
}

const commit = (hashes: readonly string[], requestId: string) =>
  updateRootRefs(core, SPACE, DOMAIN, { requestId, changes: hashes.map((hash) => ({ hash, delta: 1 })) });

test('a lease of a ready node is 1', async () => {
  const [node] = await readyNodes(1);
  await expectTrips(1, async () => () => leaseFor(core, node!));
});

test('concurrent leases of ready nodes in one Space are 1 together', async () => {
  const nodes = await readyNodes(5);
  await expectTrips(1, async () => () => Promise.all(nodes.map((node) => leaseFor(core, node))));
});

test('reads are 1 each: metadata, usage, a page of root refs', async () => {
  const [node] = await readyNodes(1);
  await expectTrips(1, async () => () => readMetadata(core, SPACE, node!.hash));
  await expectTrips(1, async () => () => getUsage(core, SPACE));
  await expectTrips(1, async () => () => listRootRefs(core, SPACE, DOMAIN, { limit: 50 }));
});

test('no statement is sent only to look at the session: a read and a renewal are 1 each, a commit is 11', async () => {
  const [node] = await readyNodes(1);
  const [query, parameters] = [
    'SELECT sum(generic_plans + custom_plans)::bigint AS runs FROM pg_prepared_statements',
    [],
  ];
  const runs = async () => (await instance.pool.run('counting', query, parameters)).rows[0]?.runs as number;
  const statementsOf = async (work: () => unknown) => {
    for (let turn = 0; turn < 3; turn += 1) await work();
    const [first, second] = [await runs(), await runs()];
    await work();
    return (await runs()) - second - (second - first);
  };
  let requests = 0;
  expect(await statementsOf(() => readMetadata(core, SPACE, node!.hash))).toBe(1);
  expect(await statementsOf(() => leaseFor(core, node!))).toBe(1);
  expect(await statementsOf(() => commit([node!.hash], `counted ${requests++}`))).toBe(11);
});

test('a lease that opens an upload is 3, of which 1 learns that there is no ready row', async () => {
  await expectTrips(3, async () => () => leaseFor(core, newNode()));
});

test('a lease that publishes is 4: 1 to look at the upload, 3 to publish', async () => {
  await expectTrips(4, async () => {
    const node = newNode();
    await bring(core, content, node);
    return () => leaseFor(core, node);
  });
});

test('where another process opened the upload it is 6, and that process then renews by 3 once', async () => {
  const other = await openInstance(url, { connectionsMax: 1 });
  try {
    const otherCore = coreOf(other, content);
    let node = newNode();
    await expectTrips(6, async () => {
      node = newNode();
      await bring(otherCore, content, node);
      return () => leaseFor(core, node);
    });
    const tripsOfOther = async () => {
      const before = other.pool.counter.roundTrips;
      expect((await leaseFor(otherCore, node)).state).toBe('ready');
      return other.pool.counter.roundTrips - before;
    };
    await tripsOfOther();
    node = newNode();
    await bring(otherCore, content, node);
    await leaseFor(core, node);
    expect([await tripsOfOther(), await tripsOfOther()]).toEqual([3, 1]);
  } finally {
    await other.close();
  }
});

test('an upload that was swept meanwhile costs no more than a new one', async () => {
  await expectTrips(3, async () => {
    const node = newNode();
    await leaseFor(core, node);
    await instance.pool.run('sweeping', 'DELETE FROM uploads', []);
    return () => leaseFor(core, node);
  });
});

test('a parent costs no more, however many children it has and whether they are there', async () => {
  const children = await readyNodes(3);
  await expectTrips(4, async () => {
    const absent = [newNode(), newNode()];
    const node = newNode([...children, ...absent].map(({ hash }) => hash));
    await bring(core, content, node);
    return () => leaseFor(core, node);
  });
});

test('a commit is 2, with one change or 1000', async () => {
  const rows = Array.from({ length: 1000 }, (_, index) => readyNode(hashAt(index)));
  await insertNodes(instance.store, SPACE, rows);
  let requests = 0;
  for (const hashes of [[hashAt(0)], rows.map(({ hash }) => hash)]) {
    await expectTrips(2, async () => () => commit(hashes, `request ${requests++}`));
  }
  // Nothing is written, so the last trip only ends the transaction.
  await expectTrips(2, async () => () => commit([hashAt(0)], 'request 0'));
});

test('a pass costs the same for one candidate as for a hundred', async () => {
  const collect = async (count: number) => {
    const space = { appId: 'gc', spaceId: `of ${count}` };
    const rows = Array.from({ length: count }, (_, index) => readyNode(hashAt(index), { storage: 'object' }));
    await insertNodes(instance.store, space, rows);
    return tripsOf(async () => {
      expect((await runGc(core, space, count)).deleted).toBe(count);
    });
  };
  await collect(2);
  const one = await collect(1);
  expect(await collect(99)).toBe(one);
  expect(one).toBeLessThanOrEqual(10);
});
