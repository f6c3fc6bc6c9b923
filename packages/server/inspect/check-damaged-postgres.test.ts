/** A check and a collection on a real PostgreSQL with damaged pages on its disk. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { SQL } from 'bun';
import { type CanonicalNode, makeNode } from '../../../test/support/canonical-node.ts';
import { type PostgresServer, startPostgres } from '../../../test/support/postgres-server.ts';
import { runGc } from '../core/collect/run-gc.ts';
import type { Core } from '../core/core.ts';
import { isDamage } from '../core/store-failure.ts';
import type { DirectStore } from '../core/test/direct-store.ts';
import type { ScrubPosition } from '../core/upkeep-ports.ts';
import { damagePage } from '../engine/postgres/test/damaged-page-fixture.ts';
import {
  coreOf,
  makeContent,
  openInstance,
  publish,
  type StoreInstance,
} from '../engine/postgres/test/postgres-fixture.ts';
import { SPACE } from '../engine/test/samples.ts';
import { type CheckResult, checkDeployment } from './check-deployment.ts';

const TEST_MS_MAX = 300_000;
const NODES = 300;
const AT_ONCE = 8;
const PASSES = 3;
/** Further nodes of the Space, with leases that never end. */
const LEASED = 20_000;

let postgres: PostgresServer;
beforeAll(async () => {
  // Autovacuum would move rows while a test looks for them.
  postgres = await startPostgres({ settings: { autovacuum: 'off' } });
}, TEST_MS_MAX);
afterAll(() => postgres.stop());

let url: string;
let clock: { at: number; now(): number };
let content: DirectStore;
let instance: StoreInstance;
let nodes: readonly CanonicalNode[];

async function open(): Promise<Core> {
  instance = await openInstance(url, { clock });
  return coreOf(instance, content);
}

beforeEach(async () => {
  url = await postgres.createDatabase();
  clock = { at: 1_000_000_000_000, now: () => clock.at };
  content = makeContent(clock.now);
  const core = await open();
  nodes = Array.from({ length: NODES }, (_, seed) => makeNode(`node ${seed}`));
  const left = [...nodes];
  const work = async (): Promise<void> => {
    for (let node = left.pop(); node !== undefined; node = left.pop()) await publish(core, content, node);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  await instance.close();
}, TEST_MS_MAX);

async function ask<T>(work: (sql: SQL) => Promise<T>): Promise<T> {
  const sql = new SQL(url, { max: 1 });
  try {
    return await work(sql);
  } finally {
    await sql.close();
  }
}

const damage = (relation: string, block: number) => damagePage(postgres, url, relation, block);

async function check(): Promise<CheckResult> {
  const core = await open();
  try {
    return await checkDeployment(core, {
      isRepaired: false,
      rehashPercent: 0,
      signal: new AbortController().signal,
      report: () => undefined,
    });
  } finally {
    await instance.close();
  }
}

const namedIn = ({ findings }: CheckResult): readonly (Hash | null)[] => findings.map(({ hash }) => hash);

test(
  'check names each node whose row lies on a damaged page, and goes on with the others',
  async () => {
    const { hashes, mend } = await damage('nodes', 2);
    expect(hashes.length).toBeGreaterThan(2);
    const result = await check();
    expect(result.ok).toBe(false);
    const message = /block 2 of the table nodes is damaged: check the disk, and restore a backup/;
    for (const finding of result.findings) {
      expect(finding.kind).toBe('unreadable');
      expect(finding.message).toMatch(message);
    }
    expect(namedIn(result)).toEqual([...hashes, null]);
    expect(result.checked).toBe(NODES - hashes.length);

    await mend();
    expect(await check()).toMatchObject({ ok: true, checked: NODES });
  },
  TEST_MS_MAX,
);

test(
  'the scrub says that a page is damaged, and goes on behind it',
  async () => {
    const { hashes } = await damage('nodes', 2);
    await open();
    const found = new Set<Hash>();
    let failures = 0;
    let position: ScrubPosition | undefined;
    for (let isOver = false; !isOver; ) {
      try {
        const { items, next } = await instance.store.page('nodesToScrub', { after: position, limit: 8 });
        for (const { node, content } of items) {
          expect(content).toBeDefined();
          found.add(node.hash);
        }
        position = next;
        isOver = next === undefined;
      } catch (error) {
        expect(isDamage(error)).toBe(true);
        failures += 1;
      }
    }
    await instance.close();
    expect(failures).toBeWithin(1, hashes.length + 1);
    expect([...found].toSorted()).toEqual(
      nodes
        .map(({ hash }) => hash)
        .filter((hash) => !hashes.includes(hash))
        .toSorted(),
    );
  },
  TEST_MS_MAX,
);

test.each([0, LEASED])(
  'a collection goes around a damaged page, says 503, and takes the rest once the page is mended: %d more nodes',
  async (leased) => {
    await ask(async (sql) => {
      await sql.unsafe(`INSERT INTO nodes SELECT (jsonb_populate_record(one, jsonb_build_object(
          'hash', '\\x' || encode(sha256(number::text::bytea), 'hex'), 'lease_expires_at', 9e15::bigint))).*
        FROM (SELECT nodes FROM nodes LIMIT 1) AS first (one), generate_series(1, ${leased}) AS number`);
      await sql.unsafe('ANALYZE nodes');
    });
    const { hashes, mend } = await damage('nodes', 2);
    // PostgreSQL may have put further nodes between those that may be collected.
    const damaged = nodes.filter(({ hash }) => hashes.includes(hash)).length;
    expect(damaged).toBeGreaterThan(0);
    clock.at += 1e12;
    const core = await open();
    // If an index is nearly full, PostgreSQL looks for dead rows, the damaged ones too. The next pass has room.
    let collected = 0;
    for (let passes = 0; passes < PASSES; passes += 1) {
      const failure = await runGc(core, SPACE, NODES).catch((error) => error);
      expect(failure).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
      expect(failure.cause.message).toContain('block 2 of the table nodes is damaged');
      collected += Number(/(\d+) other nodes were collected/.exec(failure.message)?.[1]);
    }
    expect(collected).toBe(NODES - damaged);
    for (const { hash } of nodes) {
      const found = await instance.store.findNode(SPACE, hash).catch((error) => isDamage(error) && 'damaged');
      expect([hash, found]).toEqual([hash, hashes.includes(hash) ? 'damaged' : undefined]);
    }
    await instance.close();
    await mend();
    const mended = await open();
    expect(await runGc(mended, SPACE, NODES)).toMatchObject({ deleted: damaged });
    await instance.close();
  },
  TEST_MS_MAX,
);

test(
  'check says of a damaged index that it is to be made anew, and names no node; other tables are named too',
  async () => {
    const index = await damage('nodes_pkey', 1);
    const ofIndex = await check();
    expect(namedIn(ofIndex)).toEqual([null, null]);
    for (const { message } of ofIndex.findings) {
      expect(message).toContain(
        'the index nodes_pkey is damaged, its table is not: run REINDEX INDEX nodes_pkey',
      );
    }
    await ask((sql) => sql.unsafe('REINDEX INDEX nodes_pkey'));
    expect(await check()).toMatchObject({ ok: true, checked: NODES });
    expect(index.hashes.length).toBeGreaterThan(0);

    const contents = await damage('usage_counters', 0);
    await open();
    const failure = await instance.store.readCounters(SPACE).catch((error) => error);
    expect(isDamage(failure)).toBe(true);
    expect(failure.message).toContain('block 0 of the table usage_counters is damaged');
    await instance.close();
    await contents.mend();
    expect(await check()).toMatchObject({ ok: true });
  },
  TEST_MS_MAX,
);
