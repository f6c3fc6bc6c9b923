/** The suite against our own server, in this process and over a real socket: each check is one test. */
import { afterAll, describe, expect, test } from 'bun:test';
import { type ConformanceOptions, openTarget, renderFailure, runCheck, selectChecks } from './index.ts';
import { openTestServer } from './test/test-server-fixture.ts';

const CHECK_TIMEOUT_MS = 300_000;
/** Checks that need nodes to be there, however they came. */
const AREAS_OF_NODES = [
  'children.',
  'gc.',
  'isolation.',
  'lease.',
  'pages.',
  'read.',
  'root-refs.',
  'usage.',
];

/** Checks of what a socket adds: how requests are read and answers are sent. The cluster runs all of them over sockets. */
const AREAS_OF_THE_SOCKET = [
  'auth.',
  'bulk-reads.',
  'head.',
  'headers.',
  'health.',
  'json.',
  'pack-put.',
  'raw.',
  'read.',
  'routes.',
  'upload.',
];

const server = await openTestServer();
afterAll(() => server.close());

async function describeTarget(
  name: string,
  options: ConformanceOptions,
  absent: readonly string[],
): Promise<void> {
  const target = await openTarget(options);
  const checks = selectChecks(options.only);
  const applicable = checks.filter((check) => check.needs.every((need) => target.whyNot(need) === undefined));
  describe(name, () => {
    for (const check of applicable) {
      test(
        `${check.id}: ${check.clause}`,
        async () => {
          const result = await runCheck(check, target);
          if (result.outcome !== 'passed') throw new Error(renderFailure(result));
        },
        CHECK_TIMEOUT_MS,
      );
    }

    test('leaves out only what this target cannot show', () => {
      const left = checks.filter((check) => !applicable.includes(check)).flatMap((check) => check.needs);
      expect(new Set(left.filter((need) => target.whyNot(need) !== undefined))).toEqual(
        new Set(absent) as Set<never>,
      );
    });
  });
}

await describeTarget('in process', server.inProcess, [
  'socket',
  'direct-upload',
  'store-expiry',
  'real-minute',
]);
await describeTarget(
  'in process, nodes in packs and by themselves',
  { ...server.inProcess, uploads: 'mixed', only: AREAS_OF_NODES },
  [],
);
await describeTarget('over a socket', { ...server.overSocket, only: AREAS_OF_THE_SOCKET }, [
  'direct-upload',
  'store-expiry',
  'real-minute',
]);
