/** Rows on PostgreSQL from before sums get their sums while the server runs; those of nodes once their bytes are proven. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { makeNode } from '../../../test/support/canonical-node.ts';
import type { TestDatabases } from '../../../test/support/postgres-server.ts';
import { scrub } from '../core/collect/scrub.ts';
import { sweep } from '../core/collect/sweep.ts';
import type { Core } from '../core/core.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { spaceKeyOf } from '../core/space-map.ts';
import type { ScrubPosition } from '../core/upkeep-ports.ts';
import { BACKGROUND_STATEMENTS } from '../engine/postgres/statements.ts';
import {
  coreOf,
  makeContent,
  openDatabases,
  openInstance,
  publish,
} from '../engine/postgres/test/postgres-fixture.ts';
import { SPACE } from '../engine/test/samples.ts';
import { checkDeployment } from './check-deployment.ts';

const START_MS_MAX = 300_000;
const STEPS_MAX = 50;
const LEAF = makeNode('leaf');
const ROOT = makeNode('root', { refs: [LEAF.hash] });
const OTHER = makeNode('other');
/** The state in which migrations leave existing rows. */
const FORGET = [
  ...[
    'uploads',
    'discards',
    'balances',
    'balance_history',
    'usage_counters',
    'loose_edges',
    'tombstones',
  ].map((table) => `UPDATE ${table} SET row_sum = NULL`),
  'UPDATE nodes SET row_sum = NULL, fixed_sum = NULL',
  'UPDATE contents SET row_sum = NULL, place_sum = NULL',
  'UPDATE domains SET row_sum = NULL, count_sum = NULL',
  'UPDATE root_ref_commits SET row_sum = NULL, request_sum = NULL',
  "DELETE FROM notes WHERE name = 'sums-filled'",
];

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

async function upkeep(core: Core): Promise<void> {
  for (let steps = 0; (await sweep(core)).moreToDo; steps += 1) expect(steps).toBeLessThan(STEPS_MAX);
  let after: ScrubPosition | undefined;
  do after = (await scrub(core, after)).next;
  while (after !== undefined);
}

test(
  'all of them get a sum but one that its bytes contradict',
  async () => {
    const url = await databases.createDatabase();
    const content = makeContent(Date.now);
    let instance = await openInstance(url);
    for (const node of [LEAF, ROOT, OTHER]) await publish(coreOf(instance, content), content, node);
    for (const requestId of ['a', 'b']) {
      const changes = [{ hash: ROOT.hash, delta: 1 }];
      await updateRootRefs(coreOf(instance, content), SPACE, 'photos', { requestId, changes });
    }
    for (const sql of FORGET) await instance.pool.run('forgetting', sql, []);
    await instance.pool.run(
      'damaging',
      `UPDATE nodes SET content_type = 'application/octet-strean' WHERE hash = '\\x${OTHER.hash}'`,
      [],
    );
    await instance.close();

    instance = await openInstance(url);
    const core = coreOf(instance, content);
    const check = () =>
      checkDeployment(core, {
        ...{ isRepaired: false, rehashPercent: 100, signal: new AbortController().signal },
        report: () => undefined,
      });
    expect((await check()).unsummed).toBeGreaterThan(9);
    await upkeep(core);
    const { unsummed, findings } = await check();
    expect([unsummed, findings.flatMap(({ hash }) => hash ?? [])]).toEqual([1, [OTHER.hash]]);
    const closed = await instance.pool.run('purging', BACKGROUND_STATEMENTS.closeDomains, [
      spaceKeyOf(SPACE),
    ]);
    expect([closed.count, (await check()).unsummed]).toEqual([1, 1]);
    // From now on a flipped bit is found.
    for (const [table, set] of [
      ['root_ref_commits', "request_id = 'c' WHERE request_id = 'a'"],
      ['nodes', `size = size + 1 WHERE hash = '\\x${LEAF.hash}'`],
    ])
      await instance.pool.run('damaging', `UPDATE ${table} SET ${set}`, []);
    expect((await check()).findings.filter(({ kind }) => kind === 'row').length).toBeGreaterThanOrEqual(3);
    await instance.close();
  },
  START_MS_MAX,
);
