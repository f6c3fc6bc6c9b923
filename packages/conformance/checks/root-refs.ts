/** Root-ref commits: atomic, idempotent, balanced. */
import { expectConflict, expectEqual, expectInvalid, expectNotFound, expectThat } from '../expect.ts';
import { makeNode, randomHash, type SampleNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import type { Commit } from '../wire.ts';

const ATOMIC = 'updateRootRefs: on any failure nothing is committed';
const BALANCES = 'updateRootRefs: "aggregate" is rootRefCount over all domains; one domain may go below 0';

export async function publishSorted(client: SpaceClient, count: number): Promise<SampleNode[]> {
  const nodes = Array.from({ length: count }, (_, i) => makeNode({ content: `${client.spaceId} ${i}` }));
  await client.publishTogether(nodes);
  return nodes.sort((a, b) => (a.hash < b.hash ? -1 : 1));
}

export async function rootRefCount(client: SpaceClient, node: SampleNode): Promise<number> {
  return (await client.describe(node.hash)).state.rootRefCount;
}

/** The answer to a commit that made this revision. */
export function newCommit(revision: number): Commit {
  return { success: true, idempotent: false, revision };
}

async function expectBalances(
  client: SpaceClient,
  balances: Readonly<Record<string, number>>,
  when: string,
): Promise<void> {
  const items = Object.entries(balances)
    .map(([hash, refCount]) => ({ hash, refCount }))
    .sort((a, b) => (a.hash < b.hash ? -1 : 1));
  expectEqual((await client.page()).items, items, `items ${when}`);
}

export const rootRefChecks: readonly Check[] = [
  check(
    'root-refs.revisions',
    'updateRootRefs: revision starts at 0 and grows by 1 per new commit',
    'first commits',
    async ({ client }) => {
      const node = await client.published();
      expectEqual(
        await client.page(),
        { refDomain: 'conformance', revision: 0, items: [], nextCursor: null },
        'the page before any commit',
      );
      expectEqual(await client.commit('one', { [node.hash]: 2 }), newCommit(1), 'the first commit');
      expectEqual(await client.commit('two', { [node.hash]: -1 }), newCommit(2), 'the second commit');
      expectEqual(await rootRefCount(client, node), 1, 'rootRefCount');
      await expectBalances(client, { [node.hash]: 1 }, 'after both');
    },
  ),
  check(
    'root-refs.missing',
    'Errors: a hash has no node row → 404, whatever the sign, before any 409',
    'missing nodes',
    async ({ client }) => {
      const node = await client.published();
      for (const delta of [1, 0, -1]) {
        expectNotFound(
          await client.update('r', { [randomHash()]: delta }),
          `delta ${delta} on a missing node`,
        );
        expectNotFound(
          await client.update('r', { [node.hash]: -5, [randomHash()]: delta }),
          '404 before 409',
        );
      }
      const leased = randomHash();
      await client.instruction(leased);
      expectNotFound(await client.update('r', { [leased]: 1 }), 'a node that is only leased has no row');
      expectEqual((await client.page()).revision, 0, 'revision after failures');
    },
  ),
  check(
    'root-refs.not-ready',
    'Errors: positive delta on a node that is not ready → 409 CONFLICT',
    'waiting nodes',
    async ({ client }) => {
      const child = makeNode();
      const parent = makeNode({ refs: [child.hash] });
      await client.upload(parent);
      const message = expectConflict(
        await client.update('up', { [parent.hash]: 1 }),
        'a positive delta on a node that is not ready',
      );
      expectThat(message.includes(parent.hash), 'the message names the hash', message);
      expectConflict(await client.update('down', { [parent.hash]: -1 }), 'an aggregate below 0');
      expectEqual(
        (await client.commit('zero', { [parent.hash]: 0 })).revision,
        1,
        'revision after delta 0 on a waiting node',
      );
      await client.publish(child);
      await client.leased(parent.hash);
      expectEqual(
        (await client.commit('up', { [parent.hash]: 1 })).revision,
        2,
        'revision once the node is ready',
      );
    },
  ),
  check(
    'root-refs.negative',
    `Errors: aggregate below 0 → 409 CONFLICT, first such hash in hash order; ${ATOMIC}`,
    'nothing of a refused commit stays',
    async ({ client }) => {
      const nodes = await publishSorted(client, 4);
      const [a, b, c, d] = nodes as [SampleNode, SampleNode, SampleNode, SampleNode];
      await client.commit('base', { [a.hash]: 1, [d.hash]: 5 });
      const changes = { [d.hash]: 1, [c.hash]: -1, [b.hash]: -1, [a.hash]: -1 };
      const message = expectConflict(await client.update('r', changes), 'an aggregate below 0');
      expectThat(
        message.includes(b.hash) && !message.includes(c.hash),
        'the message names the first such hash in hash order',
        message,
      );
      await expectBalances(client, { [a.hash]: 1, [d.hash]: 5 }, 'after a refused commit');
      expectEqual(
        [await rootRefCount(client, a), await rootRefCount(client, d)],
        [1, 5],
        'rootRefCounts after a refused commit',
      );
      expectEqual((await client.page()).revision, 1, 'revision after a refused commit');
    },
  ),
  check('root-refs.domains', BALANCES, 'domains below 0', async ({ client }) => {
    const node = await client.published();
    const [plus, minus] = [client.inDomain('plus'), client.inDomain('minus')];
    await plus.commit('r', { [node.hash]: 3 });
    await minus.commit('r', { [node.hash]: -2 });
    await expectBalances(plus, { [node.hash]: 3 }, 'of one domain');
    await expectBalances(minus, { [node.hash]: -2 }, 'of a domain below 0');
    expectEqual(await rootRefCount(client, node), 1, 'rootRefCount over both');
    expectConflict(await minus.update('s', { [node.hash]: -2 }), 'the aggregate would go below 0');
    expectConflict(
      await plus.update('s', { [node.hash]: -2 }),
      'the aggregate would go below 0, the domain not',
    );
    await minus.commit('t', { [node.hash]: 2 });
    await expectBalances(minus, {}, 'of a domain back at 0');
  }),
  check(
    'root-refs.zero',
    'updateRootRefs: delta 0 is allowed: the balance stays, the revision grows',
    'delta 0',
    async ({ client }) => {
      const node = await client.published();
      expectEqual(await client.commit('zero', { [node.hash]: 0 }), newCommit(1), 'a commit of delta 0');
      await expectBalances(client, {}, 'after delta 0');
      await client.commit('one', { [node.hash]: 1 });
      await client.commit('zero again', { [node.hash]: 0 });
      const page = await client.page();
      expectEqual(
        [page.revision, page.items],
        [3, [{ hash: node.hash, refCount: 1 }]],
        'revision and items after delta 0',
      );
    },
  ),
  check(
    'root-refs.entries',
    'Limits: changes 1 to 1000 entries',
    '1000 and 1001 entries',
    async ({ client }) => {
      const changes = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, () => [randomHash(), 1]));
      expectNotFound(await client.update('r', changes(1000)), '1000 entries are judged');
      expectInvalid(await client.update('r', changes(1001)), '1001 entries');
    },
  ),
  check(
    'root-refs.deltas',
    'Limits: delta magnitude at most 1,000,000',
    'the largest deltas',
    async ({ client }) => {
      const node = await client.published();
      for (const delta of [1_000_001, -1_000_001, Number.MAX_SAFE_INTEGER]) {
        expectInvalid(await client.update('r', { [node.hash]: delta }), `delta ${delta}`);
      }
      await client.commit('up', { [node.hash]: 1_000_000 });
      await client.commit('up again', { [node.hash]: 1_000_000 });
      await client.commit('down', { [node.hash]: -1_000_000 });
      expectEqual(await rootRefCount(client, node), 1_000_000, 'rootRefCount');
    },
  ),
  check(
    'root-refs.many',
    'updateRootRefs: all deltas commit atomically',
    'sixty hashes in one commit',
    async ({ client }) => {
      const nodes = await publishSorted(client, 60);
      await client.commit('all', Object.fromEntries(nodes.map((node, i) => [node.hash, i + 1])));
      const page = await client.page('limit=200');
      expectEqual(
        page.items,
        nodes.map((node, i) => ({ hash: node.hash, refCount: i + 1 })),
        'items after one commit of 60',
      );
    },
  ),
  check(
    'root-refs.concurrent',
    'updateRootRefs: revision grows by 1 per new commit',
    'twenty commits at once',
    async ({ client }) => {
      const [a, b] = (await publishSorted(client, 2)) as [SampleNode, SampleNode];
      const commits = await Promise.all(
        Array.from({ length: 20 }, (_, i) => client.commit(`r${i}`, { [a.hash]: 1, [b.hash]: i })),
      );
      const revisions = commits.map((commit) => commit.revision).sort((x, y) => x - y);
      expectEqual(
        revisions,
        Array.from({ length: 20 }, (_, i) => i + 1),
        'revisions of twenty concurrent commits',
      );
      await expectBalances(client, { [a.hash]: 20, [b.hash]: 190 }, 'after twenty concurrent commits');
    },
  ),
  check(
    'root-refs.concurrent-release',
    'Errors: aggregate below 0 → 409 CONFLICT',
    'ten releases of five',
    async ({ client }) => {
      const node = await client.published();
      await client.commit('base', { [node.hash]: 5 });
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, i) => client.update(`r${i}`, { [node.hash]: -1 })),
      );
      expectEqual(
        answers.filter((answer) => answer.status === 200).length,
        5,
        'releases that found a balance',
      );
      for (const answer of answers.filter((each) => each.status !== 200)) expectConflict(answer);
      expectEqual(await rootRefCount(client, node), 0, 'rootRefCount');
    },
  ),
];
