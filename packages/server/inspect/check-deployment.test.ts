/** The check of a deployment finds what was tampered with, repairs what can be, and is not misled by writers. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { databasePath, nextTurn } from '../../../test/support/embedded-files.ts';
import { changeRows } from '../../../test/support/reseal-rows.ts';
import { purgeSpace } from '../core/collect/purge-space.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { CoreWorld, objectNode, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { checkDeployment } from './check-deployment.ts';
import { type Recount, recountSpace } from './recount-space.ts';

let world: CoreWorld;
let parent: CanonicalNode;
let child: CanonicalNode;
let object: CanonicalNode;
beforeEach(async () => {
  world = await CoreWorld.open();
  child = smallNode(1);
  object = objectNode(2);
  parent = smallNode(3, [child.hash, child.hash, object.hash]);
  await world.publish(child, object, parent);
  await updateRootRefs(world.core, SPACE, 'domain', {
    requestId: 'r1',
    changes: [{ hash: parent.hash, delta: 2 }],
  });
  await world.upload(smallNode(4, [smallNode(5).hash]));
});
afterEach(() => world.close());

const hashesOf = (nodes: readonly CanonicalNode[]): string[] => nodes.map(({ hash }) => hash);
const PAIRS_WRITTEN = 40;
const { signal } = new AbortController();
let reported: string[] = [];
const check = (isRepaired = false, rehashPercent = 0) =>
  checkDeployment(world.core, { isRepaired, rehashPercent, signal, report: (line) => reported.push(line) });

/** Changes rows directly while no process has the database open. */
async function tamper(sql: string): Promise<void> {
  await nextTurn();
  const database = new Database(databasePath(world.dataDir));
  changeRows(database, sql);
  database.close();
  await world.restart();
}

const CLEAN = { ok: true, checked: 4, unsummed: 0, findings: [] };

test('check finds nothing wrong in what the server wrote, even if a parent waits for its child', async () => {
  expect(await check()).toEqual(CLEAN);
  reported = [];
  expect(await check(true, 100)).toEqual(CLEAN);
  expect(reported).toContain('checking the sums of spaces');
  expect(reported).toContain('counting in Space "space" of App "app"');
  expect(reported).toContain('checking the bytes of Space "space" of App "app": 4 of 4 nodes');
  expect(reported).toContain('checking the pages of nodes of holdfast.db');
});

test.each([
  ['edges', 'nodes', "UPDATE nodes SET child_ref_count = child_ref_count + 1 WHERE hash = x'CHILD'"],
  ['edges', 'nodes', "UPDATE nodes SET child_ref_count = 0, collectable = 1 WHERE hash = x'CHILD'"],
  ['root-refs', 'nodes', "UPDATE nodes SET root_ref_count = 0, held_domain_count = 0 WHERE hash = x'PARENT'"],
  ['edges', 'loose', 'UPDATE loose_edges SET count = count + 4'],
  ['edges', 'loose', 'DELETE FROM loose_edges'],
  [
    'usage',
    'spaces',
    'UPDATE spaces SET node_count = node_count + 3, ready_content_bytes = 0, leased_count = 9',
  ],
])('%s of %s are found, repaired, and then right', async (kind, _, sql) => {
  await tamper(sql.replace('CHILD', child.hash).replace('PARENT', parent.hash));
  const found = await check();
  expect([found.ok, new Set(found.findings.map((each) => each.kind))]).toEqual([
    false,
    new Set([kind as never]),
  ]);
  expect(
    found.findings.every(({ app, space, repaired }) => app === 'app' && space === 'space' && !repaired),
  ).toBe(true);
  const repaired = await check(true);
  expect([repaired.ok, repaired.findings.map((each) => each.repaired)]).toEqual([
    false,
    found.findings.map(() => true),
  ]);
  expect(await check()).toEqual(CLEAN);
});

describe('a Space of more hashes than are held in memory', () => {
  let walks = 0;
  const onCounted = (): void => {
    walks += 1;
  };
  const recount = (hashesAtOnceMax: number) => {
    walks = 0;
    return world.core.metadata.inspect(SPACE, (snapshot) =>
      recountSpace(snapshot, { hashesAtOnceMax, onCounted }),
    );
  };

  test('is walked once, and once more for what is wrong, with the same findings and repairs', async () => {
    const nodes = Array.from({ length: 40 }, (_, seed) => smallNode(100 + seed));
    const absent = Array.from({ length: 250 }, (_, seed) => smallNode(1000 + seed).hash);
    await world.publish(...nodes, smallNode(200, hashesOf(nodes.slice(0, 30))));
    await world.upload(smallNode(300, absent));
    expect((await recount(1)).faults).toEqual([]);
    expect(walks).toBe(1);
    await tamper(`UPDATE nodes SET child_ref_count = child_ref_count + 1 WHERE hash = x'${nodes[3]?.hash}';
      UPDATE nodes SET root_ref_count = 2, held_domain_count = 1 WHERE hash = x'${nodes[35]?.hash}';
      DELETE FROM loose_edges WHERE hash = x'${absent[7]}'`);
    const [whole, parts] = [await recount(1000), await recount(1)];
    expect(walks).toBe(2);
    expect(whole.faults.map(({ kind }) => kind).toSorted()).toEqual(['edges', 'edges', 'root-refs']);
    expect([whole.repairs.nodes.length, whole.repairs.looseEdges.length]).toEqual([2, 1]);
    const sorted = ({ faults, repairs, nodes: count }: Recount) => [
      faults.map((fault) => JSON.stringify(fault)).toSorted(),
      repairs.nodes.map(({ hash }) => hash).toSorted(),
      [repairs.looseEdges, repairs.counters, count],
    ];
    expect(sorted(parts)).toEqual(sorted(whole));
    await check(true);
  });
});

test('revisions that an accepted restore or a purge skipped are no finding, but a lost commit is', async () => {
  const always = async () => true;
  const commit = (requestId: string, delta: number) =>
    updateRootRefs(world.core, SPACE, 'domain', { requestId, changes: [{ hash: parent.hash, delta }] });
  await world.core.metadata.settle('revisions', 1000);
  expect(await check()).toEqual(CLEAN);
  await commit('r2', 1);
  await commit('r3', 1);
  expect(await check()).toEqual(CLEAN);
  await tamper("DELETE FROM root_ref_commits WHERE request_id = 'r2'");
  expect((await check()).findings).toMatchObject([{ kind: 'history', repaired: false }]);
  await purgeSpace(world.core, SPACE, always);
  expect(await check()).toEqual({ ...CLEAN, checked: 0 });
  await world.publish(child, object, parent);
  await commit('r4', 1);
  expect(await check()).toMatchObject({ ok: true, findings: [] });
});

test('contradictory history and a missing row are named and left alone', async () => {
  await tamper(`UPDATE domains SET revision = 7;
     DELETE FROM contents WHERE generation IN (SELECT generation FROM nodes WHERE hash = x'${child.hash}');
     DELETE FROM nodes WHERE hash = x'${child.hash}'`);
  const { findings } = await check(true);
  const seen = findings.map(({ kind, hash }) => `${kind} ${hash === child.hash}`);
  expect(seen).toContain('history false');
  expect(seen).toContain('missing-child true');
  expect(findings.filter(({ kind }) => kind === 'history' || kind === 'missing-child')).toMatchObject([
    { repaired: false },
    { repaired: false },
  ]);
  // An operator would restore the rows from a backup; here a fresh upload does it.
  await tamper('UPDATE domains SET revision = 1');
  await world.publish(child);
  expect(await check()).toEqual(CLEAN);
});

test('missing or wrong bytes are named, a repair marks their nodes, and mended bytes are ready again', async () => {
  await world.spoil(object, 'lost');
  expect((await check()).findings).toMatchObject([{ kind: 'lost', hash: object.hash, repaired: false }]);
  expect((await world.row(object))?.state).toBe('ready');
  expect((await check(true)).findings).toMatchObject([{ kind: 'lost', hash: object.hash, repaired: false }]);
  expect((await world.row(object))?.state).toBe('rotten');
  expect((await check()).findings).toMatchObject([{ kind: 'rotten', hash: object.hash }]);
  await world.mend(object);
  expect((await check(true)).findings).toMatchObject([{ kind: 'rotten', hash: object.hash, repaired: true }]);
  expect(await check()).toEqual(CLEAN);
});

test('bytes of an upload that no lease has published yet are checked too', async () => {
  const [small, large] = [smallNode(50), objectNode(51)];
  for (const node of [small, large]) await world.put(await world.begin(node), node.bytes);
  expect(await check(false, 100)).toEqual(CLEAN);
  await nextTurn();
  const places = [small, large].map(({ hash }) => ({
    generation: findUploadGeneration(hash),
    isInline: hash === small.hash,
  }));
  const [inline, file] = places as [(typeof places)[0], (typeof places)[0]];
  world.spoiler.spoil(file, 'lost');
  expect((await check(true)).findings).toMatchObject([{ kind: 'lost', hash: large.hash, repaired: false }]);
  world.spoiler.spoil(inline, 'flipped');
  expect((await check(false, 100)).findings.map(({ kind, hash }) => [kind, hash])).toEqual(
    expect.arrayContaining([
      ['damaged', small.hash],
      ['lost', large.hash],
    ]),
  );
  for (const place of places) world.spoiler.restore(place);
  for (const node of [small, large]) expect((await world.lease(node)).state).toBe('ready');
  expect(await check(false, 100)).toEqual({ ...CLEAN, checked: 6 });
});

function findUploadGeneration(hash: string): string {
  using database = new Database(databasePath(world.dataDir), { readonly: true });
  const row = database
    .query<{ generation: Uint8Array }, [Uint8Array]>('SELECT generation FROM uploads WHERE hash = ?1')
    .get(Buffer.from(hash, 'hex'));
  return Buffer.from(row?.generation ?? []).toString('hex');
}

test('flipped bits are found if the bytes are read, and only then', async () => {
  await world.spoil(object, 'flipped', 5);
  await world.spoil(child, 'flipped');
  const { findings } = await check(false, 100);
  expect(findings.map(({ kind, hash }) => [kind, hash])).toEqual(
    [object.hash, child.hash].toSorted().map((hash) => ['damaged', hash]),
  );
  await world.mend(object);
  await world.mend(child);
  expect(await check(false, 100)).toEqual(CLEAN);
});

test('inline bytes of a wrong length and a missing record are found without reading bytes', async () => {
  const of = ({ hash }: CanonicalNode) =>
    `generation IN (SELECT generation FROM nodes WHERE hash = x'${hash}')`;
  await tamper(`UPDATE contents SET inline_bytes = substr(inline_bytes, 2) WHERE ${of(child)}`);
  expect((await check()).findings).toMatchObject([{ kind: 'damaged', hash: child.hash }]);
  await tamper(`DELETE FROM contents WHERE ${of(child)}`);
  expect((await check(true)).findings).toMatchObject([{ kind: 'lost', hash: child.hash }]);
  await world.publish(child);
  expect(await check()).toEqual(CLEAN);
});

test('rows that others write meanwhile are no findings, and a repair beside them is exact', async () => {
  // More than one page of a walk, so that commits happen between two pages.
  for (let seed = 10_000; seed < 10_600; seed += 1) await world.publish(smallNode(seed));
  await tamper(
    `UPDATE spaces SET node_count = node_count + 3; UPDATE nodes SET child_ref_count = 9 WHERE hash = x'${child.hash}'`,
  );
  let written = 0;
  let isWriting = true;
  const write = async (): Promise<void> => {
    for (; isWriting; written += 1) {
      const leaf = smallNode(100 + written);
      await world.publish(leaf, smallNode(1_000_000 + written, [leaf.hash, child.hash]));
      world.now += 1000;
      if (written % 8 === 0) await runGc(world.core, SPACE, 2);
    }
  };
  const writer = write();
  const first = await check(true);
  while (written < PAIRS_WRITTEN) expect((await check(true)).findings).toEqual([]);
  isWriting = false;
  await writer;
  expect(first.findings.length).toBeGreaterThan(0);
  expect(await check()).toMatchObject({ ok: true, findings: [] });
}, 300_000);
