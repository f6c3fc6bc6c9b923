/** Root-ref commits: atomic, idempotent, balanced. */
import { expectEqual, expectError, expectThat } from '../expect.ts';
import { makeNode, randomHash, type SampleNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, type CheckContext, check } from '../suite.ts';

const ATOMIC = 'updateRootRefs: on any failure nothing is committed';
const BALANCES = 'updateRootRefs: "aggregate" is rootRefCount over all domains; one domain may go below 0';

export async function published(client: SpaceClient, count: number): Promise<SampleNode[]> {
  const nodes = Array.from({ length: count }, (_, i) => makeNode({ content: `${client.spaceId} ${i}` }));
  await client.publishTogether(nodes);
  return nodes.sort((a, b) => (a.hash < b.hash ? -1 : 1));
}

export async function rootRefCount(client: SpaceClient, node: SampleNode): Promise<number> {
  return (await client.describe(node.hash)).state.rootRefCount;
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

async function revisionsGrow({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  expectEqual(
    await client.page(),
    { refDomain: 'conformance', revision: 0, items: [], nextCursor: null },
    'the page before any commit',
  );
  expectEqual(
    await client.commit('one', { [node.hash]: 2 }),
    { success: true, idempotent: false, revision: 1 },
    'the first commit',
  );
  expectEqual(
    await client.commit('two', { [node.hash]: -1 }),
    { success: true, idempotent: false, revision: 2 },
    'the second commit',
  );
  expectEqual(await rootRefCount(client, node), 1, 'rootRefCount');
  await expectBalances(client, { [node.hash]: 1 }, 'after both');
}

async function missingNodes({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  for (const delta of [1, 0, -1]) {
    expectError(
      await client.update('r', { [randomHash()]: delta }),
      404,
      'NOT_FOUND',
      `delta ${delta} on a missing node`,
    );
    expectError(
      await client.update('r', { [node.hash]: -5, [randomHash()]: delta }),
      404,
      'NOT_FOUND',
      '404 before 409',
    );
  }
  const leased = randomHash();
  await client.instruction(leased);
  expectError(
    await client.update('r', { [leased]: 1 }),
    404,
    'NOT_FOUND',
    'a node that is only leased has no row',
  );
  expectEqual((await client.page()).revision, 0, 'revision after failures');
}

async function notReadyNodes({ client }: CheckContext): Promise<void> {
  const child = makeNode();
  const parent = makeNode({ refs: [child.hash] });
  await client.upload(parent);
  const message = expectError(
    await client.update('up', { [parent.hash]: 1 }),
    409,
    'CONFLICT',
    'a positive delta on a node that is not ready',
  );
  expectThat(message.includes(parent.hash), 'the message names the hash', message);
  expectError(await client.update('down', { [parent.hash]: -1 }), 409, 'CONFLICT', 'an aggregate below 0');
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
}

async function negativeAggregates({ client }: CheckContext): Promise<void> {
  const nodes = await published(client, 4);
  const [a, b, c, d] = nodes as [SampleNode, SampleNode, SampleNode, SampleNode];
  await client.commit('base', { [a.hash]: 1, [d.hash]: 5 });
  const changes = { [d.hash]: 1, [c.hash]: -1, [b.hash]: -1, [a.hash]: -1 };
  const message = expectError(await client.update('r', changes), 409, 'CONFLICT', 'an aggregate below 0');
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
}

async function domainBalances({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  const [plus, minus] = [client.inDomain('plus'), client.inDomain('minus')];
  await plus.commit('r', { [node.hash]: 3 });
  await minus.commit('r', { [node.hash]: -2 });
  await expectBalances(plus, { [node.hash]: 3 }, 'of one domain');
  await expectBalances(minus, { [node.hash]: -2 }, 'of a domain below 0');
  expectEqual(await rootRefCount(client, node), 1, 'rootRefCount over both');
  expectError(
    await minus.update('s', { [node.hash]: -2 }),
    409,
    'CONFLICT',
    'the aggregate would go below 0',
  );
  expectError(
    await plus.update('s', { [node.hash]: -2 }),
    409,
    'CONFLICT',
    'the aggregate would go below 0, the domain not',
  );
  await minus.commit('t', { [node.hash]: 2 });
  await expectBalances(minus, {}, 'of a domain back at 0');
}

async function zeroDelta({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  expectEqual(
    await client.commit('zero', { [node.hash]: 0 }),
    { success: true, idempotent: false, revision: 1 },
    'a commit of delta 0',
  );
  await expectBalances(client, {}, 'after delta 0');
  await client.commit('one', { [node.hash]: 1 });
  await client.commit('zero again', { [node.hash]: 0 });
  const page = await client.page();
  expectEqual(
    [page.revision, page.items],
    [3, [{ hash: node.hash, refCount: 1 }]],
    'revision and items after delta 0',
  );
}

async function entryLimits({ client }: CheckContext): Promise<void> {
  const changes = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, () => [randomHash(), 1]));
  expectError(await client.update('r', changes(1000)), 404, 'NOT_FOUND', '1000 entries are judged');
  expectError(await client.update('r', changes(1001)), 400, 'INVALID_REQUEST', '1001 entries');
}

async function deltaLimits({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  for (const delta of [1_000_001, -1_000_001, Number.MAX_SAFE_INTEGER]) {
    expectError(await client.update('r', { [node.hash]: delta }), 400, 'INVALID_REQUEST', `delta ${delta}`);
  }
  await client.commit('up', { [node.hash]: 1_000_000 });
  await client.commit('up again', { [node.hash]: 1_000_000 });
  await client.commit('down', { [node.hash]: -1_000_000 });
  expectEqual(await rootRefCount(client, node), 1_000_000, 'rootRefCount');
}

async function manyAtOnce({ client }: CheckContext): Promise<void> {
  const nodes = await published(client, 60);
  await client.commit('all', Object.fromEntries(nodes.map((node, i) => [node.hash, i + 1])));
  const page = await client.page('limit=200');
  expectEqual(
    page.items,
    nodes.map((node, i) => ({ hash: node.hash, refCount: i + 1 })),
    'items after one commit of 60',
  );
}

async function concurrentCommits({ client }: CheckContext): Promise<void> {
  const [a, b] = (await published(client, 2)) as [SampleNode, SampleNode];
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
}

async function concurrentReleases({ client }: CheckContext): Promise<void> {
  const [node] = (await published(client, 1)) as [SampleNode];
  await client.commit('base', { [node.hash]: 5 });
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, i) => client.update(`r${i}`, { [node.hash]: -1 })),
  );
  expectEqual(answers.filter((answer) => answer.status === 200).length, 5, 'releases that found a balance');
  for (const answer of answers.filter((each) => each.status !== 200)) expectError(answer, 409, 'CONFLICT');
  expectEqual(await rootRefCount(client, node), 0, 'rootRefCount');
}

export const rootRefChecks: readonly Check[] = [
  check(
    'root-refs.revisions',
    'updateRootRefs: revision starts at 0 and grows by 1 per new commit',
    'first commits',
    revisionsGrow,
  ),
  check(
    'root-refs.missing',
    'Errors: a hash has no node row → 404, whatever the sign, before any 409',
    'missing nodes',
    missingNodes,
  ),
  check(
    'root-refs.not-ready',
    'Errors: positive delta on a node that is not ready → 409 CONFLICT',
    'waiting nodes',
    notReadyNodes,
  ),
  check(
    'root-refs.negative',
    `Errors: aggregate below 0 → 409 CONFLICT, first such hash in hash order; ${ATOMIC}`,
    'nothing of a refused commit stays',
    negativeAggregates,
  ),
  check('root-refs.domains', BALANCES, 'domains below 0', domainBalances),
  check(
    'root-refs.zero',
    'updateRootRefs: delta 0 is allowed: the balance stays, the revision grows',
    'delta 0',
    zeroDelta,
  ),
  check('root-refs.entries', 'Limits: changes 1 to 1000 entries', '1000 and 1001 entries', entryLimits),
  check('root-refs.deltas', 'Limits: delta magnitude at most 1,000,000', 'the largest deltas', deltaLimits),
  check(
    'root-refs.many',
    'updateRootRefs: all deltas commit atomically',
    'sixty hashes in one commit',
    manyAtOnce,
  ),
  check(
    'root-refs.concurrent',
    'updateRootRefs: revision grows by 1 per new commit',
    'twenty commits at once',
    concurrentCommits,
  ),
  check(
    'root-refs.concurrent-release',
    'Errors: aggregate below 0 → 409 CONFLICT',
    'ten releases of five',
    concurrentReleases,
  ),
];
