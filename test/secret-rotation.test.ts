/** `holdfast secret rotate` beside real servers: they refuse nothing that was handed out before or meanwhile. */
import { afterAll, expect, test } from 'bun:test';
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { openEngines, startCluster } from './support/cluster.ts';
import { APP, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';

const TEST_MS_MAX = 300_000;
/** 10 s until it signs, and the servers' looks */
const EFFECT_MS_MAX = 180_000;
/** Answers in a row over fresh connections: both processes have answered. */
const AGREEING_ANSWERS = 12;
const HEX_SECRET = /[0-9a-f]{64}/;

const engines = await openEngines();
afterAll(() => engines.close());

async function waitFor(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + EFFECT_MS_MAX;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${EFFECT_MS_MAX} ms`);
    await Bun.sleep(100);
  }
}

/**
 * Hands out, rotates, and uses all that was handed out before, until the new secret signs, and after. Then only the new one is good:
 * `dropFormer` ends the time of the former one.
 */
async function expectOverlap(
  client: SpaceClient,
  place: readonly string[],
  dropFormer: () => Promise<void>,
): Promise<string> {
  const roots = [makeNode('one'), makeNode('two')];
  for (const node of roots) await client.store(node);
  await client.commit('roots', Object.fromEntries(roots.map(({ hash }) => [hash, 1])));
  const takeCursor = async (): Promise<string> => (await client.roots('?limit=1')).json.nextCursor;
  const use = async (cursor: string): Promise<number> => (await client.roots(`?cursor=${cursor}`)).status;
  const early = makeNode('early');
  const { upload } = (await client.lease(early.hash)).json;
  const cursor = await takeCursor();

  const rotated = await runHoldfast(['secret', 'rotate', '--json', ...place]);
  expect([rotated.exitCode, rotated.stderr]).toEqual([0, '']);
  expect(rotated.stdout).not.toMatch(HEX_SECRET);
  const { signsFromAt, formerGoodUntilAt } = JSON.parse(rotated.stdout);
  expect(formerGoodUntilAt - signsFromAt).toBe(8 * 24 * 60 * 60 * 1000);

  // Each process verifies what another signs, at every moment of the change.
  let count = 0;
  let usedSinceSigning = 0;
  await waitFor('the new secret signs', async () => {
    const isSigning = Date.now() >= signsFromAt;
    const node = makeNode(`meanwhile ${count++}`);
    const given = (await client.lease(node.hash)).json.upload;
    expect((await client.put(given, node.bytes)).status).toBe(200);
    expect(await use(await takeCursor())).toBe(200);
    if (isSigning) usedSinceSigning += 1;
    return usedSinceSigning >= AGREEING_ANSWERS;
  });
  expect((await client.put(upload, early.bytes)).status).toBe(200);
  expect(await use(cursor)).toBe(200);

  const late = await takeCursor();
  await dropFormer();
  let refusals = 0;
  await waitFor('the former secret is refused', async () => {
    refusals = (await use(cursor)) === 400 ? refusals + 1 : 0;
    return refusals >= AGREEING_ANSWERS;
  });
  expect(await use(late)).toBe(200);
  return cursor;
}

test(
  'in a folder with two workers; a former secret whose time is over is refused',
  async () => {
    const running = await startFreshServer('rotation', { arguments: ['--workers', '2'] });
    try {
      const path = join(running.data, 'secret.key');
      const before = JSON.parse(readFileSync(path, 'utf8'));
      const url = running.server.url;
      const client = makeSpaceClient(url, APP, SPACE, running.issuer.token(SPACE), false);
      const cursor = await expectOverlap(client, ['--data', running.data], async () => {
        const kept = JSON.parse(readFileSync(path, 'utf8'));
        expect(kept.secrets[0].secret).toBe(before.secrets[0].secret);
        expect(statSync(path).mode & 0o777).toBe(0o600);
        kept.secrets[0].verifiesUntilAt = Date.now() - 1;
        delete kept.sha256;
        writeFileSync(`${path}.new`, JSON.stringify(kept), { mode: 0o600 });
        renameSync(`${path}.new`, path);
      });
      await running.restart('SIGTERM');
      expect((await running.client().roots(`?cursor=${cursor}`)).status).toBe(400);
      const next = (await running.client().roots('?limit=1')).json.nextCursor;
      expect((await running.client().roots(`?cursor=${next}`)).status).toBe(200);
    } finally {
      await running.remove();
    }
  },
  TEST_MS_MAX,
);

test(
  'of two processes over one database',
  async () => {
    const cluster = await startCluster(engines, { processes: 2 });
    try {
      await using sql = new Bun.SQL(engines.metadataUrl, { max: 1 });
      await expectOverlap(cluster.client(), ['--metadata', engines.metadataUrl], async () => {
        await sql`DELETE FROM secrets WHERE name = 'signer-all'`;
      });
      const again = ['secret', 'rotate', '--metadata', engines.metadataUrl];
      const both = await Promise.all([runHoldfast(again), runHoldfast(again)]);
      expect(both.map(({ exitCode }) => exitCode).sort()).toEqual([0, 1]);
    } finally {
      await cluster.remove();
    }
  },
  TEST_MS_MAX,
);

test('without a deployment says so and makes nothing', async () => {
  const { exitCode, stderr } = await runHoldfast(['secret', 'rotate', '--data', '/nowhere/at-all']);
  expect([exitCode, stderr.split('\n').length]).toEqual([1, 2]);
  expect(stderr).toContain('holds no deployment');
});
