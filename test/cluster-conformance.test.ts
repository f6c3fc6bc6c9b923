/**
 * The conformance suite against three server processes over one PostgreSQL and one bucket, behind a balancer that sends each
 * connection to the next server. The answers are those of the embedded engine, except for what the store itself says to a PUT.
 */
import { afterAll, describe, expect, test } from 'bun:test';
import {
  type ConformanceOptions,
  type Report,
  renderReport,
  runConformance,
  selectChecks,
} from '../packages/conformance/index.ts';
import { openEngines, startCluster } from './support/cluster.ts';
import { registerConformanceApps } from './support/conformance-apps.ts';
import { openDatabaseClock } from './support/database-clock.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';

const NODE_BYTES_MAX = 6_000_000;
const ACTIVE_UPLOADS_MAX = 24;
const SHORT_UPLOAD_TTL_SECONDS = 8;
const CONCURRENCY = 6;
/** A sweep comes every three seconds, to one of three processes. */
const SWEEP_MS = 15_000;
const RUN_MS_MAX = 10 * 60_000;

const cleanups: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const engines = await openEngines();
cleanups.push(() => engines.close());
const clock = await openDatabaseClock(engines.metadataUrl);
const apps = await registerConformanceApps(engines.metadataUrl);
const limits = [
  '--max-node-bytes',
  String(NODE_BYTES_MAX),
  '--max-active-uploads',
  String(ACTIVE_UPLOADS_MAX),
];
const cluster = await startCluster(engines, { arguments: limits });
cleanups.push(() => cluster.remove());
const shortLived = await startCluster(engines, {
  processes: 1,
  arguments: [...limits, '--upload-ttl', `${SHORT_UPLOAD_TTL_SECONDS}s`],
  appId: 'short-lived',
});
cleanups.push(() => shortLived.remove());
const balancer = await startTcpProxy(cluster.servers.map(({ process }) => ({ port: process.port })));
cleanups.push(() => balancer.close());

const base: ConformanceOptions = {
  baseUrl: `http://${balancer.address}`,
  ...apps,
  hasSingleKey: true,
  nodeBytesMax: NODE_BYTES_MAX,
  activeUploadsMax: ACTIVE_UPLOADS_MAX,
  concurrency: CONCURRENCY,
};

function expectAllGood(report: Report): void {
  const failed = report.results.filter(({ outcome }) => outcome === 'failed');
  if (failed.length > 0) throw new Error(`${renderReport(report)}\n${cluster.logs()}`);
}

const needing = (...needs: readonly string[]): string[] =>
  selectChecks()
    .filter((check) => check.needs.some((need) => needs.includes(need)))
    .map(({ id }) => id);

describe('three processes on PostgreSQL and S3', () => {
  test(
    'keep every rule that needs no time to pass',
    async () => {
      const report = await runConformance(base);
      expectAllGood(report);
      expect(report.passed).toBeGreaterThan(170);
      const left = report.results.filter(({ outcome }) => outcome === 'not applicable').map(({ id }) => id);
      const needsTime = needing('minute', 'real-minute', 'upload-expiry', 'store-expiry', 'day');
      expect(left.filter((id) => !needsTime.includes(id)).sort()).toEqual(
        needing('embedded-upload')
          .filter((id) => !needsTime.includes(id))
          .sort(),
      );
      expect(balancer.accepted).toBeGreaterThan(cluster.servers.length);
    },
    RUN_MS_MAX,
  );

  test(
    'keep the rules of nodes that came in packs, or some of them',
    async () => {
      const only = [
        'children.',
        'format.',
        'gc.',
        'isolation.',
        'lease.',
        'pages.',
        'read.',
        'root-refs.',
        'usage.',
      ];
      const report = await runConformance({ ...base, uploads: 'mixed', only });
      expectAllGood(report);
      expect(report.passed).toBeGreaterThan(60);
    },
    RUN_MS_MAX,
  );

  test(
    'keep the rules of URLs that run out by the clock of the store',
    async () => {
      const only = needing('store-expiry');
      const report = await runConformance({
        ...base,
        baseUrl: shortLived.servers[0]?.process.url ?? '',
        only,
      });
      expectAllGood(report);
      expect(report.passed).toBe(only.length);
    },
    RUN_MS_MAX,
  );

  test(
    'keep the rules of minutes and days, by the clock of the database',
    async () => {
      const only = needing('minute', 'upload-expiry', 'day').filter(
        (id) => !needing('embedded-upload').includes(id),
      );
      const report = await runConformance({
        ...base,
        only,
        now: clock.now,
        tokenNow: Date.now,
        advanceClock: clock.advance,
        settle: () => Bun.sleep(SWEEP_MS),
      });
      expectAllGood(report);
      expect(report.passed).toBe(only.length);
    },
    RUN_MS_MAX,
  );
});

type Fetch = NonNullable<ConformanceOptions['fetch']>;

/** Stores that take the PUT and break a rule, made of the good one. */
const brokenStores: readonly { name: string; breaks: string; make(): Fetch }[] = [
  {
    name: 'takes a second PUT',
    breaks: 'upload.direct-replay',
    make: () => async (url, init) => {
      const answer = await fetch(url, init);
      return init.method === 'PUT' && answer.status === 412 ? new Response(null, { status: 200 }) : answer;
    },
  },
  {
    name: 'does not look at signed headers',
    breaks: 'upload.direct-headers',
    make: () => (url, init) => {
      if (init.method !== 'PUT') return fetch(url, init);
      const headers = {
        'content-type': 'application/vnd.holdfast.cas-node.v1',
        'if-none-match': '*',
      };
      return fetch(url, { ...init, headers });
    },
  },
  {
    name: 'does not look at signatures',
    breaks: 'upload.direct-tampered',
    make() {
      const signed = new Map<string, string>();
      return async (url, init) => {
        const { pathname } = new URL(url, base.baseUrl);
        if (init.method === 'PUT') return fetch(signed.get(pathname) ?? url, init);
        const answer = await fetch(url, init);
        const text = await answer.clone().text();
        const upload = /"url":"([^"]+)"/.exec(text)?.[1];
        if (upload !== undefined) signed.set(new URL(upload).pathname, upload);
        return answer;
      };
    },
  },
  {
    name: 'refuses bodies over the limit itself',
    breaks: 'lease.over-limit',
    make: () => (url, init) => {
      const isLarge = init.body instanceof Uint8Array && init.body.length > NODE_BYTES_MAX;
      return isLarge ? Promise.resolve(new Response(null, { status: 413 })) : fetch(url, init);
    },
  },
];

describe('the suite notices a store that', () => {
  for (const { name, breaks, make } of brokenStores) {
    test(`${name}`, async () => {
      const good = await runConformance({ ...base, fetch: (url, init) => fetch(url, init), only: [breaks] });
      expectAllGood(good);
      const report = await runConformance({ ...base, fetch: make(), only: [breaks] });
      expect(report.results.map(({ id, outcome }) => `${id} ${outcome}`)).toContain(`${breaks} failed`);
    }, 300_000);
  }
});
