/** Collection: who may go, in which order, how many, and what is reported. */
import { expectEqual, expectNotFound, expectStatus, expectThat } from '../expect.ts';
import { makeNode, type SampleNode } from '../node-bytes.ts';
import { NO_USAGE, type SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const ELIGIBLE = 'runGc: eligible: no edges, no root refs, leaseExpiresAt <= now';
const BOUND = 'runGc: examined counts candidates looked at and never exceeds maxNodes';
/** A 60 s lease and a little more. */
const LEASE_OVER_MS = 61_500;

async function expectGone(client: SpaceClient, nodes: readonly SampleNode[], when: string): Promise<void> {
  for (const { hash } of nodes) {
    await client.expectAbsent(hash, when);
  }
}

async function expectKept(client: SpaceClient, nodes: readonly SampleNode[], when: string): Promise<void> {
  for (const node of nodes) {
    await client.expectContent(node, `content ${when}`);
  }
}

export const gcChecks: readonly Check[] = [
  check('gc.empty', 'runGc', 'a pass over nothing', async ({ client }) => {
    expectEqual(
      await client.gc(),
      { examined: 0, deleted: 0, reclaimedContentBytes: 0 },
      'a pass over an empty Space',
    );
  }),
  check('gc.leased', ELIGIBLE, 'a leased node stays', async ({ client }) => {
    const node = await client.published();
    const pass = await client.gc();
    expectEqual(
      [pass.deleted, pass.reclaimedContentBytes],
      [0, 0],
      'deleted and reclaimed with leased nodes only',
    );
    await expectKept(client, [node], 'while leased');
  }),
  check(
    'gc.unleased',
    `${ELIGIBLE}; reclaimedContentBytes: logical bytes`,
    'a node whose lease is over goes',
    'minute',
    async ({ client, elapse }) => {
      const node = makeNode({ content: 'nine byte' });
      const empty = makeNode({ content: '' });
      await client.publishAll([node, empty]);
      await expectKept(client, [node, empty], 'before collection');
      await client.describe(node.hash);
      await elapse(LEASE_OVER_MS);
      expectEqual(await client.gc(), { examined: 2, deleted: 2, reclaimedContentBytes: 9 }, 'the pass');
      await expectGone(client, [node, empty], 'after collection');
      await client.expectUsage(NO_USAGE, 'after collection');
      expectEqual(await client.gc(), { examined: 0, deleted: 0, reclaimedContentBytes: 0 }, 'another pass');
    },
  ),
  check(
    'gc.expiry-alone',
    'leaseNode: a lease protects a node until its expiry',
    'expiry alone deletes nothing',
    'minute',
    async ({ client, elapse }) => {
      const node = await client.published();
      await elapse(LEASE_OVER_MS);
      await expectKept(client, [node], 'with an expired lease and no pass');
      await client.expectLease(node.hash, 'ready', 'state of a new lease without an upload');
      expectEqual((await client.gc()).deleted, 0, 'deleted after the new lease');
      await expectKept(client, [node], 'leased again');
    },
  ),
  check(
    'gc.cascade',
    'runGc: children freed by a deletion are taken in the same pass',
    'a tree goes in one pass',
    'minute',
    async ({ client, elapse }) => {
      const leaf = makeNode({ content: 'leaf' });
      const middle = makeNode({ refs: [leaf.hash, leaf.hash], content: 'middle' });
      const root = makeNode({ refs: [middle.hash, leaf.hash], content: 'root' });
      await client.publishAll([leaf, middle, root]);
      await elapse(LEASE_OVER_MS);
      expectEqual(
        await client.gc(),
        { examined: 3, deleted: 3, reclaimedContentBytes: 14 },
        'a pass that frees children',
      );
      await expectGone(client, [leaf, middle, root], 'after collection');
      await client.expectUsage(NO_USAGE, 'after collection');
    },
  ),
  check('gc.bound', BOUND, 'a bounded pass stops in the tree', 'minute', async ({ client, elapse }) => {
    const leaf = makeNode({ content: 'leaf' });
    const middle = makeNode({ refs: [leaf.hash], content: 'middle' });
    const root = makeNode({ refs: [middle.hash], content: 'root' });
    await client.publishAll([leaf, middle, root]);
    await elapse(LEASE_OVER_MS);
    expectEqual(
      await client.gc(2),
      { examined: 2, deleted: 2, reclaimedContentBytes: 10 },
      'a pass of 2 over a chain of 3',
    );
    await expectGone(client, [root, middle], 'parents first');
    await expectKept(client, [leaf], 'beyond the bound');
    await client.expectChildRefCount(leaf.hash, 0, 'childRefCount of the freed leaf');
    expectEqual(await client.gc(2), { examined: 1, deleted: 1, reclaimedContentBytes: 4 }, 'the next pass');
  }),
  check(
    'gc.oldest-first',
    'runGc: candidates: oldest expired lease first',
    'order of candidates',
    'minute',
    async ({ client, elapse }) => {
      const nodes = Array.from({ length: 4 }, (_, i) => makeNode({ content: `${i}` }));
      const durations = [63_000, 60_000, 64_000, 61_000];
      const expiries: { node: SampleNode; at: number }[] = [];
      for (const [i, node] of nodes.entries()) {
        expiries.push({ node, at: (await client.publish(node, durations[i] ?? 0)).leaseExpiresAt });
      }
      await elapse(LEASE_OVER_MS + 6_000);
      for (const { node } of expiries.toSorted((a, b) => a.at - b.at)) {
        expectEqual((await client.gc(1)).deleted, 1, 'deleted by a pass of 1');
        await expectGone(client, [node], 'oldest expired lease first');
      }
    },
  ),
  check(
    'gc.default',
    'runGc: maxNodes default 100',
    'the default bound',
    'minute',
    async ({ client, elapse }) => {
      const nodes = Array.from({ length: 103 }, (_, i) => makeNode({ content: `${client.spaceId} ${i}` }));
      await client.publishTogether(nodes);
      await elapse(LEASE_OVER_MS + 10_000);
      const first = await client.gc();
      expectEqual(
        [first.examined, first.deleted],
        [100, 100],
        'examined and deleted by a pass of the default 100',
      );
      expectEqual((await client.gc()).deleted, 3, 'deleted by the next pass');
    },
  ),
  check(
    'gc.leased-parent',
    ELIGIBLE,
    'a leased parent holds its unleased child',
    'minute',
    async ({ client, elapse }) => {
      const child = makeNode({ content: 'child' });
      const parent = makeNode({ refs: [child.hash], content: 'parent' });
      await client.publish(child);
      await client.publish(parent, 3_600_000);
      await elapse(LEASE_OVER_MS);
      expectEqual((await client.gc()).deleted, 0, 'deleted while a leased parent stands');
      await expectKept(client, [child], 'under a leased parent');
    },
  ),
  check(
    'gc.root-ref-unleased',
    ELIGIBLE,
    'a root ref on a node whose lease is over',
    'minute',
    async ({ client, elapse }) => {
      const node = await client.published();
      await elapse(LEASE_OVER_MS);
      expectEqual(
        (await client.commit('late', { [node.hash]: 1 })).revision,
        1,
        'revision: ready is enough, a lease is not asked for',
      );
      expectEqual((await client.gc()).deleted, 0, 'deleted');
      await expectKept(client, [node], 'under a root ref made after its lease');
    },
  ),
  check('gc.root-refs', ELIGIBLE, 'a root ref holds its tree', 'minute', async ({ client, elapse }) => {
    const child = makeNode({ content: 'child' });
    const root = makeNode({ refs: [child.hash], content: 'root' });
    await client.publishAll([child, root]);
    await client.commit('hold', { [root.hash]: 1 });
    await elapse(LEASE_OVER_MS);
    expectEqual((await client.gc()).deleted, 0, 'deleted while a root ref holds the tree');
    await expectKept(client, [root, child], 'under a root ref');
    await client.commit('release', { [root.hash]: -1 });
    expectEqual((await client.gc()).deleted, 2, 'deleted after the release');
  }),
  check(
    'gc.opposed-domains',
    'runGc: eligible: no domain’s balance other than 0',
    '+1 here and −1 there still hold',
    'minute',
    async ({ client, elapse }) => {
      const node = await client.published();
      await client.inDomain('plus').commit('r', { [node.hash]: 1 });
      await client.inDomain('minus').commit('r', { [node.hash]: -1 });
      expectEqual((await client.describe(node.hash)).state.rootRefCount, 0, 'rootRefCount over both domains');
      await elapse(LEASE_OVER_MS);
      expectEqual((await client.gc()).deleted, 0, "deleted while domains' balances are other than 0");
      await client.inDomain('minus').commit('back', { [node.hash]: 1 });
      await client.inDomain('plus').commit('back', { [node.hash]: -1 });
      expectEqual((await client.gc()).deleted, 1, 'deleted once every balance is 0');
    },
  ),
  check(
    'gc.replay',
    'updateRootRefs: an identical replay succeeds even if the nodes are gone',
    'a replay after collection',
    'minute',
    async ({ client, elapse }) => {
      const node = await client.published();
      const original = await client.commit('add', { [node.hash]: 1 });
      await client.commit('release', { [node.hash]: -1 });
      await elapse(LEASE_OVER_MS);
      expectEqual((await client.gc()).deleted, 1, 'deleted');
      const replay = await client.commit('add', { [node.hash]: 1 });
      expectEqual(replay, { ...original, idempotent: true }, 'a replay of a commit whose node is gone');
      expectNotFound(await client.update('anew', { [node.hash]: 0 }), 'a new commit on a collected node');
    },
  ),
  check(
    'gc.return',
    'leaseNode: publication: row, edges, counts, lease',
    'a collected node comes back by upload',
    'minute',
    async ({ client, elapse }) => {
      const [child, leaf] = [makeNode({ content: 'child' }), makeNode({ content: 'leaf' })];
      await client.publish(child, 3_600_000);
      const parent = makeNode({ refs: [child.hash, child.hash, leaf.hash] });
      await client.publish(leaf, 3_600_000);
      await client.publish(parent);
      await elapse(LEASE_OVER_MS);
      expectEqual((await client.gc()).deleted, 1, 'deleted');
      await client.expectChildRefCount(child.hash, 0, 'childRefCount after the parent is gone');
      await client.expectLease(parent.hash, 'awaiting_upload', 'state of a lease on a collected node');
      const again = await client.publish(parent);
      expectEqual(
        again.leaseExpiresAt - again.leaseStartedAt,
        60_000,
        'length of the lease of the node that came back',
      );
      await client.expectChildRefCount(child.hash, 2, 'childRefCount after the parent is back');
      await expectKept(client, [parent, child, leaf], 'after the return');
    },
  ),
  check(
    'gc.stale-url',
    'The upload target: a URL can never resurrect content after collection',
    'a replayed PUT after collection',
    'minute',
    async ({ client, elapse, target }) => {
      const { node, upload } = await client.startUpload();
      expectStatus(await client.put(upload, node.bytes), 200);
      await client.expectLease(node.hash, 'ready');
      await elapse(LEASE_OVER_MS);
      expectEqual((await client.gc()).deleted, 1, 'deleted');
      const replay = await client.put(upload, node.bytes);
      const expected = upload.expiresAt > target.now() ? 412 : 403;
      if (target.uploadKind === 'embedded') expectStatus(replay, expected, 'a URL of a collected generation');
      await expectGone(client, [node], 'a replay resurrects nothing');
      await client.expectUsage(NO_USAGE, 'after the replay');
      await client.expectLease(node.hash, 'awaiting_upload', 'state: the replayed bytes count for nothing');
    },
  ),
  check(
    'gc.concurrent',
    'runGc: a pass is race-safe',
    'four passes at once',
    'minute',
    async ({ client, elapse }) => {
      const nodes = Array.from({ length: 24 }, (_, i) =>
        makeNode({ content: `${client.spaceId} ${10 + i}` }),
      );
      await client.publishTogether(nodes);
      await elapse(LEASE_OVER_MS);
      const passes = await Promise.all(Array.from({ length: 4 }, () => client.gc()));
      const rest = await client.gc();
      const sum = (field: 'deleted' | 'reclaimedContentBytes') =>
        [...passes, rest].reduce((total, pass) => total + pass[field], 0);
      const bytes = nodes.reduce((total, node) => total + node.content.length, 0);
      expectEqual(
        [sum('deleted'), sum('reclaimedContentBytes')],
        [24, bytes],
        'deleted and reclaimed by concurrent passes in all',
      );
      await client.expectUsage(NO_USAGE, 'after concurrent passes');
    },
  ),
  check(
    'gc.against-leases',
    'runGc: each candidate is rechecked; a leased node is skipped',
    'leases during a pass',
    'minute',
    async ({ client, elapse }) => {
      const nodes = Array.from({ length: 12 }, (_, i) => makeNode({ content: `${i}` }));
      await client.publishTogether(nodes);
      await elapse(LEASE_OVER_MS);
      const race = nodes.map((node) => client.leased(node.hash));
      const [pass, ...leases] = await Promise.all([client.gc(), ...race]);
      const ready = nodes.filter((_, i) => leases[i]?.state === 'ready');
      await expectKept(client, ready, 'leased during a pass');
      for (const [i, node] of nodes.entries()) {
        const state = leases[i]?.state;
        expectThat(state === 'ready' || state === 'awaiting_upload', 'ready or awaiting_upload', state);
        if (state === 'awaiting_upload') await client.publish(node);
      }
      expectEqual(
        pass.deleted,
        nodes.length - ready.length,
        'deleted: exactly the nodes whose lease came too late',
      );
      await expectKept(client, nodes, 'after all came back');
    },
  ),
];
