/** Quotas and revocations of Apps on a real server, as an operator meets them. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { makeNode } from './support/canonical-node.ts';
import { operatorHeaders } from './support/operator-token.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { addApp, runHoldfast } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;

let running: RunningServer;
let operators: string;
beforeAll(async () => {
  running = await startFreshServer('app-limits', { arguments: ['--operator-listen', '127.0.0.1:0'] });
  await until(() => /^operators: .*\n/m.test(running.server.output()));
  operators = /^operators: (\S+)$/m.exec(running.server.output())?.[1] as string;
}, TEST_MS_MAX);
afterAll(() => running.remove());

const asOperator = () => ({ headers: operatorHeaders(running.data) });

async function administer(...args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await runHoldfast(['app', ...args, '--data', running.data]);
  expect([exitCode, stderr]).toEqual([0, '']);
}

test(
  'refusals by a quota are counted by its owner and by what it limits',
  async () => {
    const count = async (): Promise<string | undefined> =>
      /^holdfast_quota_refusals_total\{holder="space",unit="nodes"\} (\d+)$/m.exec(
        await (await fetch(`${operators}/metrics`)).text(),
      )?.[1];
    expect(await count()).toBe('0');
    await running.client().store(makeNode('the first'));
    await administer('set', APP, '--space', SPACE, '--max-nodes', '1');
    // The quota takes effect within some seconds. A node that was stored before is never refused.
    await until(async () => {
      const node = makeNode(`another ${crypto.randomUUID()}`);
      const { upload } = (await running.client().lease(node.hash)).json;
      const stored = upload === undefined ? undefined : await running.client().put(upload, node.bytes);
      return stored?.status === 429 || (await running.client().lease(node.hash)).status === 429;
    });
    expect(Number(await count())).toBeGreaterThan(0);
  },
  TEST_MS_MAX,
);

test(
  'a Space with a quota and no rows is listed once, on any page',
  async () => {
    for (const space of ['later', 'much-later', SPACE]) {
      await administer('set', APP, '--space', space, '--max-bytes', '5');
    }
    const listed: [string, number, number | null][] = [];
    let next: string | null = null;
    do {
      const query: string = next === null ? '' : `&after=${encodeURIComponent(next)}`;
      const page = await (
        await fetch(`${operators}/operator/v1/spaces?limit=1${query}`, asOperator())
      ).json();
      expect(page.spaces.length).toBeLessThanOrEqual(1);
      for (const { space, usage, quotas } of page.spaces) {
        listed.push([space, usage.nodeCount, quotas.maxBytes]);
      }
      next = page.next;
    } while (next !== null);
    expect(listed).toEqual([
      [SPACE, expect.any(Number), 5],
      ['later', 0, 5],
      ['much-later', 0, 5],
    ]);
    const { stdout } = await runHoldfast(['space', 'list', '--data', running.data]);
    expect(stdout).toMatch(/^app +later +0 +0 B +0 B +0 B +0 B +0 +5 B$/m);
    // The first write makes the row of the Space, which is then listed among the rows.
    for (const space of ['later', 'much-later']) {
      await administer('set', APP, '--space', space, '--max-bytes', 'none');
    }
    const left = await (await fetch(`${operators}/operator/v1/spaces`, asOperator())).json();
    expect(left.spaces.map(({ space }: { space: string }) => space)).toEqual([SPACE]);
  },
  TEST_MS_MAX,
);

test(
  'an App that is removed and added again has its quotas, and its revoked tokens stay revoked',
  async () => {
    const token = running.issuer.token(SPACE, { sub: 'eve' });
    const ask = async (): Promise<number> =>
      (await makeSpaceClient(running.server.url, APP, SPACE, token).roots()).status;
    await administer('set', APP, '--max-nodes', '1000');
    await administer('revoke', APP, '--sub', 'eve');
    await until(async () => (await ask()) === 401);
    await administer('remove', APP);
    await addApp(running.data, APP, running.issuer);
    await until(async () => (await running.client().roots()).status === 200);
    expect(await ask()).toBe(401);
    const { stdout } = await runHoldfast(['app', 'list', '--json', '--data', running.data]);
    expect(JSON.parse(stdout)).toMatchObject([
      { appId: APP, quotas: { maxNodes: 1000 }, revocations: [{ sub: 'eve' }] },
    ]);
    await administer('revoke', APP, '--sub', 'eve', '--lift');
    await until(async () => (await ask()) === 200);
  },
  TEST_MS_MAX,
);
