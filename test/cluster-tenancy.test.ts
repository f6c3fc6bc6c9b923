/**
 * Quotas, revocations and purges on two servers over one PostgreSQL and one bucket, ordered by `holdfast` beside them. A quota of a
 * Space is exact however many publish at once on both.
 */
import { afterAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines, startCluster } from './support/cluster.ts';
import { APP, SPACE } from './support/running-server.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { runHoldfast } from './support/server-process.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const NODES = 24;
const HOUR_MS = 3_600_000;
const QUOTA = 10;
/** docs/operations.md: a revocation is in force everywhere after 5 s. A busy machine may add some. */
const EFFECT_MS_MAX = 5_000 + 60_000;

const engines = await openEngines();
const cluster = await startCluster(engines, { processes: 2 });
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

const operate = (...args: readonly string[]) => {
  const place = ['--metadata', engines.metadataUrl];
  const content = args[0] === 'space' ? ['--content', formatContentUrl(engines.bucket)] : [];
  return runHoldfast([...args, ...place, ...content], { environment: makeS3Environment(engines.bucket) });
};

async function order(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await operate(...args);
  expect([exitCode, stderr]).toEqual([0, '']);
  return stdout;
}

/** Moves the time at which the App was suspended. */
async function moveStop(ms: number): Promise<void> {
  await using sql = new SQL(engines.metadataUrl, { max: 1 });
  const moved = await sql`UPDATE app_stops SET stopped_at = stopped_at + ${ms} RETURNING app_id`;
  expect(moved).toHaveLength(1);
}

const nodesOf = (space: string, count = NODES) =>
  Array.from({ length: count }, (_, index) => makeNode(`${space} ${index}`));

/** Uploads without publishing, half on each server. */
async function upload(space: string, nodes: readonly { hash: string; bytes: Uint8Array }[]): Promise<void> {
  for (const [index, { hash, bytes }] of nodes.entries()) {
    const client = cluster.clientOf(index % 2, space);
    const { json } = await client.lease(hash);
    expect((await client.put(json.upload, bytes)).status).toBe(200);
  }
}

/** Leases a node, and sends its bytes first if they are wanted: what a quota refused is deleted. */
async function publish(
  index: number,
  space: string,
  { hash, bytes }: { hash: string; bytes: Uint8Array },
): Promise<number> {
  const client = cluster.clientOf(index % 2, space);
  const first = await client.lease(hash);
  if (first.json.upload === undefined) return judged(first);
  expect((await client.put(first.json.upload, bytes)).status).toBe(200);
  return judged(await client.lease(hash));
}

function judged({ status, json }: { status: number; json: { state?: string; error?: string } }): number {
  expect(json.state === 'ready' || json.error === 'RESOURCE_EXHAUSTED').toBe(true);
  return status;
}

/** Each server refuses to publish a node that is new: the quota is in force on both. */
async function untilRefused(space: string, ...which: readonly string[]): Promise<void> {
  await order('app', 'set', APP, ...which, '--max-nodes', '0');
  let probes = 0;
  for (const index of [0, 1]) {
    await until(async () => {
      probes += 1;
      const probe = makeNode(`probe ${probes} of ${space}`);
      await upload(space, [probe]);
      return (await cluster.clientOf(index, space).lease(probe.hash)).status === 429;
    });
  }
}

test(
  'a quota of a Space is exact when two servers publish at once, and a larger one takes what is sent again',
  async () => {
    const space = 'exact';
    const nodes = nodesOf(space);
    await upload(space, nodes);
    await untilRefused(space, '--space', space);
    const before = (await cluster.clientOf(0, space).usage()).nodeCount;
    await order('app', 'set', APP, '--space', space, '--max-nodes', String(before + QUOTA));
    // Both servers keep trying until each has met the new limit.
    const client = (index: number) => cluster.clientOf(index % 2, space);
    const publishAll = async (): Promise<number> => {
      const statuses = await Promise.all(nodes.map((node, index) => publish(index, space, node)));
      return statuses.filter((status) => status === 200).length;
    };
    await until(async () => (await publishAll()) === QUOTA);
    const limit = before + QUOTA;
    expect((await client(0).usage()).nodeCount).toBe(limit);
    expect(await publishAll()).toBe(QUOTA);
    const extra = makeNode(`extra of ${space}`);
    await upload(space, [extra]);
    const body = { leaseDurationMs: 60_000 };
    const refused = await client(1).request('POST', `/cas/nodes/${extra.hash}/lease`, body);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, null]);
    expect(((await refused.json()) as { message: string }).message).toContain(`${limit} of ${limit} nodes`);
    await order('app', 'set', APP, '--space', space, '--max-nodes', 'none');
    await until(async () => (await publishAll()) === NODES);
  },
  TEST_MS_MAX,
);

test(
  'the quota of an App limits all its Spaces together, on both servers',
  async () => {
    const nodes = nodesOf('summed');
    await upload('summed', nodes);
    await untilRefused('summed');
    const [app] = JSON.parse(await order('app', 'list', '--json')) as [{ usage: { nodeCount: number } }];
    await order('app', 'set', APP, '--max-nodes', String(app.usage.nodeCount + 3));
    let accepted = 0;
    await until(async () => {
      const statuses: number[] = [];
      for (const [index, node] of nodes.entries()) statuses.push(await publish(index, 'summed', node));
      accepted = statuses.filter((status) => status === 200).length;
      return accepted >= 3;
    });
    // Each server alone never exceeds the quota; it learns of the other's nodes some seconds later.
    expect(accepted).toBeLessThanOrEqual(6);
    await order('app', 'set', APP, '--max-nodes', 'none');
  },
  TEST_MS_MAX,
);

test(
  'a revoked token is refused by every server within 5 s, an unrevoked one by none, and both pass again once it is lifted',
  async () => {
    const token = (claims: object): string => cluster.issuer.token(SPACE, { ...claims });
    const [one, other, ann, bob] = [{ jti: 'one' }, { jti: 'other' }, { sub: 'ann' }, { sub: 'bob' }].map(
      token,
    );
    const ask = async (url: string, bearer: string | undefined): Promise<number> => {
      const headers = { authorization: `Bearer ${bearer}` };
      return (await fetch(`${url}/v1/apps/${APP}/spaces/${SPACE}/cas/usage`, { headers })).status;
    };
    const askBoth = (bearer: string | undefined) =>
      Promise.all(cluster.servers.map(({ process }) => ask(process.url, bearer)));
    /** Answers to what is asked later than that are the new ones. */
    const becomes = async (bearer: string | undefined, status: number): Promise<void> => {
      const from = performance.now();
      for (;;) {
        const isLate = performance.now() - from > EFFECT_MS_MAX;
        const statuses = await askBoth(bearer);
        if (statuses.every((each) => each === status)) return;
        if (isLate) throw new Error(`${statuses} after ${EFFECT_MS_MAX} ms, instead of ${status}`);
      }
    };
    for (const bearer of [one, other, ann, bob]) expect(await askBoth(bearer)).toEqual([200, 200]);
    await order('app', 'revoke', APP, '--jti', 'one');
    await becomes(one, 401);
    await order('app', 'revoke', APP, '--sub', 'ann');
    await becomes(ann, 401);
    // Tokens issued afterwards are refused too.
    expect(await askBoth(token({ sub: 'ann', jti: 'new' }))).toEqual([401, 401]);
    for (const bearer of [other, bob]) expect(await askBoth(bearer)).toEqual([200, 200]);
    await order('app', 'revoke', APP, '--jti', 'one', '--lift');
    await order('app', 'revoke', APP, '--sub', 'ann', '--lift');
    await becomes(one, 200);
    await becomes(ann, 200);
  },
  TEST_MS_MAX,
);

test(
  'a purged Space is empty in rows and bucket, and only after nobody serves its App',
  async () => {
    const space = 'purged';
    const nodes = nodesOf(space, 8);
    await upload(space, nodes);
    const client = cluster.clientOf(0, space);
    // The quota of the test before is lifted within some seconds.
    for (const { hash } of nodes) await until(async () => (await client.lease(hash)).status === 200);
    await client.commit('r1', { [nodes[0]?.hash as string]: 1, [nodes[1]?.hash as string]: 1 });
    const { nextCursor } = (await client.roots('?limit=1')).json;
    const purge = () => operate('space', 'purge', APP, space, '--confirm', space);
    expect((await purge()).stderr).toContain('is active');
    await order('app', 'suspend', APP);
    // A stop in the future is no reason to wait for that future: copies of the registry are outwaited by a clock that nobody can set.
    await moveStop(HOUR_MS);
    await until(async () => (await purge()).exitCode === 0);
    await order('app', 'resume', APP);
    await until(async () => (await client.request('GET', '/cas/usage')).status === 200);
    expect(await client.usage()).toMatchObject({ nodeCount: 0, readyStoredBytes: 0, reservedBytes: 0 });
    expect((await client.roots(`?limit=1&cursor=${nextCursor}`)).status).toBe(409);
    expect((await client.metadata(nodes[0]?.hash as string)).status).toBe(404);
    await client.store(nodes[0] as (typeof nodes)[number]);
    await client.commit('r1', { [nodes[0]?.hash as string]: 1 });
    expect((await client.roots(`?limit=1&cursor=${nextCursor}`)).status).toBe(409);
    const counted = await recountScaleout(engines.metadataUrl);
    expect(counted.problems).toEqual([]);
    const { missing } = await findBucketLeftovers(counted, engines.bucket);
    expect(missing).toEqual([]);
  },
  TEST_MS_MAX,
);
