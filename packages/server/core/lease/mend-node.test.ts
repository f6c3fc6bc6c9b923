/** Rows of nodes in which much is wrong: an upload of the node heals them, and so does a repair by the bytes that are there. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { databasePath, nextTurn } from '../../../../test/support/embedded-files.ts';
import { checkDeployment } from '../../inspect/check-deployment.ts';
import { runGc } from '../collect/run-gc.ts';
import { createGeneration } from '../generation.ts';
import type { ContentRow, NodeRow } from '../model.ts';
import { readContent } from '../read/read-content.ts';
import { updateRootRefs } from '../refs/update-root-refs.ts';
import { CALLER, CoreWorld, DAY_MS, MINUTE_MS, objectNode, SPACE, smallNode } from '../test/core-fixture.ts';
import { PackClient, statesOf } from '../test/pack-fixture.ts';
import { closeFormer } from './mend-node.ts';

const child = smallNode(1);
const [middle, other] = [objectNode(2, [child.hash, child.hash]), smallNode(3)];
const parent = makeNode('the parent', { refs: [middle.hash] });

/** More than the sum of the row can prove. */
const UNPROVEN = 'lease_expires_at = 5, claim_held_until = 9, root_ref_count = 40';

let world: CoreWorld;
let client: PackClient;
beforeEach(async () => {
  world = await CoreWorld.open();
  client = new PackClient(world, false);
  await world.publish(child, middle, parent, other);
  const changes = [{ hash: parent.hash, delta: 1 }];
  await updateRootRefs(world.core, SPACE, 'main', { requestId: 'one', changes });
});
afterEach(() => world.close());

/** The server is stopped meanwhile. */
async function spoil(set: string, { hash }: CanonicalNode = middle): Promise<NodeRow> {
  const before = (await world.row({ hash } as CanonicalNode)) as NodeRow;
  await nextTurn();
  const database = new Database(databasePath(world.dataDir));
  database.run('PRAGMA ignore_check_constraints = ON');
  expect(database.run(`UPDATE nodes SET ${set} WHERE hash = x'${hash}'`).changes).toBe(1);
  database.close();
  await world.restart();
  return before;
}

const check = (isRepaired: boolean) =>
  checkDeployment(world.core, {
    ...{ isRepaired, rehashPercent: 100, signal: new AbortController().signal, report: () => undefined },
  });

async function read(node: CanonicalNode): Promise<Uint8Array> {
  const { body } = await readContent(world.core, SPACE, node.hash, undefined, CALLER);
  return body instanceof Uint8Array ? body : new Uint8Array(await body.arrayBuffer());
}

const WRONG = [
  [
    'what its bytes prove',
    "size = 7, canonical_size = 3, content_type = 'x/y', refs = x'', stored_size = NULL",
  ],
  ['its state', 'state = 3'],
  ['its state and its edges', 'state = 0, child_ref_count = 0, size = -1'],
] as const;

describe.each(WRONG)('a row with %s wrong', (_, set) => {
  test('is asked for, and an upload gives it back as it was', async () => {
    const before = await spoil(set);
    await expect(read(middle)).rejects.toThrow('damaged');
    expect((await world.upload(middle)).state).toBe('ready');
    expect(await world.row(middle)).toEqual(before);
    expect(await read(middle)).toEqual(middle.content);
    expect(await check(false)).toMatchObject({ findings: [] });
  });

  test('is put right by a repair, by its own bytes', async () => {
    const before = await spoil(set);
    const { findings } = await check(true);
    expect(findings).toMatchObject([{ kind: 'row', hash: middle.hash, repaired: true }]);
    expect(await world.row(middle)).toEqual(before);
    expect(await check(false)).toMatchObject({ findings: [] });
  });
});

test('where nothing proves the counts they rise, the node is leased for a day, and a repair counts again', async () => {
  await spoil(`${UNPROVEN}, child_ref_count = 0`);
  expect((await check(true)).findings.map(({ repaired }) => repaired)).not.toContain(false);
  expect(await world.row(middle)).toMatchObject({
    ...{ state: 'ready', leaseExpiresAt: world.now + DAY_MS, childRefCount: 1, rootRefCount: 0 },
  });
  world.now += 2 * DAY_MS;
  expect(await runGc(world.core, SPACE, 100)).toMatchObject({ deleted: 1 });
  expect(await read(middle)).toEqual(middle.content);
  expect(await check(false)).toMatchObject({ findings: [] });
});

test('an upload that heals an unproven row leaves no former bytes', async () => {
  const objects = world.objectFiles().length;
  await spoil(UNPROVEN);
  expect((await world.upload(middle)).state).toBe('ready');
  await world.sweepAll();
  expect(world.objectFiles().length).toBe(objects);
  using database = new Database(databasePath(world.dataDir), { readonly: true });
  expect(database.query('SELECT count(*) AS count FROM contents').get()).toEqual({ count: 4 });
  expect(await read(middle)).toEqual(middle.content);
  await check(true);
  expect(await check(false)).toMatchObject({ findings: [] });
});

test('only bytes that are proven to be those of the node go with the row that named them', async () => {
  const content = (await client.content(middle)) as ContentRow;
  const { generation, canonicalSize, integrity } = content;
  const inPack = smallNode(7);
  await client.send([inPack]);
  const packed = await client.place(inPack);
  const other = createGeneration(world.now, 'f'.repeat(20));
  const keeps = (differs: Partial<ContentRow>, former = other): Promise<boolean> =>
    world.core.metadata.transact(SPACE, async (tx) => {
      if (former === other) await tx.insert('content', { ...content, generation: other, ...differs });
      await closeFormer(tx, former, content, { uploads: 'server', keepReplacedMs: 0 });
      const isKept = (await tx.findContent(former)) !== undefined;
      if (isKept && former === other) await tx.delete('content', other);
      return isKept;
    });
  expect(await keeps({ canonicalSize: canonicalSize + 1 })).toBe(true);
  expect(await keeps({ integrity: integrity.map((byte) => byte ^ 1) })).toBe(true);
  expect(await keeps({}, generation)).toBe(true);
  expect(await keeps({ packed: { ...packed, offset: 0 } })).toBe(true);
  expect(await keeps({})).toBe(false);
});

test('an upload that heals the row of a parent that waits is told to wait', async () => {
  const waiting = smallNode(5, [smallNode(6).hash]);
  await world.upload(waiting);
  await spoil(UNPROVEN, waiting);
  expect((await world.upload(waiting)).state).toBe('validated_awaiting_children');
  expect(await world.row(waiting)).toMatchObject({ state: 'waiting', leaseExpiresAt: 0 });
  await check(true);
});

test('many nodes are leased around a damaged row, which comes in a pack', async () => {
  const before = await spoil('size = 1, refs = zeroblob(32)');
  const nodes = [child, middle, parent, other];
  const { results, pack } = await client.leases(nodes, { pack: true });
  expect(statesOf({ results })).toEqual(['ready', 'absent', 'ready', 'ready']);
  expect(pack).toBeDefined();
  expect(statesOf(await client.send(nodes))).toEqual(['ready', 'ready', 'ready', 'ready']);
  expect(await world.row(middle)).toMatchObject({ ...before, leaseExpiresAt: world.now + MINUTE_MS });
  expect(await read(middle)).toEqual(middle.content);
  expect(await check(false)).toMatchObject({ findings: [] });
});

test('a parent that waits asks for a child whose row is damaged', async () => {
  const late = smallNode(4);
  const waiting = makeNode('waiting', { refs: [child.hash, late.hash] });
  await world.upload(waiting);
  await spoil('size = 1', child);
  await world.publish(late);
  const answer = await world.lease(waiting);
  expect(answer).toMatchObject({ state: 'validated_awaiting_children', childHashes: [child.hash] });
  await world.publish(child);
  expect((await world.lease(waiting)).state).toBe('ready');
  expect(await check(false)).toMatchObject({ findings: [] });
});

test.each([
  ['that a domain holds', parent, middle],
  ['below one that a domain holds', middle, child],
])('a node %s is ready, so that the sweep leaves it, though its child is rotten', async (_, node, lost) => {
  await world.spoil(lost, 'lost');
  await expect(read(lost)).rejects.toThrow();
  await spoil(UNPROVEN, node);
  await check(true);
  expect(await world.row(lost)).toMatchObject({ state: 'rotten' });
  expect(await world.row(node)).toMatchObject({ state: 'ready', leaseExpiresAt: world.now + DAY_MS });
  await world.upload(lost);
  world.now += 2 * DAY_MS;
  await world.sweepAll();
  expect(await read(node)).toEqual(node.content);
  expect(await check(false)).toMatchObject({ findings: [] });
});
