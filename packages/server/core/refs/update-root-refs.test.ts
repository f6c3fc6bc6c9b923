/** Commits and pages of root refs: order of checks, atomicity, idempotency, stability of a walk (docs/api.md, updateRootRefs). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { runGc } from '../collect/run-gc.ts';
import { StoreUnavailable } from '../store-failure.ts';
import {
  CoreWorld,
  DAY_MS,
  failureOf,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { listRootRefs } from './list-root-refs.ts';
import { updateRootRefs } from './update-root-refs.ts';

const MOST = Number.MAX_SAFE_INTEGER;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
});
afterEach(() => world.close());

type Delta = readonly [CanonicalNode, number];

function commit(requestId: string, deltas: readonly Delta[], domain = 'domain') {
  const changes = deltas.map(([{ hash }, delta]) => ({ hash, delta }));
  changes.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  return updateRootRefs(world.core, SPACE, domain, { requestId, changes });
}

const page = (cursor?: string, limit = 2, domain = 'domain') =>
  listRootRefs(world.core, SPACE, domain, { limit, cursor });

/** Three nodes in hash order. */
function threeNodes(): [CanonicalNode, CanonicalNode, CanonicalNode] {
  const nodes = [smallNode(1), smallNode(2), smallNode(3)];
  nodes.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  return nodes as [CanonicalNode, CanonicalNode, CanonicalNode];
}

async function balances(domain = 'domain'): Promise<Record<string, number>> {
  const { items } = await page(undefined, 200, domain);
  return Object.fromEntries(items.map(({ hash, refCount }) => [hash, refCount]));
}

/** Writes a number into a row that commits would take too long to reach. */
async function setRootRefCount(node: CanonicalNode, domain: string, balance: number): Promise<void> {
  await world.core.metadata.transact(SPACE, async (tx) => {
    const row = (await tx.findNode(node.hash))!;
    const changes = [{ hash: node.hash, before: 0, after: balance }];
    const revision = (await tx.findRevision(domain)) + 1;
    await tx.update('node', row, {
      ...row,
      rootRefCount: row.rootRefCount + balance,
      heldDomainCount: row.heldDomainCount + 1,
    });
    await tx.insertRootRefCommit(
      domain,
      { requestId: 'planted', payloadDigest: new Uint8Array(32), revision },
      changes,
    );
  });
}

test('a commit applies once; its replay answers the first revision, after later commits and after the nodes are gone', async () => {
  const [a, b] = threeNodes();
  await world.publish(a, b);
  expect(
    await commit('one', [
      [a, 2],
      [b, 1],
    ]),
  ).toEqual({ success: true, idempotent: false, revision: 1 });
  expect(
    await commit('two', [
      [a, -2],
      [b, -1],
    ]),
  ).toEqual({ success: true, idempotent: false, revision: 2 });
  world.now += MINUTE_MS;
  expect(await runGc(world.core, SPACE, 10)).toMatchObject({ deleted: 2 });
  expect(
    await commit('one', [
      [b, 1],
      [a, 2],
    ]),
  ).toEqual({ success: true, idempotent: true, revision: 1 });
  expect(
    await failureOf(
      commit('one', [
        [a, 2],
        [b, 2],
      ]),
    ),
  ).toMatchObject({
    code: 'IDEMPOTENCY_CONFLICT',
    status: 409,
  });
  expect(await failureOf(commit('three', [[a, 1]]))).toMatchObject({ code: 'NOT_FOUND', status: 404 });
});

test('one request id twice at once commits once', async () => {
  const [a] = threeNodes();
  await world.publish(a);
  const answers = await Promise.all([1, 2, 3].map(() => commit('one', [[a, 5]])));
  expect(answers.map(({ revision }) => revision)).toEqual([1, 1, 1]);
  expect(answers.filter(({ idempotent }) => !idempotent)).toHaveLength(1);
  expect((await world.row(a))?.rootRefCount).toBe(5);
});

test('domains have their own revisions, balances and request ids', async () => {
  const [a] = threeNodes();
  await world.publish(a);
  expect(await commit('one', [[a, 5]], 'alpha')).toMatchObject({ revision: 1, idempotent: false });
  expect(await commit('one', [[a, -3]], 'beta')).toMatchObject({ revision: 1, idempotent: false });
  expect([await balances('alpha'), await balances('beta'), await balances('gamma')]).toEqual([
    { [a.hash]: 5 },
    { [a.hash]: -3 },
    {},
  ]);
  expect(await world.row(a)).toMatchObject({ rootRefCount: 2, heldDomainCount: 2 });
  // The aggregate decides, not the domain: alpha holds 5, the node only 2.
  expect(await failureOf(commit('two', [[a, -3]], 'alpha'))).toMatchObject({ code: 'CONFLICT' });
});

test('a missing node is 404 before any conflict; a conflict names the first hash that cannot change so', async () => {
  const [a, b, c] = threeNodes();
  await world.publish(a, c);
  const missing = await failureOf(
    commit('one', [
      [a, -1],
      [b, 0],
      [c, -1],
    ]),
  );
  expect(missing).toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining(b.hash) });
  await world.publish(b);
  const conflict = await failureOf(
    commit('one', [
      [a, 1],
      [b, -1],
      [c, -1],
    ]),
  );
  expect(conflict.code).toBe('CONFLICT');
  expect(conflict.message).toContain(`${b.hash} would have a negative aggregate`);
  // Nothing of either was recorded: the id is free and the revision is the first.
  expect(await balances()).toEqual({});
  expect(await commit('one', [[a, 1]])).toEqual({ success: true, idempotent: false, revision: 1 });
});

test('a delta of 0 only needs the row: balance and counts stay, the revision grows', async () => {
  const [a] = threeNodes();
  const waiting = smallNode(9, [a.hash]);
  await world.upload(waiting);
  expect(await commit('one', [[waiting, 0]])).toMatchObject({ revision: 1 });
  expect(await failureOf(commit('two', [[waiting, 1]]))).toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('not ready'),
  });
  expect(await failureOf(commit('two', [[a, 0]]))).toMatchObject({ code: 'NOT_FOUND' });
  expect(await world.row(waiting)).toMatchObject({ rootRefCount: 0, heldDomainCount: 0 });
  expect(await page()).toEqual({ refDomain: 'domain', revision: 1, items: [], nextCursor: null });
});

test('a node that is rotten or claimed takes no positive delta; a rotten one gives its roots back', async () => {
  const node = objectNode(1);
  await world.publish(node);
  await commit('one', [[node, 2]]);
  const setState = (state: 'ready' | 'rotten' | 'claimed') =>
    world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(node.hash))!;
      await tx.update('node', row, { ...row, state });
    });
  await setState('rotten');
  expect(await failureOf(commit('two', [[node, 1]]))).toMatchObject({ code: 'CONFLICT' });
  expect(await commit('three', [[node, -2]])).toMatchObject({ revision: 2 });
  await setState('claimed');
  expect(await failureOf(commit('four', [[node, 1]]))).toMatchObject({ code: 'CONFLICT' });
  expect(await failureOf(commit('five', [[node, -1]]))).toMatchObject({ code: 'CONFLICT' });
  expect(await commit('six', [[node, 0]])).toMatchObject({ revision: 3 });
});

test('the aggregate may reach 2^53 - 1 and not pass it', async () => {
  const [a] = threeNodes();
  await world.publish(a);
  await setRootRefCount(a, 'huge', MOST - 1);
  expect(await commit('one', [[a, 1]])).toMatchObject({ revision: 1 });
  expect(await failureOf(commit('two', [[a, 1]]))).toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('overflow'),
  });
  expect((await world.row(a))?.rootRefCount).toBe(MOST);
});

test('a balance may reach 2^53 - 1 in its domain and not pass it, whatever the aggregate', async () => {
  const [a] = threeNodes();
  await world.publish(a);
  await setRootRefCount(a, 'most', MOST);
  await commit('one', [[a, -10]], 'least');
  expect(await failureOf(commit('two', [[a, 1]], 'most'))).toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('in this refDomain'),
  });
});

test('a walk shows the balances of its first page whatever is committed in between', async () => {
  const [a, b, c] = threeNodes();
  await world.publish(a, b, c);
  await commit('one', [
    [a, 1],
    [b, 2],
    [c, 3],
  ]);
  const first = await page();
  expect(first).toMatchObject({
    revision: 1,
    items: [
      { hash: a.hash, refCount: 1 },
      { hash: b.hash, refCount: 2 },
    ],
  });
  await commit('two', [
    [a, -1],
    [c, -3],
  ]);
  await commit('three', [[c, 7]]);
  expect(await page(first.nextCursor!)).toEqual({
    refDomain: 'domain',
    revision: 1,
    items: [{ hash: c.hash, refCount: 3 }],
    nextCursor: null,
  });
  expect(await balances()).toEqual({ [b.hash]: 2, [c.hash]: 7 });
});

test('a last page that is exactly full has no next cursor', async () => {
  const [a, b] = threeNodes();
  await world.publish(a, b);
  await commit('one', [
    [a, 1],
    [b, 1],
  ]);
  expect((await page(undefined, 2)).nextCursor).toBeNull();
  expect((await page(undefined, 1)).nextCursor).not.toBeNull();
});

test('a cursor is good in its own domain for 24 h of later commits, then 409', async () => {
  const [a, b, c] = threeNodes();
  await world.publish(a, b, c);
  await commit('one', [
    [a, 1],
    [b, 1],
    [c, 1],
  ]);
  const { nextCursor } = await page();
  for (const node of [a, b, c]) await world.lease(node, 2 * DAY_MS);
  await commit('two', [[c, 1]]);
  // Cursors name the previous revision until the commit that supersedes it has ended.
  world.now += DAY_MS + MINUTE_MS - 1;
  await world.sweepAll();
  expect((await page(nextCursor!)).items).toEqual([{ hash: c.hash, refCount: 1 }]);
  world.now += 1;
  await world.sweepAll();
  expect(await failureOf(page(nextCursor!))).toMatchObject({ code: 'CONFLICT', status: 409 });
  const elsewhere = [page(nextCursor!, 2, 'other'), page(`${nextCursor!.slice(0, -2)}AA`), page('x')];
  for (const request of elsewhere) {
    expect(await failureOf(request)).toMatchObject({ code: 'INVALID_REQUEST', status: 400 });
  }
  const otherSpace = { ...SPACE, spaceId: 'Space' };
  const foreign = listRootRefs(world.core, otherSpace, 'domain', { limit: 2, cursor: nextCursor! });
  expect(await failureOf(foreign)).toMatchObject({ code: 'INVALID_REQUEST' });
});

test('every walk has its 24 h, also one that begins when the note of another has nearly ended', async () => {
  const [a, b, c] = threeNodes();
  await world.publish(a, b, c);
  for (const node of [a, b, c]) await world.lease(node, 7 * DAY_MS);
  await commit('one', [
    [a, 1],
    [b, 1],
    [c, 1],
  ]);
  for (let walk = 1; walk <= 4; walk += 1) {
    const { nextCursor } = await page();
    world.now += DAY_MS - 1;
    await commit(`walk ${walk}`, [[c, 1]]);
    await world.sweepAll();
    expect((await page(nextCursor!)).items).toEqual([{ hash: c.hash, refCount: walk }]);
  }
  const { nextCursor } = await page();
  world.now += 2 * DAY_MS;
  await commit('later', [[c, 1]]);
  expect(await failureOf(page(nextCursor!))).toMatchObject({ code: 'CONFLICT', status: 409 });
});

test('a list is answered on a full disk, which takes no note of its walk', async () => {
  const [a, b, c] = threeNodes();
  await world.publish(a, b, c);
  await commit('one', [
    [a, 1],
    [b, 1],
    [c, 1],
  ]);
  const transact = () => Promise.reject(new StoreUnavailable('the disk is full'));
  const metadata = new Proxy(world.core.metadata, {
    get: (target, name) => (name === 'transact' ? transact : Reflect.get(target, name).bind(target)),
  });
  const list = (isLow: boolean) =>
    listRootRefs({ ...world.core, metadata, freeSpace: { isLowFor: () => isLow } }, SPACE, 'domain', {
      limit: 2,
    });
  expect((await list(true)).items).toHaveLength(2);
  await expect(list(false)).rejects.toThrow('the disk is full');
});

test('a commit that protects and a collection that takes cannot both have their way', async () => {
  const [a] = threeNodes();
  const node = objectNode(1);
  await world.publish(a, node);
  world.now += MINUTE_MS;
  const [answer, pass] = await Promise.all([
    commit('one', [[node, 1]]).catch((error: { code: string }) => error.code),
    runGc(world.core, SPACE, 10),
  ]);
  const row = await world.row(node);
  if (typeof answer === 'string')
    expect([answer === 'CONFLICT' || answer === 'NOT_FOUND', row]).toEqual([true, undefined]);
  else expect([row?.state, row?.rootRefCount, pass.deleted]).toEqual(['ready', 1, 1]);
});
