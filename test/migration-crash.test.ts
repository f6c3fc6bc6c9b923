/** A copy that is killed at random, again and again, goes on where it was and comes to the same end. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import type { ClientOf } from './support/deployment-zoo.ts';
import { findLeftovers, recount } from './support/embedded-recount.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import {
  failToServe,
  MIGRATED_APP,
  openMigrationPlaces,
  type Place,
  registerApp,
  withServer,
} from './support/migration-places.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { makeRandom } from './support/seeded-random.ts';
import { ROOT } from './support/server-process.ts';
import { startTcpProxy, type TcpProxy } from './support/tcp-proxy.ts';

const TEST_MS_MAX = 240_000;
const SPACES = 40;
const KILLS = 10;
/** of those, before it has told anything */
const EARLY_KILLS = 3;
const EARLY_MS_MAX = 1_200;
/** after what was told */
const KILL_DELAY_MS_MAX = 10;
const SIZES = [700, 30_000, 90_000, 400_000];

const places = openMigrationPlaces('migration-crash');
const { issuer } = places;
/** named in the tests, so that a failure can be repeated */
const SEED = Number(process.env.HOLDFAST_TEST_SEED ?? Date.now() % 1_000_000);
const random = makeRandom(SEED);
const source = places.makeFolder();
let there: Place;
/** rows go through this very process, so that no copy continues while the process cannot watch and kill it */
let watched: ProxiedPlace;

afterAll(async () => {
  await watched?.close();
  await places.close();
}, TEST_MS_MAX);

const spaceIds = Array.from({ length: SPACES }, (_, index) => `space-${index}`);

function nodesOf(spaceId: string) {
  const seed = Number(spaceId.slice('space-'.length)) * 10;
  return SIZES.map((size, index) => makeNode(seededBytes(size, seed + index)));
}

beforeAll(async () => {
  await registerApp(source, MIGRATED_APP, issuer);
  await withServer(source, issuer, (clientOf) =>
    Promise.all(
      spaceIds.map(async (spaceId) => {
        const client = clientOf(spaceId);
        const nodes = nodesOf(spaceId);
        for (const node of nodes) await client.store(node, 3_600_000);
        const changes = Object.fromEntries(nodes.map(({ hash }, index) => [hash, index + 1]));
        expect((await client.commit('roots', changes)).status).toBe(200);
      }),
    ),
  );
  there = await places.makeEngines();
  watched = await behindProxies(there);
}, TEST_MS_MAX);

interface ProxiedPlace {
  readonly proxied: Place;
  readonly rows: TcpProxy;
  readonly bytes: TcpProxy;
  close(): Promise<void>;
}

/** The same place behind proxies. */
async function behindProxies(place: Place): Promise<ProxiedPlace> {
  const engines = place.engines as NonNullable<Place['engines']>;
  const metadata = new URL(engines.metadataUrl);
  const rows = await startTcpProxy({ port: Number(metadata.port) });
  const bytes = await startTcpProxy({ port: Number(new URL(engines.bucket.endpoint).port) });
  metadata.port = String(rows.port);
  const bucket = { ...engines.bucket, endpoint: `http://${bytes.address}` };
  const proxied: Place = { ...place, engines: { ...engines, metadataUrl: metadata.href, bucket } };
  const close = async (): Promise<void> => {
    await rows.close();
    await bytes.close();
  };
  return { proxied, rows, bytes, close };
}

/** One Space after another: all nodes of all Spaces at once would wait longer for a connection than a server lets them. */
async function describeAll(clientOf: ClientOf): Promise<unknown[]> {
  const described: unknown[] = [];
  for (const spaceId of spaceIds) {
    const client = clientOf(spaceId);
    const contents = nodesOf(spaceId).map(async ({ hash, content }) => {
      const answer = await client.content(hash);
      return [
        answer.status,
        Buffer.compare(await answer.bytes(), content),
        (await client.metadata(hash)).json,
      ];
    });
    described.push([await Promise.all(contents), await client.usage(), (await client.roots()).json]);
  }
  return described;
}

interface Progress {
  readonly phase: string;
  readonly counts: { readonly spaces: number; readonly nodes: number };
}

/** Spaces that are done, of `STEPS`: each is copied and then verified. */
const stepsOf = (told: Progress | undefined): number =>
  told === undefined ? 0 : told.counts.spaces + (told.phase === 'verify' ? SPACES : 0);
const STEPS = 2 * SPACES;

interface KilledRun {
  readonly isComplete: boolean;
  readonly first: Progress | undefined;
  readonly last: Progress | undefined;
}

function eventOf(line: string) {
  return line.startsWith('{') ? JSON.parse(line) : { type: line };
}

/** Kills the run some milliseconds after it has reported `steps` steps; early: at a random time before it tells of any. */
async function runAndKill(from: Place, to: Place, untilSteps: number, isEarly: boolean): Promise<KilledRun> {
  const { args, environment } = places.command(from, to);
  const child = Bun.spawn([HOLDFAST, ...args, '--json'], {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const timer = isEarly ? setTimeout(() => child.kill('SIGKILL'), random.below(EARLY_MS_MAX)) : undefined;
  const told: Progress[] = [];
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of child.stderr) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      const event = eventOf(line);
      if (event.type === 'progress') told.push(event);
      else if (!['start', 'done', 'retry', 'stall', 'resumed'].includes(event.type))
        throw new Error(`it said: ${line}`);
    }
    if (told.length === 0) continue;
    if (isEarly) child.kill('SIGKILL');
    if (stepsOf(told.at(-1)) < untilSteps) continue;
    await Bun.sleep(random.below(KILL_DELAY_MS_MAX));
    child.kill('SIGKILL');
  }
  await child.exited;
  clearTimeout(timer);
  return { isComplete: child.exitCode === 0, first: told[0], last: told.at(-1) };
}

/** Resolves with how many runs were killed: each somewhere in its share of what was left, so that there are enough. */
async function migrateThroughKills(from: Place, to: Place): Promise<number> {
  let last: Progress | undefined;
  for (let kills = 0; kills < KILLS; kills += 1) {
    const share = Math.floor((STEPS - stepsOf(last)) / (KILLS - kills + 1));
    const untilSteps = stepsOf(last) + random.below(share);
    const outcome = await runAndKill(from, to, untilSteps, kills < EARLY_KILLS);
    if (outcome.isComplete) return kills;
    // Steps that were reported before the kill were durable, so they are not repeated.
    if (last?.phase === 'copy' && outcome.first?.phase === 'copy') {
      expect(outcome.first.counts.nodes).toBeGreaterThanOrEqual(last.counts.nodes);
    }
    last = outcome.last ?? last;
  }
  return KILLS;
}

describe(`a copy that is killed ten times (seed ${SEED})`, () => {
  test(
    'arrives in PostgreSQL and S3',
    async () => {
      const expected = await withServer(source, issuer, describeAll);
      expect(await migrateThroughKills(source, watched.proxied)).toBe(KILLS);
      expect(await failToServe(there)).toMatch(/^1: holdfast: .*unfinished copy/);
      const outcome = await places.migrate(source, there);
      expect([outcome.exitCode, outcome.stdout]).toEqual([0, expect.stringContaining(`${SPACES} Spaces`)]);
      expect(await withServer(there, issuer, describeAll)).toEqual(expected);
      const engines = there.engines as NonNullable<Place['engines']>;
      const counted = await recountScaleout(engines.metadataUrl);
      expect(counted.problems).toEqual([]);
      expect(await findBucketLeftovers(counted, engines.bucket)).toEqual({ orphans: [], missing: [] });
    },
    TEST_MS_MAX,
  );

  test(
    'arrives in a folder',
    async () => {
      const back = places.makeFolder();
      const expected = await withServer(there, issuer, describeAll);
      expect(await migrateThroughKills(watched.proxied, back)).toBe(KILLS);
      expect(await failToServe(back)).toMatch(/^1: holdfast: .*unfinished copy/);
      const outcome = await places.migrate(there, back);
      expect([outcome.exitCode, outcome.stdout]).toEqual([0, expect.stringContaining(`${SPACES} Spaces`)]);
      expect(await withServer(back, issuer, describeAll)).toEqual(expected);
      expect(recount(back.data).problems).toEqual([]);
      expect(findLeftovers(back.data)).toEqual({ orphans: [], unburied: [], missing: [], incoming: [] });
    },
    TEST_MS_MAX,
  );
});

describe('a copy whose engines are away for seconds', () => {
  const OUTAGE_MS = 2_500;

  /** Both engines go away in turn, each time some steps have been told. */
  async function migrateThroughOutages(from: Place, to: Place, proxies: readonly TcpProxy[]) {
    const { args, environment } = places.command(from, to);
    const child = Bun.spawn([HOLDFAST, ...args, '--json'], {
      cwd: ROOT,
      env: { ...process.env, ...environment },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const outages = [...proxies, ...proxies];
    let steps = 0;
    let retries = 0;
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of child.stderr) {
      const lines = (text + decoder.decode(chunk, { stream: true })).split('\n');
      text = lines.pop() ?? '';
      for (const { type } of lines.map(eventOf)) {
        if (type === 'retry') retries += 1;
        if (type !== 'progress') continue;
        steps += 1;
        const proxy = steps % 5 === 0 ? outages.shift() : undefined;
        if (proxy === undefined) continue;
        proxy.setMode({ kind: 'reset' });
        setTimeout(() => proxy.setMode({ kind: 'pass' }), OUTAGE_MS);
      }
    }
    const stdout = await new Response(child.stdout).text();
    return { exitCode: await child.exited, stdout, retries, outagesLeft: outages.length };
  }

  test(
    'waits for them and continues by itself, in both directions',
    async () => {
      const place = await places.makeEngines();
      const { proxied, rows, bytes, close } = await behindProxies(place);
      const back = places.makeFolder();
      try {
        const expected = await withServer(source, issuer, describeAll);
        for (const [from, to] of [
          [source, proxied],
          [proxied, back],
        ] as const) {
          const outcome = await migrateThroughOutages(from, to, [rows, bytes]);
          expect([outcome.exitCode, outcome.outagesLeft]).toEqual([0, 0]);
          expect(outcome.retries).toBeGreaterThanOrEqual(2);
        }
        expect(await withServer(place, issuer, describeAll)).toEqual(expected);
        expect(await withServer(back, issuer, describeAll)).toEqual(expected);
        expect(recount(back.data).problems).toEqual([]);
      } finally {
        await close();
      }
    },
    TEST_MS_MAX,
  );

  test(
    'is interrupted by Ctrl-C after a page, and loses nothing',
    async () => {
      const target = await places.makeEngines();
      // Through this process, so that the copy cannot end before it is interrupted.
      const { proxied, close } = await behindProxies(target);
      const { args, environment } = places.command(source, proxied);
      const child = Bun.spawn([HOLDFAST, ...args], {
        cwd: ROOT,
        env: { ...process.env, ...environment },
        stdout: 'pipe',
        stderr: 'pipe',
      });
      let said = '';
      for await (const chunk of child.stderr) {
        // Only once, because a second signal ends it at once.
        if (said === '') child.kill('SIGINT');
        said += new TextDecoder().decode(chunk);
      }
      await child.exited;
      expect([child.signalCode, await new Response(child.stdout).text()]).toEqual(['SIGINT', '']);
      expect(said).toMatch(/holdfast: interrupted; .+\n$/);
      await close();
      const outcome = await places.migrate(source, target);
      expect([outcome.exitCode, outcome.stderr]).toEqual([0, expect.stringMatching(/^going on with 1 App,/)]);
    },
    TEST_MS_MAX,
  );
});
