/**
 * The real command copies whole deployments between the engines, on a real PostgreSQL and a real S3: every answer of the API is
 * the same on the other side.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import {
  describeZoo,
  fillUploads,
  fillZoo,
  finishZoo,
  type Zoo,
  type ZooUploads,
} from './support/deployment-zoo.ts';
import { ByteSpoiler, objectPath } from './support/embedded-files.ts';
import { recount } from './support/embedded-recount.ts';
import { makeIssuer } from './support/issuer.ts';
import {
  MIGRATED_APP,
  openMigrationPlaces,
  type Place,
  registerApp,
  withServer,
} from './support/migration-places.ts';
import { readPlace } from './support/read-place.ts';
import { listKeys, sendToBucket } from './support/s3-request.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { runHoldfast } from './support/server-process.ts';

const TEST_MS_MAX = 300_000;
const TWO_HOURS_MS = 2 * 3_600_000;
const SWEEP_MS_MAX = 180_000;
const CLAIMS_SPACE = 'claims';

const places = openMigrationPlaces('migration');
const { issuer } = places;

afterAll(() => places.close(), TEST_MS_MAX);

describe('a data folder with rows of every kind', () => {
  const source = places.makeFolder();
  const back = places.makeFolder();
  const claimed = makeNode(seededBytes(100_000, 77), { contentType: 'application/x-claimed' });
  let there: Place;
  let zoo: Zoo;
  let fresh: ZooUploads;
  let answers: Record<string, unknown>;
  let apps: Record<string, unknown>[];

  /** Without what they store: a served deployment goes on collecting. */
  const listApps = async ({ data, engines }: Place): Promise<Record<string, unknown>[]> => {
    const place = engines === undefined ? ['--data', data] : ['--metadata', engines.metadataUrl];
    const { stdout } = await runHoldfast(['app', 'list', '--json', ...place]);
    // PUTs that the store takes itself become known only by the next lease.
    return (JSON.parse(stdout) as Record<string, unknown>[]).map(({ usage, pendingBytes, ...app }) => app);
  };

  /** Rows of failed reads and collections: rotten ones, and a claim whose object cannot be deleted. */
  async function spoil(): Promise<void> {
    const spoiler = new ByteSpoiler(source.data);
    for (const { hash } of zoo.nodes.rotten) spoiler.spoil(readPlace(source.data, hash), 'flipped');
    const object = objectPath(source.data, readPlace(source.data, claimed.hash).generation);
    renameSync(object, `${object}.kept`);
    mkdirSync(object);
    await withServer(source, issuer, async (clientOf) => {
      for (const { hash } of zoo.nodes.rotten) {
        expect((await clientOf('space').content(hash)).status).toBe(503);
      }
      expect((await clientOf(CLAIMS_SPACE).gc()).status).toBe(503);
      expect((await clientOf(CLAIMS_SPACE).metadata(claimed.hash)).status).toBe(404);
      expect((await clientOf(CLAIMS_SPACE).usage()).nodeCount).toBe(1);
      fresh = await fillUploads(clientOf('space'), 500);
    });
    rmSync(object, { recursive: true });
  }

  beforeAll(async () => {
    await registerApp(source, MIGRATED_APP, issuer);
    await registerApp(source, 'suspended', makeIssuer('https://suspended.test'));
    await runHoldfast(['app', 'suspend', 'suspended', '--data', source.data]);
    for (const limit of [
      ['--max-bytes', '1TiB'],
      ['--space', 'space', '--max-nodes', '100000'],
    ]) {
      await runHoldfast(['app', 'set', MIGRATED_APP, ...limit, '--data', source.data]);
    }
    await runHoldfast(['app', 'revoke', MIGRATED_APP, '--sub', 'eve', '--data', source.data]);
    zoo = await withServer(
      source,
      issuer,
      async (clientOf) => {
        await clientOf(CLAIMS_SPACE).store(claimed);
        return fillZoo(clientOf, 1);
      },
      -TWO_HOURS_MS,
    );
    await spoil();
    answers = await withServer(source, issuer, (clientOf) => describeZoo(clientOf, zoo));
    apps = await listApps(source);
    there = await places.makeEngines();
  }, TEST_MS_MAX);

  test(
    'answers the same from PostgreSQL and S3',
    async () => {
      const outcome = await places.migrate(source, there);
      expect([outcome.exitCode, outcome.stderr]).toEqual([0, expect.stringContaining('verifying: ')]);
      expect(outcome.stdout).toMatch(/^migrated and verified: 2 Apps, 4 Spaces, \d+ nodes/);
      expect(await listApps(there)).toEqual(apps);
      expect(apps).toMatchObject([
        {
          quotas: { maxBytes: 2 ** 40, maxNodes: null, maxCommits: null },
          spaceQuotas: [{ space: 'space', maxBytes: null, maxNodes: 100_000, maxCommits: null }],
          revocations: [{ sub: 'eve' }],
        },
        { status: 'suspended' },
      ]);
      await expectClaimEnds(there);
      expect(await withServer(there, issuer, (clientOf) => describeZoo(clientOf, zoo))).toEqual(answers);
    },
    TEST_MS_MAX,
  );

  test(
    'answers the same from a folder again',
    async () => {
      const outcome = await places.migrate(there, back);
      expect([outcome.exitCode, outcome.stdout]).toEqual([
        0,
        expect.stringMatching(/^migrated and verified/),
      ]);
      expect(await listApps(back)).toEqual(apps);
      expect(await withServer(back, issuer, (clientOf) => describeZoo(clientOf, zoo))).toEqual(answers);
    },
    TEST_MS_MAX,
  );

  test(
    'continues uploads, waiting parents and collection',
    async () => {
      const finish = (place: Place) =>
        withServer(place, issuer, (clientOf) => finishZoo(clientOf, zoo, fresh));
      const expected = await finish(source);
      expect(expected.collection).toMatchObject({ deleted: 1, reclaimedContentBytes: 40_000 });
      expect(expected['lease of finished 1']).toEqual([200, 'ready', undefined, undefined]);
      expect(await finish(there)).toEqual(expected);
      expect(await finish(back)).toEqual(expected);
      expect(recount(back.data).problems).toEqual([]);
      const counted = await recountScaleout((there.engines as NonNullable<Place['engines']>).metadataUrl);
      expect(counted.problems).toEqual([]);
    },
    TEST_MS_MAX,
  );

  /** Carried as a leftover: the first sweep finishes it. */
  async function expectClaimEnds(place: Place): Promise<void> {
    await withServer(place, issuer, async (clientOf) => {
      const client = clientOf(CLAIMS_SPACE);
      expect((await client.metadata(claimed.hash)).status).toBe(404);
      const deadline = performance.now() + SWEEP_MS_MAX;
      while ((await client.usage()).nodeCount > 0) {
        if (performance.now() > deadline) throw new Error('the claim stays');
        await Bun.sleep(200);
      }
      expect((await client.lease(claimed.hash)).json.state).toBe('awaiting_upload');
    });
  }
});

describe('a deployment born in PostgreSQL and S3', () => {
  let source: Place;
  const target = places.makeFolder();
  let zoo: Zoo;
  let fresh: ZooUploads;

  beforeAll(async () => {
    source = await places.makeEngines();
    await registerApp(source, MIGRATED_APP, issuer);
    zoo = await withServer(source, issuer, (clientOf) => fillZoo(clientOf, 2));
    const { bucket } = source.engines as NonNullable<Place['engines']>;
    await withServer(source, issuer, async (clientOf) => {
      fresh = await fillUploads(clientOf('space'), 600);
      const sizes = new Map<string, string>();
      for (const key of await listKeys(bucket, 'nodes/')) {
        const answer = await sendToBucket(bucket, { method: 'GET', key });
        sizes.set(new Bun.CryptoHasher('sha256').update(await answer.bytes()).digest('hex'), key);
      }
      for (const { hash } of zoo.nodes.rotten) {
        await sendToBucket(bucket, { method: 'DELETE', key: sizes.get(hash) as string });
        expect((await clientOf('space').content(hash)).status).toBe(503);
      }
    });
  }, TEST_MS_MAX);

  test(
    'answers the same from a folder',
    async () => {
      const answers = await withServer(source, issuer, (clientOf) => describeZoo(clientOf, zoo));
      const outcome = await places.migrate(source, target);
      expect([outcome.exitCode, outcome.stdout]).toEqual([
        0,
        expect.stringMatching(/^migrated and verified/),
      ]);
      expect(await withServer(target, issuer, (clientOf) => describeZoo(clientOf, zoo))).toEqual(answers);
      const finish = (place: Place) =>
        withServer(place, issuer, (clientOf) => finishZoo(clientOf, zoo, fresh));
      expect(await finish(target)).toEqual(await finish(source));
      expect(recount(target.data).problems).toEqual([]);
      const engines = source.engines as NonNullable<Place['engines']>;
      const counted = await recountScaleout(engines.metadataUrl);
      expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
    },
    TEST_MS_MAX,
  );
});

describe('a folder whose bytes are in a bucket', () => {
  test(
    'answers the same from a folder alone, and beside another bucket',
    async () => {
      const source = await places.makeFolderAndBucket();
      await registerApp(source, MIGRATED_APP, issuer);
      const zoo = await withServer(source, issuer, (clientOf) => fillZoo(clientOf, 4));
      const fresh = await withServer(source, issuer, (clientOf) => fillUploads(clientOf('space'), 700));
      const answers = await withServer(source, issuer, (clientOf) => describeZoo(clientOf, zoo));
      const alone = places.makeFolder();
      const beside = await places.makeFolderAndBucket();
      for (const [from, to] of [
        [source, alone],
        [alone, beside],
      ] as const) {
        const outcome = await places.migrate(from, to);
        expect([outcome.exitCode, outcome.stdout]).toEqual([
          0,
          expect.stringMatching(/^migrated and verified/),
        ]);
        expect(await withServer(to, issuer, (clientOf) => describeZoo(clientOf, zoo))).toEqual(answers);
      }
      const finish = (place: Place) =>
        withServer(place, issuer, (clientOf) => finishZoo(clientOf, zoo, fresh));
      const expected = await finish(source);
      expect(await finish(alone)).toEqual(expected);
      expect(await finish(beside)).toEqual(expected);
    },
    TEST_MS_MAX,
  );

  test(
    'is not taken for a folder that has its bytes, nor the other way round',
    async () => {
      const source = await places.makeFolderAndBucket();
      await registerApp(source, MIGRATED_APP, issuer);
      await withServer(source, issuer, async () => undefined);
      const target = places.makeFolder();
      const missing = await places.migrate({ data: source.data }, target);
      expect([missing.exitCode, missing.stderr]).toEqual([
        1,
        expect.stringContaining('are in another store'),
      ]);
      const alone = places.makeFolder();
      await registerApp(alone, MIGRATED_APP, issuer);
      await withServer(alone, issuer, async () => undefined);
      const wrong = await places.migrate({ ...source, data: alone.data }, target);
      expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining('are in that folder')]);
    },
    TEST_MS_MAX,
  );
});
