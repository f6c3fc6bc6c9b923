/**
 * Where every awaited read is a round trip, an operation makes few, and no more for many rows than for few. Verbs that are
 * asked before any is awaited count as one: an engine sends them together.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { runGc } from '../collect/run-gc.ts';
import { sweep } from '../collect/sweep.ts';
import type { Core } from '../core.ts';
import { leaseNodes } from '../packs/lease-nodes.ts';
import type { MetadataStore, SpaceTransaction } from '../ports.ts';
import { updateRootRefs } from '../refs/update-root-refs.ts';
import { CoreWorld, DAY_MS, MINUTE_MS, ORIGIN, objectNode, SPACE, smallNode } from '../test/core-fixture.ts';
import { leaseNode } from './lease-node.ts';

let world: CoreWorld;
let core: Core;
/** of each transaction since the last look */
let trips: number[];
beforeEach(async () => {
  world = await CoreWorld.open({ activeUploadsMax: 1000 });
  trips = [];
  core = { ...world.core, metadata: countTrips(world.core.metadata) };
});
afterEach(() => world.close());

/** The same store without a verb of its own for renewals, but every read of a transaction is a promise and is counted. */
function countTrips(metadata: MetadataStore): MetadataStore {
  return new Proxy(metadata, {
    get(target, name) {
      if (name === 'renewReadyLease') return undefined;
      const value: unknown = Reflect.get(target, name, target);
      if (name === 'transact') {
        return (...[space, body, input, reads]: Parameters<MetadataStore['transact']>) => {
          const counted = (tx: SpaceTransaction) => {
            trips.push(0);
            return body(withTrips(tx), input);
          };
          return metadata.transact(space, counted, undefined, reads);
        };
      }
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

function withTrips(tx: SpaceTransaction): SpaceTransaction {
  let isSending = false;
  const count = (): void => {
    if (isSending) return;
    isSending = true;
    trips.push((trips.pop() ?? 0) + 1);
    queueMicrotask(() => {
      isSending = false;
    });
  };
  return new Proxy(tx, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (!/^(find|count|due)/.test(String(name))) return value.bind(target);
      return (...given: unknown[]) => {
        count();
        return Promise.resolve(value.apply(target, given));
      };
    },
  });
}

async function tripsOf(run: () => Promise<unknown>): Promise<number[]> {
  trips.length = 0;
  await run();
  return [...trips];
}

const lease = (node: { hash: string }) => leaseNode(core, SPACE, node.hash, MINUTE_MS, () => ORIGIN);

test.each([1, 60])('a root-ref commit of %d changes reads once', async (count) => {
  const nodes = Array.from({ length: count }, (_, index) => smallNode(index));
  await world.publish(...nodes);
  const changes = nodes.map(({ hash }) => ({ hash, delta: 1 })).sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const commit = () => updateRootRefs(core, SPACE, 'domain', { requestId: 'r', changes });
  expect(await tripsOf(commit)).toEqual([1]);
  expect(await commit()).toEqual({ success: true, idempotent: true, revision: 1 });
});

test('a renewal reads the row; a publication reads row, upload, children and their edges', async () => {
  const ready = [smallNode(1), smallNode(2), smallNode(3)];
  const missing = [smallNode(4), smallNode(5), smallNode(6)];
  await world.publish(...ready);
  expect(await tripsOf(() => lease(ready[0]!))).toEqual([1]);
  const parent = smallNode(
    7,
    [...ready, ...missing].map(({ hash }) => hash),
  );
  await world.put(await world.begin(parent), parent.bytes);
  expect(await tripsOf(() => lease(parent))).toEqual([4]);
  expect(await world.looseEdges(missing[2]!)).toBe(1);
  expect(await tripsOf(() => lease(parent))).toEqual([2]);
  for (const child of missing) {
    await world.put(await world.begin(child), child.bytes);
    expect(await tripsOf(() => lease(child))).toEqual([3]);
    expect((await world.row(child))?.childRefCount).toBe(1);
  }
});

test('a lease of many nodes begins no transaction for those that are absent', async () => {
  const absent = [smallNode(1), smallNode(2)].map(({ hash }) => hash);
  const request = { hashes: absent, pack: false, leaseDurationMs: MINUTE_MS };
  const ask = () => leaseNodes(core, SPACE, request, { renewsOnly: false, uploadOrigin: ORIGIN });
  expect(await tripsOf(ask)).toEqual([]);
  expect((await ask()).results.map(({ state }) => state)).toEqual(['absent', 'absent']);
});

test.each([
  ['rows', smallNode],
  ['objects', objectNode],
] as const)('a pass reads no more for many nodes than for few: bytes as %s', async (_, make) => {
  const seen: number[][] = [];
  for (const count of [1, 30]) {
    const children = Array.from({ length: count }, (_, index) => make(1000 * count + index));
    const parents = children.map(({ hash }, index) => make(100_000 * count + index, [hash]));
    await world.publish(...children);
    world.now += 1;
    await world.publish(...parents);
    world.now += MINUTE_MS;
    seen.push(await tripsOf(() => runGc(core, SPACE, count)));
  }
  expect(seen[1]).toEqual(seen[0] ?? []);
  expect(Math.max(...(seen[1] ?? []))).toBeLessThanOrEqual(2);
});

test('the sweep reads no more for many waiting parents than for few', async () => {
  const seen: number[][] = [];
  for (const count of [1, 30]) {
    const parents = Array.from({ length: count }, (_, index) =>
      smallNode(1000 * count + index, [objectNode(index).hash, smallNode(index).hash]),
    );
    for (const parent of parents) await world.upload(parent);
    world.now += DAY_MS;
    seen.push(await tripsOf(() => sweep(core)));
    for (const parent of parents) expect(await world.row(parent)).toBeUndefined();
    expect(await world.looseEdges(smallNode(0))).toBe(0);
  }
  expect(seen[1]).toEqual(seen[0] ?? []);
});
