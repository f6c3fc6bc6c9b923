/** Nodes in packs: the check of a deployment, a copy and the check of a backup. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { databasePath, nextTurn } from '../../../test/support/embedded-files.ts';
import { packed, plain } from '../../../test/support/planted-pack.ts';
import { changeRows } from '../../../test/support/reseal-rows.ts';
import { verifyNodes } from '../backup/verify-nodes.ts';
import { CoreWorld, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { PackClient } from '../core/test/pack-fixture.ts';
import { checkDeployment } from './check-deployment.ts';

let world: CoreWorld;
let client: PackClient;
let nodes: CanonicalNode[];
let id: string;
beforeEach(async () => {
  world = await CoreWorld.open();
  client = new PackClient(world, false);
  const [first, second] = [smallNode(1), smallNode(2)];
  nodes = [first, second, smallNode(3, [first.hash])];
  ({ id } = await client.send(nodes, [plain(first), packed(second), plain(nodes[2] as CanonicalNode)]));
});
afterEach(() => world.close());

const { signal } = new AbortController();
const check = (isRepaired = false, rehashPercent = 0) =>
  checkDeployment(world.core, { isRepaired, rehashPercent, signal, report: () => undefined });
const CLEAN = { ok: true, checked: 3, unsummed: 0, findings: [] };

test('sound packs are no finding', async () => {
  expect(await check()).toEqual(CLEAN);
  expect(await check(true, 100)).toEqual(CLEAN);
});

test('a count of live records that is wrong is found', async () => {
  const tamper = async (by: number): Promise<void> => {
    await nextTurn();
    const database = new Database(databasePath(world.dataDir));
    changeRows(database, `UPDATE packs SET live_records = live_records + ${by}`);
    database.close();
    await world.restart();
  };
  await tamper(-1);
  const { ok, findings } = await check(true);
  expect([ok, findings]).toEqual([
    false,
    [expect.objectContaining({ kind: 'usage', hash: null, repaired: false })],
  ]);
  expect(findings[0]?.message).toContain('is 2 records');
  await tamper(1);
  expect(await check()).toEqual(CLEAN);
});

test('a damaged record is found as its node, and a lost pack as all of its nodes', async () => {
  const [first, second] = nodes as [CanonicalNode, CanonicalNode];
  await client.spoil(second, 'flipped');
  expect((await check()).findings).toMatchObject([{ kind: 'damaged', hash: second.hash }]);
  expect(await verify()).toEqual([second.hash]);
  await client.mend(second);
  expect([await check(), await verify()]).toEqual([CLEAN, []]);
  await client.spoil(first, 'lost');
  const lost = (await check(true)).findings;
  expect(lost.map(({ kind }) => kind)).toEqual(['lost', 'lost', 'lost']);
  expect(lost.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash).sort());
  for (const node of nodes) expect((await world.row(node))?.state).toBe('rotten');
  await client.mend(first);
  expect((await check(true)).findings.every(({ repaired }) => repaired)).toBe(true);
  expect(await check()).toEqual(CLEAN);
  expect((await client.use(id)).liveRecords).toBe(3);
});

async function verify(): Promise<string[]> {
  const { metadata, content } = world.core;
  const { damaged } = await verifyNodes({ metadata, content, onProgress: () => undefined });
  expect(damaged.every(({ space }) => space.spaceId === SPACE.spaceId)).toBe(true);
  return damaged.map(({ hash }) => hash);
}
