/** Parents and children: who waits for whom, and what is counted meanwhile. */
import { expectEqual, expectStatus } from '../expect.ts';
import { makeNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const CHILDREN = 'leaseNode: childHashes: every distinct unready child in first-occurrence order';
const EDGES = 'leaseNode: childRefCount equals the occurrences in the refs of all parents';
const OWN_LEASE = 'leaseNode: a waiting parent becomes ready only by a lease request of its own';

async function expectWaiting(
  client: SpaceClient,
  hash: string,
  childHashes: readonly string[],
  when: string,
): Promise<void> {
  const lease = await client.expectLease(hash, 'validated_awaiting_children', `state ${when}`);
  expectEqual(lease.childHashes, childHashes, `childHashes ${when}`);
}

export const childrenChecks: readonly Check[] = [
  check('children.order', CHILDREN, 'order and distinctness of childHashes', async ({ client }) => {
    const [a, b, c, d] = [makeNode(), makeNode(), makeNode(), makeNode()];
    await client.publish(c);
    const parent = makeNode({ refs: [d, b, d, c, a, b, a].map((node) => node.hash) });
    await client.upload(parent);
    await expectWaiting(
      client,
      parent.hash,
      [d.hash, b.hash, a.hash],
      'in first-occurrence order, without the ready one',
    );
    await client.publish(b);
    await expectWaiting(client, parent.hash, [d.hash, a.hash], 'after one child became ready');
    await client.instruction(a.hash);
    await expectWaiting(client, parent.hash, [d.hash, a.hash], 'with a child that is only leased');
    await client.publishAll([a, d]);
    await client.expectLease(parent.hash, 'ready', 'state once every child is ready');
  }),
  check('children.own-lease', OWN_LEASE, 'no second upload, no promotion by others', async ({ client }) => {
    const child = makeNode();
    const parent = makeNode({ refs: [child.hash] });
    await client.upload(parent);
    await client.publish(child);
    await client.expectAbsent(parent.hash, 'a waiting parent was never ready');
    await client.expectLease(parent.hash, 'ready', 'state after its own lease, without a second upload');
    expectStatus(await client.readContent(parent.hash), 200);
  }),
  check('children.occurrences', EDGES, 'every occurrence counts', async ({ client }) => {
    const child = await client.published();
    await client.expectChildRefCount(child.hash, 0, 'childRefCount without parents');
    await client.publish(makeNode({ refs: [child.hash] }));
    await client.expectChildRefCount(child.hash, 1, 'childRefCount with one parent');
    await client.publish(makeNode({ refs: Array<string>(256).fill(child.hash) }));
    await client.expectChildRefCount(child.hash, 257, 'childRefCount with 256 occurrences more');
  }),
  check(
    'children.waiting-edges',
    `${EDGES}, waiting ones included, rows made later too`,
    'edges of a waiting parent',
    async ({ client }) => {
      const ready = makeNode();
      const missing = makeNode();
      await client.publish(ready);
      const parent = makeNode({ refs: [ready.hash, missing.hash, ready.hash, missing.hash, missing.hash] });
      await client.upload(parent);
      await client.expectChildRefCount(ready.hash, 2, 'childRefCount by a waiting parent');
      await expectWaiting(client, parent.hash, [missing.hash], 'again');
      await client.expectChildRefCount(ready.hash, 2, 'childRefCount after repeated leases');
      await client.publish(missing);
      await client.expectChildRefCount(missing.hash, 3, 'childRefCount of a child made after its parent');
      await client.leased(parent.hash);
      await client.expectChildRefCount(ready.hash, 2, 'childRefCount once the parent is ready');
      await client.expectChildRefCount(missing.hash, 3, 'childRefCount once the parent is ready');
    },
  ),
  check(
    'children.waiting-no-lease',
    'leaseNode: only ready rows take a lease',
    'a waiting parent takes no lease',
    async ({ client }) => {
      const child = makeNode();
      const parent = makeNode({ refs: [child.hash] });
      await client.upload(parent, 3_600_000);
      expectEqual((await client.usage()).leasedNodeCount, 0, 'leasedNodeCount with a waiting parent alone');
      await client.publish(child);
      const lease = await client.expectLease(parent.hash, 'ready');
      expectEqual(
        lease.leaseExpiresAt - lease.leaseStartedAt,
        60_000,
        'length of the first lease: what waiting asked for is gone',
      );
    },
  ),
  check(
    'children.many',
    'leaseNode: childHashes 1 to 256',
    '256 children, and one child 256 times',
    async ({ client }) => {
      const refs = Array.from(
        { length: 256 },
        (_, i) => makeNode({ content: `${client.spaceId} ${i}` }).hash,
      );
      const parent = makeNode({ refs });
      await client.upload(parent);
      await expectWaiting(client, parent.hash, refs, 'with 256 children');
      const same = makeNode({ refs: Array<string>(256).fill(refs[0] ?? '') });
      await client.upload(same);
      await expectWaiting(client, same.hash, [refs[0] ?? ''], 'with one child 256 times');
    },
  ),
  check('children.chain', OWN_LEASE, 'a waiting child is not ready', async ({ client }) => {
    const leaf = makeNode();
    const middle = makeNode({ refs: [leaf.hash] });
    const root = makeNode({ refs: [middle.hash, leaf.hash] });
    await client.upload(root);
    await client.upload(middle);
    await expectWaiting(client, root.hash, [middle.hash, leaf.hash], 'while the middle waits too');
    await client.publish(leaf);
    await expectWaiting(client, root.hash, [middle.hash], 'a waiting child is not ready');
    await client.expectLease(middle.hash, 'ready', 'state of the middle');
    await client.expectLease(root.hash, 'ready', 'state of the root');
    await client.expectChildRefCount(leaf.hash, 2, 'childRefCount of the leaf');
  }),
  check(
    'children.race',
    'leaseNode: publication checks again, inside, that every child is ready',
    'parents and children leased at once',
    async ({ client }) => {
      const [a, b] = [makeNode(), makeNode()];
      const parents = Array.from({ length: 6 }, (_, i) =>
        makeNode({ refs: [a.hash, b.hash], content: `${i}` }),
      );
      for (const parent of parents) await client.upload(parent);
      await Promise.all([
        client.publish(a),
        client.publish(b),
        ...parents.map((parent) => client.leased(parent.hash)),
      ]);
      for (const parent of parents) expectEqual((await client.leased(parent.hash)).state, 'ready', 'state');
      for (const child of [a, b])
        await client.expectChildRefCount(child.hash, 6, 'childRefCount after a race');
    },
  ),
  check(
    'children.protected',
    'leaseNode: the edges of a waiting parent protect its ready children',
    'a collection passes by',
    'minute',
    async ({ client, elapse }) => {
      const [ready, missing] = [makeNode(), makeNode()];
      await client.publish(ready);
      const parent = makeNode({ refs: [ready.hash, missing.hash] });
      await client.upload(parent);
      await elapse(61_500);
      expectEqual(
        (await client.gc()).deleted,
        0,
        'deleted: a waiting parent protects its ready children, and is no candidate',
      );
      expectStatus(await client.readContent(ready.hash), 200);
      await expectWaiting(client, parent.hash, [missing.hash], 'after a collection');
    },
  ),
  check(
    'children.dropped',
    'leaseNode: not finished within 24 h of its last lease call: dropped, with its edges',
    'an abandoned parent leaves',
    'day',
    async ({ client, elapse, settle }) => {
      const [ready, missing] = [makeNode(), makeNode()];
      await client.publish(ready);
      const parent = makeNode({ refs: [ready.hash, missing.hash] });
      await client.upload(parent);
      await elapse(86_400_000 - 10_000);
      await expectWaiting(
        client,
        parent.hash,
        [missing.hash],
        'just before the 24 h are over: the lease counts anew',
      );
      await elapse(86_400_000 + 1_000);
      await settle();
      expectEqual(
        (await client.usage()).notReadyNodeCount,
        0,
        'notReadyNodeCount once the waiting parent is dropped',
      );
      await client.expectChildRefCount(ready.hash, 0, 'childRefCount once the edges are gone');
      await client.expectLease(parent.hash, 'awaiting_upload', 'state of a lease on the dropped parent');
    },
  ),
];
