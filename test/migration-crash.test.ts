/** A copy that is killed at random, again and again, goes on where it was and comes to the same end. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import type { ClientOf } from './support/deployment-zoo.ts';
import { findLeftovers, recount } from './support/embedded-recount.ts';
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

const TEST_MS_MAX = 240_000;
const SPACES = 24;
const KILLS = 10;
/** of those, before it has told anything */
const EARLY_KILLS = 3;
const SIZES = [700, 30_000, 90_000, 400_000];
const RUNS_MAX = 3 * KILLS;

const places = openMigrationPlaces('migration-crash');
const { issuer } = places;
/** in the name of the tests, so that a failure can be had again */
const SEED = Number(process.env.HOLDFAST_TEST_SEED ?? Date.now() % 1_000_000);
const random = makeRandom(SEED);
const source = places.makeFolder();
let there: Place;

afterAll(() => places.close(), TEST_MS_MAX);

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
}, TEST_MS_MAX);

async function describeAll(clientOf: ClientOf): Promise<unknown[]> {
  return Promise.all(
    spaceIds.map(async (spaceId) => {
      const client = clientOf(spaceId);
      const contents = nodesOf(spaceId).map(async ({ hash, content }) => {
        const answer = await client.content(hash);
        return [
          answer.status,
          Buffer.compare(await answer.bytes(), content),
          (await client.metadata(hash)).json,
        ];
      });
      return [await client.usage(), (await client.roots()).json, await Promise.all(contents)];
    }),
  );
}

interface Progress {
  readonly phase: string;
  readonly counts: { readonly spaces: number; readonly nodes: number };
}

interface KilledRun {
  readonly isComplete: boolean;
  readonly first: Progress | undefined;
  readonly last: Progress | undefined;
}

/** Kills the run some milliseconds after so many words of progress, or after its start. */
async function runAndKill(from: Place, to: Place, isEarly: boolean): Promise<KilledRun> {
  const { args, environment } = places.command(from, to);
  const child = Bun.spawn([join(ROOT, 'bin', 'holdfast'), ...args, '--json'], {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const patience = isEarly ? 0 : 1 + random.below(16);
  const timer = isEarly ? setTimeout(() => child.kill('SIGKILL'), random.below(1_200)) : undefined;
  const told: Progress[] = [];
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of child.stderr) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      const event = line.startsWith('{') ? JSON.parse(line) : { type: line };
      if (event.type === 'progress') told.push(event);
      else if (!['start', 'done', 'retry'].includes(event.type)) throw new Error(`it said: ${line}`);
    }
    if (!isEarly && told.length >= patience) {
      await Bun.sleep(random.below(30));
      child.kill('SIGKILL');
    }
  }
  await child.exited;
  clearTimeout(timer);
  return { isComplete: child.exitCode === 0, first: told[0], last: told.at(-1) };
}

/** Resolves with how many runs were killed. */
async function migrateThroughKills(from: Place, to: Place): Promise<number> {
  let kills = 0;
  let last: Progress | undefined;
  for (let run = 0; kills < KILLS && run < RUNS_MAX; run += 1) {
    const outcome = await runAndKill(from, to, run < EARLY_KILLS);
    if (outcome.isComplete) break;
    kills += 1;
    // What was told before the kill was durable: nothing of it is done again.
    if (last?.phase === 'copy' && outcome.first?.phase === 'copy') {
      expect(outcome.first.counts.nodes).toBeGreaterThanOrEqual(last.counts.nodes);
    }
    last = outcome.last ?? last;
  }
  return kills;
}

describe(`a copy that is killed ten times (seed ${SEED})`, () => {
  test(
    'arrives in PostgreSQL and S3',
    async () => {
      const expected = await withServer(source, issuer, describeAll);
      expect(await migrateThroughKills(source, there)).toBe(KILLS);
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
      expect(await migrateThroughKills(there, back)).toBe(KILLS);
      expect(await failToServe(back)).toMatch(/^1: holdfast: .*unfinished copy/);
      const outcome = await places.migrate(there, back);
      expect([outcome.exitCode, outcome.stdout]).toEqual([0, expect.stringContaining(`${SPACES} Spaces`)]);
      expect(await withServer(back, issuer, describeAll)).toEqual(expected);
      expect(recount(back.data).problems).toEqual([]);
      expect(findLeftovers(back.data)).toEqual({ orphans: [], missing: [], incoming: [] });
    },
    TEST_MS_MAX,
  );
});
