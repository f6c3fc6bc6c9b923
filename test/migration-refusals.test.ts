/** The refusals of a copy and their messages; bad bytes in the source; a dry run, which changes nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import type { CommandResult } from './support/command-result.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import {
  failToServe,
  MIGRATED_APP,
  openMigrationPlaces,
  type Place,
  placeText,
  registerApp,
  withServer,
} from './support/migration-places.ts';
import { readPlace } from './support/read-place.ts';
import { listKeys } from './support/s3-request.ts';
import { runHoldfast } from './support/server-process.ts';

const TEST_MS_MAX = 300_000;
const FILE_BYTES = 300_000;
const KILL_POINT = join(import.meta.dir, 'support', 'kill-point.ts');

const places = openMigrationPlaces('migration-refusals');
const { issuer } = places;
const source = places.makeFolder();
const node = makeNode(seededBytes(FILE_BYTES, 1));
let engines: Place;

beforeAll(async () => {
  await registerApp(source, MIGRATED_APP, issuer);
  await withServer(source, issuer, (clientOf) => clientOf('space').store(node));
  engines = await places.makeEngines();
}, TEST_MS_MAX);

afterAll(() => places.close(), TEST_MS_MAX);

/** One line, exit code 1, nothing on stdout, no secret. */
function expectRefusal(outcome: CommandResult, why: RegExp): void {
  expect([outcome.exitCode, outcome.stdout]).toEqual([1, '']);
  const lines = outcome.stderr.split('\n').filter((line) => line.startsWith('holdfast: '));
  expect(lines).toEqual([expect.stringMatching(why)]);
  const password = new URL(engines.engines?.metadataUrl as string).password;
  expect(outcome.stderr).not.toContain(password);
}

describe('wrong usage (exit code 2)', () => {
  const run = (...args: readonly string[]) => runHoldfast(['migrate', ...args]);
  const cases: readonly [string, readonly string[], RegExp][] = [
    ['no source', ['--to', '/tmp/x'], /--from is missing/],
    ['no target', ['--from', '/tmp/x'], /--to is missing/],
    [
      'a database without a bucket',
      ['--from', '/tmp/x', '--to', 'postgres://u:sesame@h/d'],
      /--to names no deployment/,
    ],
    ['a bucket without a database', ['--from', '/tmp/x', '--to', 's3://bucket'], /--to names no deployment/],
    ['no host', ['--from', '/tmp/x', '--to', 'postgres:///d,s3://bucket'], /--to names no host/],
    [
      'a flag and a file',
      ['--from', '/tmp/x', '--from-file', '/tmp/y', '--to', '/tmp/z'],
      /cannot be used with/,
    ],
  ];
  for (const [what, args, why] of cases) {
    test(what, async () => {
      const outcome = await run(...args);
      expect([outcome.exitCode, outcome.stdout]).toEqual([2, '']);
      expect(outcome.stderr).toMatch(why);
      expect(outcome.stderr).not.toContain('sesame');
    });
  }
});

describe('a source', () => {
  test('that is nowhere', async () => {
    const nowhere = places.makeFolder();
    expectRefusal(await places.migrate(nowhere, places.makeFolder()), /--from holds no deployment/);
    expectRefusal(await places.migrate(engines, places.makeFolder()), /--from holds no deployment/);
    expect(existsSync(nowhere.data)).toBe(false);
  });

  test('that is the target', async () => {
    expectRefusal(await places.migrate(source, source), /the same place/);
  });

  test(
    'that is being served',
    async () => {
      await withServer(source, issuer, async () => {
        expectRefusal(await places.migrate(source, places.makeFolder()), /in use by another holdfast server/);
      });
    },
    TEST_MS_MAX,
  );
});

describe('a dry run', () => {
  test(
    'says what there is and makes nothing',
    async () => {
      const target = places.makeFolder();
      const outcome = await places.migrate(source, target, '--dry-run');
      expect([outcome.exitCode, outcome.stderr]).toEqual([0, '']);
      expect(outcome.stdout).toMatch(/^1 App, 1 Space, 1 node, 293 KiB\nthe target is empty/);
      expect(existsSync(target.data)).toBe(false);
      const json = await places.migrate(source, engines, '--dry-run', '--json');
      expect(JSON.parse(json.stdout)).toMatchObject({ apps: 1, spaces: 1, nodes: 1, target: 'empty' });
      expect(await listKeys((engines.engines as NonNullable<Place['engines']>).bucket)).toEqual([]);
      expectRefusal(await places.migrate(engines, places.makeFolder()), /--from holds no deployment/);
    },
    TEST_MS_MAX,
  );
});

describe('a target', () => {
  test(
    'with Apps or data of its own',
    async () => {
      const registered = places.makeFolder();
      await registerApp(registered, 'other', issuer);
      expectRefusal(await places.migrate(source, registered), /the target is not empty/);
      const used = places.makeFolder();
      await registerApp(used, MIGRATED_APP, issuer);
      await withServer(used, issuer, (clientOf) => clientOf('space').store(node));
      await runHoldfast(['app', 'remove', MIGRATED_APP, '--data', used.data]);
      expectRefusal(await places.migrate(source, used), /the target is not empty/);
      expectRefusal(await places.migrate(source, used, '--dry-run'), /the target is not empty/);
    },
    TEST_MS_MAX,
  );

  test(
    'that is complete: nothing is left to do until a server has run on either side',
    async () => {
      const target = places.makeFolder();
      expect((await places.migrate(source, target)).exitCode).toBe(0);
      const again = await places.migrate(source, target);
      expect([again.exitCode, again.stdout]).toEqual([0, expect.stringMatching(/^migrated and verified/)]);
      const plan = await places.migrate(source, target, '--dry-run');
      expect(plan.stdout).toContain('nothing is left to do');
      await withServer(target, issuer, async (clientOf) => {
        expect((await clientOf('space').content(node.hash)).status).toBe(200);
      });
      expectRefusal(await places.migrate(source, target), /the target is not empty/);
    },
    TEST_MS_MAX,
  );

  test(
    'whose copy was interrupted, and whose source was served since',
    async () => {
      const target = await makeInterrupted(source, places.makeFolder());
      expect(await failToServe(target)).toMatch(/^1: holdfast: .*unfinished copy/);
      expect((await places.migrate(source, target, '--dry-run')).stdout).toContain('goes on from there');
      const other = places.makeFolder();
      await registerApp(other, MIGRATED_APP, issuer);
      await withServer(other, issuer, (clientOf) => clientOf('space').store(node));
      expectRefusal(await places.migrate(other, target), /unfinished copy of another source/);
      await withServer(source, issuer, async () => undefined);
      expectRefusal(await places.migrate(source, target), /before a server ran on it again/);
    },
    TEST_MS_MAX,
  );
});

/** The target of a copy that is killed before it writes its first object. */
async function makeInterrupted(from: Place, to: Place): Promise<Place> {
  const { args, environment } = places.command(from, to);
  const killed = await runHoldfast(args, {
    environment: {
      ...environment,
      BUN_OPTIONS: `--preload=${KILL_POINT}`,
      HOLDFAST_TEST_KILL_AT: to.engines === undefined ? `write:${to.data}:1` : 'put:/nodes/:1',
    },
  });
  expect(killed.exitCode).toBe(137);
  return to;
}

describe('servers on PostgreSQL', () => {
  test(
    'are noticed as source and as target',
    async () => {
      const here = await places.makeEngines();
      await registerApp(here, MIGRATED_APP, issuer);
      await withServer(here, issuer, async (clientOf) => {
        await clientOf('space').store(node);
        const running = /connections of holdfast servers are open/;
        expectRefusal(await places.migrate(here, places.makeFolder()), running);
        expectRefusal(await places.migrate(source, here), running);
      });
      const target = await makeInterrupted(here, places.makeFolder());
      await withServer(here, issuer, async () => undefined);
      expectRefusal(await places.migrate(here, target), /before a server ran on it again/);
    },
    TEST_MS_MAX,
  );

  test('with a wrong password are refused, and the password is not shown', async () => {
    const url = new URL(engines.engines?.metadataUrl as string);
    url.password = 'open-sesame';
    const wrong = { ...engines, engines: { ...engines.engines, metadataUrl: url.href } } as Place;
    const outcome = await places.migrate(source, wrong);
    expectRefusal(outcome, /PostgreSQL refuses the password/);
    expect(outcome.stderr).not.toContain('sesame');
  });

  test(
    'do not start on an unfinished copy; the command goes on with it, however its places are given',
    async () => {
      const target = await makeInterrupted(source, await places.makeEngines());
      expect(await failToServe(target)).toMatch(/^1: holdfast: .*unfinished copy/);
      const { environment } = places.command(source, target);
      const flags = ['--from', source.data, '--to', placeText(target)];
      const byFlag = await runHoldfast(['migrate', ...flags], { environment });
      expect(byFlag.exitCode).toBe(0);
      await withServer(target, issuer, async (clientOf) => {
        expect((await clientOf('space').content(node.hash)).status).toBe(200);
      });
    },
    TEST_MS_MAX,
  );
});

describe('bad bytes in the source', () => {
  const kinds = ['flipped file', 'lost file', 'flipped row', 'lost row', 'flipped waiting'] as const;

  test(
    'are named, arrive as damaged, and are healed there',
    async () => {
      const here = places.makeFolder();
      const target = await places.makeEngines();
      await registerApp(here, MIGRATED_APP, issuer);
      const missing = makeNode('is never uploaded');
      const nodes = kinds.map((kind, index): CanonicalNode => {
        const bytes = seededBytes(kind.endsWith('row') ? 500 : FILE_BYTES, 100 + index);
        return makeNode(bytes, { refs: kind.endsWith('waiting') ? [missing.hash] : [] });
      });
      const good = makeNode(seededBytes(FILE_BYTES, 99));
      await withServer(here, issuer, async (clientOf) => {
        for (const each of [good, ...nodes]) await clientOf('space').store(each);
      });
      const spoiler = new ByteSpoiler(here.data);
      for (const [index, kind] of kinds.entries()) {
        const place = readPlace(here.data, (nodes[index] as CanonicalNode).hash);
        spoiler.spoil(place, kind.startsWith('lost') ? 'lost' : 'flipped');
      }
      const outcome = await places.migrate(here, target, '--json');
      expect([outcome.exitCode, JSON.parse(outcome.stdout).damagedNodes]).toEqual([0, kinds.length]);
      const events = outcome.stderr
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      const damaged = events.filter(({ type }) => type === 'damaged');
      expect(new Set(damaged.map(({ hash }) => hash))).toEqual(new Set(nodes.map(({ hash }) => hash)));
      await withServer(target, issuer, async (clientOf) => {
        const client = clientOf('space');
        expect((await client.content(good.hash)).status).toBe(200);
        expect((await client.usage()).notReadyNodeCount).toBe(kinds.length);
        for (const each of nodes.slice(0, -1)) {
          expect((await client.metadata(each.hash)).status).toBe(200);
          expect((await client.content(each.hash)).status).toBe(503);
          await client.store(each);
          expect(await (await client.content(each.hash)).bytes()).toEqual(
            each.content as Uint8Array<ArrayBuffer>,
          );
        }
        // A waiting parent is never rotten: it is found out once it is ready and read.
        const waiting = nodes.at(-1) as CanonicalNode;
        await client.store(missing);
        expect((await client.lease(waiting.hash)).json.state).toBe('ready');
        expect((await client.content(waiting.hash)).status).toBe(503);
        await client.store(waiting);
        expect((await client.content(waiting.hash)).status).toBe(200);
      });
    },
    TEST_MS_MAX,
  );

  test(
    'are told from a store that is away, which ends the copy and changes nothing',
    async () => {
      const here = places.makeFolder();
      await registerApp(here, MIGRATED_APP, issuer);
      await withServer(here, issuer, (clientOf) => clientOf('space').store(node));
      unlinkSync(join(here.data, 'content', 'STORE'));
      expectRefusal(
        await places.migrate(here, places.makeFolder()),
        /is not the content folder of this data/,
      );
    },
    TEST_MS_MAX,
  );
});
