/** `check`, `explain` and `gc --plan` on a real PostgreSQL and a real S3, beside the server that works on them. */
import { afterAll, afterEach, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines } from './support/cluster.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp, runHoldfast, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const TEST_MS_MAX = 300_000;

const engines = await openEngines();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(() => engines.close());

const environment = {
  ...makeS3Environment(engines.bucket),
  HOLDFAST_METADATA: engines.metadataUrl,
  HOLDFAST_CONTENT: formatContentUrl(engines.bucket),
};

/** The fields of all three answers. */
interface Answer {
  readonly findings: readonly {
    readonly kind: string;
    readonly hash: string | null;
    readonly repaired: boolean;
  }[];
  readonly chain: readonly { readonly hash: string }[];
}

async function run(...args: readonly string[]): Promise<{ exitCode: number; json: Answer; stderr: string }> {
  const { exitCode, stdout, stderr } = await runHoldfast([...args, '--json'], { environment });
  return { exitCode, json: stdout === '' ? undefined : JSON.parse(stdout), stderr };
}

test(
  'tampered rows and a lost object are found, named, repaired where possible; nodes are explained',
  async () => {
    const folder = makeTempFolder('inspect');
    cleanups.push(() => folder.remove());
    const start = async () => {
      const server = await startServer({ data: `${folder.path}/data`, environment });
      cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
      return server;
    };
    const server = await start();
    const issuer = makeIssuer('https://inspected.test');
    await addApp(`${folder.path}/data`, 'inspected', issuer, engines.metadataUrl);
    const clientOf = ({ url }: { readonly url: string }) =>
      makeSpaceClient(url, 'inspected', 'space', issuer.token('space'));
    const client = clientOf(server);
    const child = makeNode('the child');
    const lost = makeNode('the lost one');
    const parent = makeNode('the parent', { refs: [child.hash, child.hash, lost.hash] });
    for (const node of [child, lost, parent]) await client.store(node, 3_600_000);
    await client.commit('r1', { [parent.hash]: 1 });
    expect(await run('check')).toMatchObject({ exitCode: 0, json: { ok: true, checked: 3, findings: [] } });

    const where = ['--app', 'inspected', '--space', 'space'];
    const explained = await run('explain', child.hash, ...where);
    expect(explained.json).toMatchObject({ hash: child.hash, state: 'ready', collectableAt: null });
    expect(explained.json.chain.map(({ hash }) => hash)).toEqual([child.hash, parent.hash]);
    expect(await run('explain', makeNode('none').hash, ...where)).toMatchObject({ exitCode: 1 });
    expect(await run('gc', '--plan', ...where)).toMatchObject({
      exitCode: 0,
      json: { examined: 0, deleted: 0, reclaimedContentBytes: 0, nodes: [] },
    });

    const sql = new SQL(engines.metadataUrl, { max: 1 });
    cleanups.push(() => sql.close());
    await sql`UPDATE nodes SET child_ref_count = 7 WHERE hash = ${Buffer.from(child.hash, 'hex')}`;
    await sql`UPDATE nodes SET root_ref_count = 4 WHERE hash = ${Buffer.from(parent.hash, 'hex')}`;
    await sql`UPDATE usage_counters SET node_count = node_count + 5 WHERE ctid = (SELECT ctid FROM usage_counters LIMIT 1)`;
    const found = await run('check');
    expect([found.exitCode, found.json.findings.map((each) => [each.kind, each.hash])]).toEqual([
      1,
      expect.arrayContaining([
        ['row', child.hash],
        ['row', parent.hash],
        ['edges', child.hash],
        ['root-refs', parent.hash],
        ['usage', null],
      ]),
    ]);
    const repaired = await run('check', '--repair');
    // Each row has a sum, and the recount of usage finds the counters wrong too.
    expect(repaired.json.findings.map((each) => [each.kind, each.repaired]).sort()).toEqual([
      ['row', true],
      ['row', true],
      ['row', true],
      ['usage', true],
    ]);
    expect(await run('check', '--rehash', 'all')).toMatchObject({ exitCode: 0, json: { findings: [] } });

    // A server would find the damage by itself.
    expect(await server.end('SIGTERM')).toBe(0);
    const row = (
      await sql`SELECT encode(generation, 'hex') AS generation FROM nodes
      WHERE hash = ${Buffer.from(lost.hash, 'hex')}`
    )[0];
    await sql`UPDATE contents SET integrity = ${Buffer.from('"another"')} WHERE generation = ${Buffer.from(row.generation, 'hex')}`;
    const damaged = await run('check', '--repair');
    expect([damaged.exitCode, damaged.json.findings]).toEqual([
      1,
      [expect.objectContaining({ kind: 'lost', hash: lost.hash, repaired: false })],
    ]);
    expect(damaged.stderr).toEndWith('1 finding, 0 repaired: each finding that is left says what to do\n');
    expect((await run('check')).json.findings).toMatchObject([{ kind: 'rotten', hash: lost.hash }]);
    await clientOf(await start()).store(lost);
    expect(await run('check')).toMatchObject({ exitCode: 0, json: { ok: true } });
  },
  TEST_MS_MAX,
);
