/**
 * Small nodes that several processes pack at once, on a real PostgreSQL, while others lease, heal and collect the same nodes. After each
 * test a recount by other statements finds nothing wrong.
 */

import { expect, test } from 'bun:test';
import { HOUR_MS } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../../test/support/canonical-node.ts';
import { runGc } from '../../../core/collect/run-gc.ts';
import { sweep } from '../../../core/collect/sweep.ts';
import type { Core } from '../../../core/core.ts';
import type { NodeRow } from '../../../core/model.ts';
import { leaseNodes } from '../../../core/packs/lease-nodes.ts';
import { type PackingWalk, packSmallNodes } from '../../../core/packs/pack-small-nodes.ts';
import { getUsage } from '../../../core/read/get-usage.ts';
import { readContent } from '../../../core/read/read-content.ts';
import { CALLER } from '../../../core/test/core-fixture.ts';
import type { DirectStore } from '../../../core/test/direct-store.ts';
import { SPACE } from '../../test/samples.ts';
import {
  coreOf,
  expectRecounted,
  leaseFor,
  makeContent,
  publish,
  type StoreInstance,
  useProcesses,
} from '../test/postgres-fixture.ts';

const PROCESSES = 3;
/** Two groups. */
const NODES = 300;
const PUBLISHED_AT_ONCE = 16;
const TEST_MS_MAX = 300_000;
const RULES = { nodesMin: 1, ageMs: 0 };

let instances: StoreInstance[];
let cores: Core[];
let content: DirectStore;

useProcesses(PROCESSES, {
  use(opened) {
    instances = opened;
    content = makeContent();
    cores = opened.map((instance) => coreOf(instance, content));
  },
  check: expectRecounted,
});

const core = (index: number): Core => cores[index] as Core;

async function publishAll(name: string): Promise<CanonicalNode[]> {
  const nodes = Array.from({ length: NODES }, (_, index) => makeNode(`${name} ${index}`));
  const left = nodes.values();
  const publishSome = async (): Promise<void> => {
    for (const node of left) expect((await publish(core(0), content, node)).state).toBe('ready');
  };
  await Promise.all(Array.from({ length: PUBLISHED_AT_ONCE }, publishSome));
  // No lease ends while the test runs, however slow the machine.
  await change(nodes, { leaseExpiresAt: Date.now() + HOUR_MS });
  return nodes;
}

function change(nodes: readonly CanonicalNode[], changes: Partial<NodeRow>): Promise<void> {
  return core(0).metadata.transact(SPACE, async (tx) => {
    for (const row of await tx.findNodes(nodes.map(({ hash }) => hash))) {
      if (row !== undefined) await tx.update('node', row, { ...row, ...changes });
    }
  });
}

async function packAll(process: Core): Promise<number> {
  let moved = 0;
  let walk: PackingWalk | undefined;
  do {
    const step = await packSmallNodes(process, walk, RULES);
    moved += step.moved;
    walk = step.next;
  } while (walk !== undefined);
  return moved;
}

async function sweepAll(process: Core): Promise<void> {
  while ((await sweep(process)).moreToDo);
}

async function expectWhole(nodes: readonly CanonicalNode[]): Promise<void> {
  for (const { hash, content: bytes } of nodes) {
    const { body } = await readContent(core(2), SPACE, hash, undefined, CALLER);
    expect(Buffer.compare(await new Response(body as BodyInit).bytes(), bytes)).toBe(0);
  }
}

const storagesOf = async (nodes: readonly CanonicalNode[]): Promise<string[]> => {
  const hashes = nodes.map(({ hash }) => hash);
  const found = await core(0).metadata.findNodesWithContent(SPACE, hashes);
  return found.map((each) => each?.node.storage ?? 'none');
};

test(
  'processes that pack the same nodes at once move each node once',
  async () => {
    const nodes = await publishAll('same');
    const before = await getUsage(core(0), SPACE);
    const moved = await Promise.all(cores.map(packAll));
    expect(moved.reduce((sum, each) => sum + each, 0)).toBe(NODES);
    expect(new Set(await storagesOf(nodes))).toEqual(new Set(['packed']));
    expect(await getUsage(core(0), SPACE)).toEqual(before);
    await expectWhole(nodes);
  },
  TEST_MS_MAX,
);

test(
  'leases, healings and collections of nodes that are being packed find each other',
  async () => {
    const nodes = await publishAll('busy');
    const [dying, sick] = [nodes.slice(0, 60), nodes.slice(60, 120)];
    const rest = nodes.slice(60);
    await change(dying, { leaseExpiresAt: 1 });
    await change(sick, { state: 'rotten' });
    const renew = async (): Promise<void> => {
      for (const node of nodes.slice(120)) await leaseFor(core(2), node, 2 * HOUR_MS);
    };
    const heal = async (): Promise<void> => {
      for (const node of sick) expect((await publish(core(0), content, node)).state).toBe('ready');
    };
    const leaseMany = async (): Promise<void> => {
      const hashes = nodes.slice(120).map(({ hash }) => hash);
      const options = { renewsOnly: false, uploadOrigin: 'http://unused' };
      const request = { hashes, leaseDurationMs: 90_000, pack: false };
      for (let round = 0; round < 5; round += 1) {
        const { results } = await leaseNodes(core(1), SPACE, request, options);
        expect(new Set(results.map(({ state }) => state))).toEqual(new Set(['ready']));
      }
    };
    const collect = async (): Promise<void> => {
      for (let deleted = 0; deleted < dying.length; ) deleted += (await runGc(core(2), SPACE, 7)).deleted;
    };
    const pack = (index: number) => packAll(core(index));
    await Promise.all([renew(), heal(), leaseMany(), collect(), pack(0), pack(1)]);
    await Promise.all([pack(0), pack(2)]);
    expect(new Set(await storagesOf(dying))).toEqual(new Set(['none']));
    expect(new Set(await storagesOf(rest))).toEqual(new Set(['packed']));
    await sweepAll(core(1));
    await expectWhole(rest);
  },
  TEST_MS_MAX,
);

test(
  'the first group moves in 3 round trips, and each later one, which looks at the pack, in 4',
  async () => {
    await publishAll('trips');
    const trips: number[] = [];
    const { metadata } = core(0);
    const { counter } = (instances[0] as StoreInstance).pool;
    const counted: Core = {
      ...core(0),
      metadata: new Proxy(metadata, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target);
          if (name !== 'transact') return typeof value === 'function' ? value.bind(target) : value;
          return async (...given: Parameters<typeof target.transact>) => {
            const before = counter.roundTrips;
            const outcome = await target.transact(...given);
            trips.push(counter.roundTrips - before);
            return outcome;
          };
        },
      }),
    };
    expect(await packAll(counted)).toBe(NODES);
    expect(trips).toEqual([3, 4]);
  },
  TEST_MS_MAX,
);
