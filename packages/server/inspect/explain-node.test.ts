/** Explains what keeps a node: itself, or the shortest path to an ancestor. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { CoreWorld, DAY_MS, MINUTE_MS, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { explainNode } from './explain-node.ts';

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

const explain = ({ hash }: CanonicalNode) => explainNode(world.core, SPACE, hash);
let requests = 0;
async function hold({ hash }: CanonicalNode, delta: number, domain = 'domain'): Promise<void> {
  requests += 1;
  await updateRootRefs(world.core, SPACE, domain, { requestId: `r${requests}`, changes: [{ hash, delta }] });
}

test('a node is kept by its lease, then by nothing, and an unknown node is not explained', async () => {
  const node = smallNode(1);
  await world.publish(node);
  const until = world.now + MINUTE_MS;
  expect(await explain(node)).toEqual({
    hash: node.hash,
    state: 'ready',
    keptBy: [{ kind: 'lease', until }],
    collectableAt: until,
    chain: [{ hash: node.hash, keptBy: [{ kind: 'lease', until }] }],
  });
  world.now += MINUTE_MS;
  expect(await explain(node)).toMatchObject({ keptBy: [], collectableAt: until, chain: [] });
  expect(await explain(smallNode(2))).toBeUndefined();
});

test('an explanation has the shortest way up to a root ref, and the last lease of all ancestors', async () => {
  const leaf = smallNode(1);
  const near = smallNode(2, [leaf.hash]);
  const middle = smallNode(3, [leaf.hash, leaf.hash]);
  const far = smallNode(4, [middle.hash]);
  await world.publish(leaf, near, middle, far);
  world.now += MINUTE_MS;
  await world.lease(far, MINUTE_MS);
  const until = world.now + MINUTE_MS;
  const parents = [near, middle].map(({ hash }) => ({ kind: 'parent' as const, hash }));
  const leased = await explain(leaf);
  expect(leased).toMatchObject({ collectableAt: until });
  expect(leased?.keptBy.toSorted((left, right) => (String(left.hash) < String(right.hash) ? -1 : 1))).toEqual(
    parents.toSorted((left, right) => (left.hash < right.hash ? -1 : 1)),
  );
  expect(leased?.chain.map(({ hash }) => hash)).toEqual([leaf.hash, middle.hash, far.hash]);
  await hold(near, 2, 'alpha');
  await hold(near, -2, 'beta');
  const held = await explain(leaf);
  expect(held?.collectableAt).toBeNull();
  expect(held?.chain).toEqual([
    { hash: leaf.hash, keptBy: [{ kind: 'parent', hash: near.hash }] },
    {
      hash: near.hash,
      keptBy: [
        { kind: 'root-ref', refDomain: 'alpha', balance: 2 },
        { kind: 'root-ref', refDomain: 'beta', balance: -2 },
      ],
    },
  ]);
});

test('a waiting parent keeps what is below it until it is dropped', async () => {
  const child = smallNode(1);
  const parent = smallNode(2, [child.hash, smallNode(3).hash]);
  await world.publish(child);
  await world.upload(parent);
  const touchedAt = world.now;
  world.now += MINUTE_MS;
  const found = await explain(child);
  expect(found?.chain.map(({ hash }) => hash)).toEqual([child.hash, parent.hash]);
  expect(found?.collectableAt).toBe(touchedAt + DAY_MS);
});
