/** Usage: exact numbers over every transition. */
import { expectEqual, expectStatus } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize } from '../node-bytes.ts';
import { NO_USAGE } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const USAGE = 'getUsage: usage is exact at each commit';
const RESERVED =
  'getUsage: reservedBytes: waiting parents, and uploads being received; nothing between PUT and lease';

export const usageChecks: readonly Check[] = [
  check('usage.leaf', USAGE, 'a leaf from nothing to ready', async ({ client }) => {
    const node = makeNode({ content: 'eleven byte' });
    await client.expectUsage(NO_USAGE, 'of a fresh Space');
    const upload = await client.instruction(node.hash);
    await client.expectUsage(NO_USAGE, 'after the first lease');
    expectStatus(await client.put(upload, node.bytes), 200);
    await client.expectUsage(NO_USAGE, 'between PUT and lease');
    await client.leased(node.hash);
    const ready = {
      ...NO_USAGE,
      nodeCount: 1,
      readyContentBytes: 11,
      readyStoredBytes: node.bytes.length,
      leasedNodeCount: 1,
    };
    await client.expectUsage(ready, 'with one ready node');
    await client.leased(node.hash, 3_600_000);
    await client.expectUsage(ready, 'after a renewal');
    await client.put(upload, node.bytes);
    await client.expectUsage(ready, 'after a replayed PUT');
  }),
  check('usage.waiting', `${USAGE}; ${RESERVED}`, 'a waiting parent and its child', async ({ client }) => {
    const child = makeNode({ content: '12345' });
    const parent = makeNode({ refs: [child.hash, child.hash], content: '1234567' });
    await client.upload(parent);
    const waitingUsage = {
      ...NO_USAGE,
      nodeCount: 1,
      notReadyNodeCount: 1,
      reservedBytes: parent.bytes.length,
    };
    await client.expectUsage(waitingUsage, 'with a waiting parent');
    await client.leased(parent.hash);
    await client.expectUsage(waitingUsage, 'after another lease of the waiting parent');
    await client.publish(child);
    const withChild = {
      ...waitingUsage,
      nodeCount: 2,
      readyContentBytes: 5,
      readyStoredBytes: child.bytes.length,
      leasedNodeCount: 1,
    };
    await client.expectUsage(withChild, 'with its child ready');
    await client.leased(parent.hash);
    const both = {
      ...{ nodeCount: 2, readyContentBytes: 12, readyStoredBytes: child.bytes.length + parent.bytes.length },
      ...{ reservedBytes: 0, notReadyNodeCount: 0, leasedNodeCount: 2 },
    };
    await client.expectUsage(both, 'with both ready');
  }),
  check('usage.rejected', RESERVED, 'rejected uploads count nowhere', async ({ client }) => {
    const node = makeNode();
    expectStatus(await client.put(await client.instruction(node.hash), makeNode().bytes), 200);
    await client.leased(node.hash);
    await client.expectUsage(NO_USAGE, 'after a rejection');
  }),
  check(
    'usage.empty-content',
    'getUsage: readyStoredBytes counts canonical bytes, readyContentBytes the content',
    'an empty node has stored bytes',
    async ({ client }) => {
      const node = await client.published(makeNode({ content: '' }));
      const expected = { ...NO_USAGE, nodeCount: 1, readyStoredBytes: node.bytes.length, leasedNodeCount: 1 };
      await client.expectUsage(expected, 'with an empty node');
    },
  ),
  check('usage.many', USAGE, 'concurrent publications', async ({ client, target }) => {
    const sizes = [100, 5_000, 70_000, 300_000, 1_500_000].filter((bytes) => bytes <= target.nodeBytesMax);
    const nodes = sizes.map((bytes) => makeNodeOfCanonicalSize(bytes));
    await client.publishTogether(nodes);
    const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
    await client.expectUsage(
      {
        ...NO_USAGE,
        nodeCount: nodes.length,
        readyContentBytes: sum(nodes.map((node) => node.content.length)),
        readyStoredBytes: sum(sizes),
        leasedNodeCount: nodes.length,
      },
      'with nodes of all sizes, published at once',
    );
  }),
  check('usage.root-refs', USAGE, 'root refs change no usage', async ({ client }) => {
    const node = await client.published();
    const before = await client.usage();
    await client.commit('r1', { [node.hash]: 5 });
    await client.inDomain('other').commit('r1', { [node.hash]: -2 });
    expectEqual(await client.usage(), before, 'usage after root-ref commits');
  }),
  check(
    'usage.other-space',
    'getUsage: per-Space accounting',
    'Spaces are counted apart',
    async ({ client, newSpace }) => {
      await client.publish(makeNode());
      await newSpace().expectUsage(NO_USAGE, 'of a Space nobody used');
    },
  ),
  check(
    'usage.leases-run-out',
    'getUsage: leasedNodeCount counts unexpired leases only',
    'expiry, renewal, new lease',
    'minute',
    async ({ client, elapse }) => {
      const [short, long] = [makeNode(), makeNode()];
      await client.publish(short);
      await client.publish(long, 3_600_000);
      expectEqual((await client.usage()).leasedNodeCount, 2, 'leasedNodeCount');
      await elapse(61_500);
      expectEqual((await client.usage()).leasedNodeCount, 1, 'leasedNodeCount after one lease ran out');
      await client.leased(short.hash);
      expectEqual((await client.usage()).leasedNodeCount, 2, 'leasedNodeCount after a new lease');
      await client.leased(short.hash, 120_000);
      await elapse(61_500);
      expectEqual((await client.usage()).leasedNodeCount, 2, 'leasedNodeCount: the renewed lease still runs');
      await elapse(60_000);
      expectEqual(
        (await client.usage()).leasedNodeCount,
        1,
        'leasedNodeCount after the renewed lease ran out',
      );
    },
  ),
  check('usage.after-gc', USAGE, 'a collection takes its bytes out', 'minute', async ({ client, elapse }) => {
    const kept = makeNode({ content: 'kept' });
    const gone = makeNode({ refs: [kept.hash], content: 'gone' });
    await client.publish(kept, 3_600_000);
    await client.publish(gone);
    await elapse(61_500);
    await client.gc();
    const expected = {
      ...NO_USAGE,
      nodeCount: 1,
      readyContentBytes: 4,
      readyStoredBytes: kept.bytes.length,
      leasedNodeCount: 1,
    };
    await client.expectUsage(expected, 'after a collection');
  }),
];
