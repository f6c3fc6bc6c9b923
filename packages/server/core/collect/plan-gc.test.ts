/** A plan of a collection says what the pass right after it does, and leaves everything as it was. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { makeRandom } from '../../../../test/support/seeded-random.ts';
import { updateRootRefs } from '../refs/update-root-refs.ts';
import { RowDamaged } from '../store-failure.ts';
import { CoreWorld, MINUTE_MS, objectNode, SPACE, smallNode } from '../test/core-fixture.ts';
import { beforeTransactions } from '../test/pack-fixture.ts';
import { planGc, planPass } from './plan-gc.ts';
import { runGc } from './run-gc.ts';

const ROUNDS = 6;
const NODES = 24;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const rowsOf = (nodes: readonly CanonicalNode[]) => Promise.all(nodes.map((node) => world.row(node)));

test('a plan of any random DAG names the nodes and numbers of the pass, whatever its bound, and changes nothing', async () => {
  const random = makeRandom(7);
  for (let round = 0; round < ROUNDS; round += 1) {
    const nodes: CanonicalNode[] = [];
    for (let index = 0; index < NODES; index += 1) {
      const children = nodes.filter(() => random.chance(0.15)).map(({ hash }) => hash);
      const make = random.chance(0.3) ? objectNode : smallNode;
      const node = make(round * NODES + index, random.chance(0.1) ? [...children, ...children] : children);
      await world.publish(node);
      world.now += random.below(3) * 10;
      nodes.push(node);
    }
    const kept = nodes.filter(() => random.chance(0.1));
    const changes = kept.map(({ hash }) => ({ hash, delta: 1 }));
    if (changes.length > 0)
      await updateRootRefs(world.core, SPACE, 'domain', { requestId: `r${round}`, changes });
    world.now += MINUTE_MS;
    for (const maxNodes of [1 + random.below(8), 10_000]) {
      const before = await rowsOf(nodes);
      const { nodes: planned, damage, ...counts } = await planGc(world.core, SPACE, maxNodes);
      expect(damage).toBeUndefined();
      expect(await rowsOf(nodes)).toEqual(before);
      expect(await planGc(world.core, SPACE, maxNodes)).toEqual({ ...counts, damage, nodes: planned });
      expect(await runGc(world.core, SPACE, maxNodes)).toEqual(counts);
      const after = await rowsOf(nodes);
      const gone = nodes.filter((_, index) => before[index] !== undefined && after[index] === undefined);
      expect(planned.map(({ hash }) => hash).toSorted()).toEqual(gone.map(({ hash }) => hash).toSorted());
      const sizes = new Map(nodes.map(({ hash, content }) => [hash as string, content.length]));
      for (const { hash, contentBytes } of planned) expect(contentBytes).toBe(sizes.get(hash) as number);
    }
  }
});

test('a plan counts what an interrupted pass has claimed, and an unknown Space has nothing', async () => {
  const node = objectNode(1);
  await world.publish(node);
  world.now += MINUTE_MS;
  world.doors.delete = () => Promise.reject(new Error('away'));
  await runGc(world.core, SPACE, 10).catch(() => undefined);
  delete world.doors.delete;
  expect((await world.row(node))?.state).toBe('claimed');
  const planned = await planGc(world.core, SPACE, 10);
  expect(planned.nodes).toEqual([{ hash: node.hash, contentBytes: node.content.length }]);
  expect((await world.row(node))?.state).toBe('claimed');
  const nowhere = { appId: 'app', spaceId: 'nowhere' };
  expect(await planGc(world.core, nowhere, 10)).toEqual({
    examined: 0,
    deleted: 0,
    reclaimedContentBytes: 0,
    nodes: [],
    damage: undefined,
  });
  expect(await runGc(world.core, SPACE, 10)).toMatchObject({ deleted: 1 });
});

test('a plan that goes around damage names what it would without, children too', async () => {
  const leaf = smallNode(1);
  const parent = smallNode(2, [leaf.hash]);
  const other = objectNode(3);
  await world.publish(leaf, parent, other);
  world.now += MINUTE_MS;
  const core = beforeTransactions(world.core, planPass, (earlier) => {
    if (earlier === 0) throw new RowDamaged('planted: damage');
  });
  const { nodes, damage } = await planGc(core, SPACE, 10);
  expect(damage).toBeInstanceOf(RowDamaged);
  const hashes = [leaf, parent, other].map(({ hash }) => hash);
  expect(nodes.map(({ hash }) => hash).toSorted()).toEqual(hashes.toSorted());
});
