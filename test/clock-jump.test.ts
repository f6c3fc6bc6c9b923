/** Someone sets the wall clock of a real server with workers, forwards and backwards: leases in a data folder keep their length. */
import { afterAll, expect, test } from 'bun:test';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { openCeph } from './support/ceph-server.ts';
import { formatContentUrl, makeS3Environment } from './support/cluster.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp, findDescendants, runHoldfast, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const LEASE_MS = 600_000;
const TWO_DAYS_MS = 2 * 86_400_000;
const NOTHING = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
const SHIFTED_CLOCK = join(import.meta.dir, 'support', 'shifted-clock.ts');

const ceph = await openCeph();
afterAll(() => ceph.close());

test.each(['the folder', 'a bucket'])(
  'with bytes in %s a clock that is wrong, put right, and wrong again ends no lease; one that has run out is collected',
  async (bytes) => {
    const bucket = bytes === 'a bucket' ? await ceph.createBucket() : undefined;
    const folder = makeTempFolder('clock-jump');
    const [data, file] = [join(folder.path, 'data'), join(folder.path, 'clock')];
    let wallMs = -TWO_DAYS_MS;
    const set = (ms: number, monotonicMs = 0): void => {
      wallMs = ms;
      // In one step: a server may read it at any time.
      writeFileSync(`${file}.new`, `${ms} ${monotonicMs}`);
      renameSync(`${file}.new`, file);
    };
    const issuer = makeIssuer();
    await addApp(data, 'app', issuer);
    set(-TWO_DAYS_MS);
    const server = await startServer({
      data,
      arguments: ['--workers', '2', ...(bucket === undefined ? [] : ['--content', formatContentUrl(bucket)])],
      environment: {
        ...(bucket === undefined ? {} : makeS3Environment(bucket)),
        BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
        HOLDFAST_TEST_CLOCK_FILE: file,
      },
    });
    // Tokens are judged by the wall clock. A connection for each request, so that both workers are asked.
    const client = () => {
      const iat = Math.floor((Date.now() + wallMs) / 1000);
      return makeSpaceClient(
        server.url,
        'app',
        'space',
        issuer.token('space', { iat, exp: iat + 3600 }),
        false,
      );
    };
    try {
      const nodes = ['first', 'second', 'third'].map((text) => makeNode(text));
      const expiries: number[] = [];
      for (const [index, ms] of [-TWO_DAYS_MS, 0, TWO_DAYS_MS].entries()) {
        set(ms);
        const stored = await client().store(nodes[index] as (typeof nodes)[0], LEASE_MS);
        expiries.push(stored.json.leaseExpiresAt);
        for (let asked = 0; asked < 6; asked += 1) expect((await client().gc()).json).toEqual(NOTHING);
      }
      expect(Math.max(...expiries) - Math.min(...expiries)).toBeLessThan(LEASE_MS);
      await until(() => server.log().includes("the machine's clock was set"));
      // The workers that take the place of others start by the wrong clock, and still share the right time.
      const workers = findDescendants(server.pid);
      for (const pid of workers) process.kill(pid, 'SIGKILL');
      await until(() => server.log().split('a worker died').length > workers.length);
      await until(
        async () =>
          (
            await client()
              .gc()
              .catch(() => undefined)
          )?.status === 200,
      );
      for (let asked = 0; asked < 6; asked += 1) expect((await client().gc()).json).toEqual(NOTHING);
      for (const node of nodes) expect((await client().metadata(node.hash)).status).toBe(200);
      set(-TWO_DAYS_MS, LEASE_MS + Math.max(...expiries) - Math.min(...expiries));
      // A worker that only starts now does not see the monotonic clock move; one that has answered does.
      let deleted = 0;
      await until(async () => {
        deleted += (await client().gc()).json.deleted;
        return deleted === nodes.length;
      });
      for (const node of nodes) expect((await client().metadata(node.hash)).status).toBe(404);
      if (bucket !== undefined) return;
      // By the server's clock the App was suspended in the future.
      expect((await runHoldfast(['app', 'suspend', 'app', '--data', data])).exitCode).toBe(0);
      const words = ['space', 'purge', 'app', 'space', '--confirm', 'space', '--data', data];
      expect(await runHoldfast(words)).toMatchObject({ exitCode: 0, stderr: '' });
    } finally {
      await server.end('SIGKILL');
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
