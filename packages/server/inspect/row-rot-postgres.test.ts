/**
 * Flips one bit in each column of each row that carries a sum, on a real PostgreSQL, each in its own Space. Reads return the right
 * value or an error. Reads, leases, collection, sweep, packing and scrub lose nothing. A check names the row, and a repair loses
 * nothing.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test';
import { HOUR_MS } from '@holdfast/protocol';
import { SQL } from 'bun';
import { type CanonicalNode, makeNode } from '../../../test/support/canonical-node.ts';
import { openPostgres, type TestDatabases } from '../../../test/support/postgres-server.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { scrub } from '../core/collect/scrub.ts';
import { sweep } from '../core/collect/sweep.ts';
import type { Core } from '../core/core.ts';
import { leaseNode } from '../core/lease/lease-node.ts';
import type { Space } from '../core/model.ts';
import { packSmallNodes } from '../core/packs/pack-small-nodes.ts';
import { readContent } from '../core/read/read-content.ts';
import { readMetadata } from '../core/read/read-metadata.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { spaceKeyOf } from '../core/space-map.ts';
import { CALLER } from '../core/test/core-fixture.ts';
import type { DirectStore } from '../core/test/direct-store.ts';
import {
  coreOf,
  makeContent,
  openInstance,
  type StoreInstance,
} from '../engine/postgres/test/postgres-fixture.ts';
import { checkDeployment } from './check-deployment.ts';

const TEST_MS_MAX = 300_000;
const BUILT_AT_ONCE = 8;
const STEPS_MAX = 40;
const ROWS_MAX = 100;
const DOMAIN = 'photos';

const LEAF = makeNode('leaf', { contentType: 'text/plain' });
const OTHER = makeNode('other leaf', { contentType: 'text/plain' });
const ROOT = makeNode('root', { contentType: 'text/plain', refs: [LEAF.hash, OTHER.hash, LEAF.hash] });
const LEASED = makeNode('leased', { contentType: 'text/plain' });
/** reachable from a root ref, or leased */
const KEPT = [LEAF, OTHER, ROOT, LEASED];
const WAITING = makeNode('waiting', { refs: [makeNode('never comes').hash] });
const GARBAGE = makeNode('garbage');

/** A condition that selects one row of a Space. */
const ROWS: readonly (readonly [table: string, condition: string])[] = [
  ['nodes', `hash = '\\x${LEAF.hash}'`],
  ['nodes', `hash = '\\x${ROOT.hash}'`],
  ['nodes', `hash = '\\x${LEASED.hash}'`],
  ['contents', `generation = (SELECT generation FROM nodes WHERE space = $1 AND hash = '\\x${LEAF.hash}')`],
  ['contents', `generation = (SELECT generation FROM nodes WHERE space = $1 AND hash = '\\x${LEASED.hash}')`],
  ['packs', 'state = 2'],
  ['pack_verdicts', 'true'],
  ['uploads', 'true'],
  ['discards', 'due_at = (SELECT min(due_at) FROM discards WHERE space = $1)'],
  ['loose_edges', 'true'],
  ['domains', 'true'],
  ['balances', `hash = '\\x${ROOT.hash}'`],
  ['balance_history', 'true'],
  ['root_ref_commits', 'revision = 1'],
  ['spaces', 'true'],
  ['usage_counters', 'true'],
];

interface Damage {
  readonly space: Space;
  readonly table: string;
  readonly condition: string;
  readonly column: string;
  readonly type: string;
}

const clock = { at: Date.now() - 100 * HOUR_MS, now: () => clock.at };
let databases: TestDatabases;
let instance: StoreInstance;
let content: DirectStore;
let core: Core;
let sql: SQL;

beforeAll(async () => {
  databases = await openPostgres();
  const url = await databases.createDatabase();
  instance = await openInstance(url, {
    clock,
    connectionsMax: BUILT_AT_ONCE,
    limits: { admissionMs: TEST_MS_MAX },
  });
  content = makeContent(clock.now);
  core = coreOf(instance, content);
  sql = new SQL(url, { max: 1 });
}, TEST_MS_MAX);
afterAll(async () => {
  await sql.close();
  await instance.close();
  await databases.close();
});

const lease = (space: Space, { hash }: CanonicalNode, durationMs = 60_000) =>
  leaseNode(core, space, hash, durationMs, () => 'http://unused');

async function publish(space: Space, node: CanonicalNode): Promise<void> {
  const answer = await lease(space, node);
  if (!('upload' in answer)) throw new Error(`expected an upload instruction, got ${answer.state}`);
  expect(content.put(answer.upload.url, node.bytes)).toBe(200);
  await lease(space, node);
}

const commit = (space: Space, requestId: string, changes: { hash: string; delta: number }[]) =>
  updateRootRefs(core, space, DOMAIN, { requestId, changes });

async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const some = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: BUILT_AT_ONCE }, some));
}

async function packAll(): Promise<void> {
  let walk: Parameters<typeof packSmallNodes>[1];
  do {
    const step = await packSmallNodes(core, walk, { nodesMin: 1, ageMs: 0 });
    walk = step.next;
  } while (walk !== undefined);
}

async function build(spaces: readonly Space[]): Promise<void> {
  await forEach(spaces, async (space) => {
    for (const node of [LEAF, OTHER, ROOT]) await publish(space, node);
    await commit(space, 'first', [{ hash: ROOT.hash, delta: 1 }]);
    await commit(space, 'second', [{ hash: ROOT.hash, delta: 2 }]);
  });
  clock.at += 2;
  await packAll();
  await forEach(spaces, async (space) => {
    for (const node of [LEASED, WAITING, GARBAGE]) await publish(space, node);
    await lease(space, makeNode('opened'));
    await core.metadata.transact(space, async (tx) => {
      const broken = { byte: 3, message: 'cut' };
      await tx.packs.setVerdicts('ab'.repeat(16), { hashes: new Uint8Array(32), rejections: [], broken });
    });
  });
  clock.at += HOUR_MS;
  await forEach(spaces, async (space) => void (await lease(space, LEASED, 12 * HOUR_MS)));
}

/** SQL that flips one bit of a column. */
function flipOf(column: string, type: string): string {
  if (type === 'boolean') return `NOT ${column}`;
  if (type === 'bytea') return `set_bit(${column}, 3, 1 - get_bit(${column}, 3))`;
  if (type === 'text') return `overlay(${column} placing chr(ascii(${column}) # 1) from 1 for 1)`;
  if (type === 'uuid') {
    const bits = `decode(replace(${column}::text, '-', ''), 'hex')`;
    return `encode(set_bit(${bits}, 3, 1 - get_bit(${bits}, 3)), 'hex')::uuid`;
  }
  // A bound that lies before the end of its lease is right wherever it lies.
  if (column === 'lease_due_at') return `${column} # (1::bigint << 50)`;
  // Without its only bit a balance of 1 would be 0, and a neighbouring slot may be taken.
  return `${column} # ${column === 'slot' ? 32 : 2}`;
}

async function listDamages(): Promise<Damage[]> {
  const damages: Damage[] = [];
  for (const [table, condition] of ROWS) {
    const columns = await sql.unsafe(
      `SELECT column_name AS name, data_type AS type FROM information_schema.columns
       WHERE table_name = '${table}' AND is_generated = 'NEVER' AND table_schema = 'public' ORDER BY ordinal_position`,
    );
    for (const { name: column, type } of columns) {
      const space = { appId: 'rot', spaceId: `${table} ${column} ${damages.length}` };
      damages.push({ space, table, condition, column, type });
    }
  }
  return damages;
}

/** Resolves with whether there was a bit to flip. */
async function damage({ space, table, condition, column, type }: Damage): Promise<boolean> {
  const key = spaceKeyOf(space);
  const isLong =
    type === 'bytea' ? ` AND octet_length(${column}) > 0` : type === 'text' ? ` AND ${column} <> ''` : '';
  const { count } = await sql.unsafe(`UPDATE ${table} SET ${column} = ${flipOf(column, type)}
    WHERE ${column} IS NOT NULL${isLong} AND ctid = (SELECT ctid FROM ${table}
      WHERE space = '${key}' AND ${condition.replaceAll('$1', `'${key}'`)} LIMIT 1)`);
  expect(count).toBeLessThanOrEqual(1);
  return count === 1;
}

const orRefused = <T>(work: () => T | Promise<T>): Promise<T | Error> =>
  Promise.resolve()
    .then(work)
    .catch((error: unknown) => error as Error);

/** `undefined`: refused */
async function readAll(space: Space): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = [];
  for (const node of KEPT) {
    const answer = await orRefused(() => readContent(core, space, node.hash, undefined, CALLER));
    const told = await orRefused(() => readMetadata(core, space, node.hash));
    if (!(told instanceof Error)) {
      const { size, contentType, refs } = told.metadata;
      expect([size, contentType, refs]).toEqual([node.content.length, node.contentType, [...node.refs]]);
    }
    if (answer instanceof Error) {
      found.push(undefined);
      continue;
    }
    const bytes = answer.body instanceof Blob ? await answer.body.bytes() : answer.body;
    expect([space.spaceId, Buffer.from(bytes).toString()]).toEqual([
      space.spaceId,
      Buffer.from(node.content).toString(),
    ]);
    found.push(node.hash);
  }
  return found;
}

async function sweepAll(): Promise<void> {
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const done = await orRefused(() => sweep(core));
    if (!(done instanceof Error) && !done.moreToDo) break;
  }
}

async function scrubAll(): Promise<void> {
  let after: string | undefined;
  for (let step = 0; step < ROWS_MAX * ROWS_MAX; step += 1) {
    const done = await orRefused(() => scrub(core, after));
    if (done instanceof Error) continue;
    after = done.next;
    if (after === undefined) return;
  }
}

const check = (isRepaired: boolean) =>
  checkDeployment(core, {
    isRepaired,
    rehashPercent: 100,
    signal: new AbortController().signal,
    report: () => undefined,
  });

test(
  'a wrong bit in any column loses nothing, is never read as right, is named by a check, and is repaired',
  async () => {
    const damages = await listDamages();
    await build(damages.map(({ space }) => space));
    const done: Damage[] = [];
    for (const each of damages) if (await damage(each)) done.push(each);
    // Columns without a value in these rows.
    expect(damages.length - done.length).toBeLessThan(ROWS_MAX / 2);
    const readable = new Map<Space, (string | undefined)[]>();
    await forEach(done, async ({ space }) => void readable.set(space, await readAll(space)));

    clock.at += 6 * HOUR_MS;
    await forEach(done, async ({ space }) => {
      await orRefused(() => runGc(core, space, ROWS_MAX));
      const again = await orRefused(() => commit(space, 'first', [{ hash: ROOT.hash, delta: 1 }]));
      if (!(again instanceof Error))
        expect([space.spaceId, again.idempotent, again.revision]).toEqual([space.spaceId, true, 1]);
    });
    await sweepAll();
    await orRefused(packAll);
    await scrubAll();
    await forEach(done, async ({ space }) => {
      const after = await readAll(space);
      for (const [index, hash] of (readable.get(space) ?? []).entries()) {
        if (hash !== undefined) expect([space.spaceId, after[index]]).toEqual([space.spaceId, hash]);
      }
    });

    const { findings } = await check(false);
    const said = findings.map(({ space, message }) => `${space} ${message}`).join('\n');
    const unseen = done
      .filter(({ space }) => !said.includes(space.spaceId))
      .map(({ space }) => space.spaceId);
    expect(unseen).toEqual([]);

    await check(true);
    const repaired = await check(true);
    expect(repaired.findings.map(({ space, message }) => [space, message])).toEqual([]);
    clock.at += HOUR_MS;
    await forEach(done, async ({ space }) => void (await orRefused(() => runGc(core, space, ROWS_MAX))));
    await sweepAll();
    await forEach(done, async ({ space }) => {
      expect([space.spaceId, await readAll(space)]).toEqual([space.spaceId, KEPT.map(({ hash }) => hash)]);
    });
    expect(instance.fatal).toEqual([]);
  },
  TEST_MS_MAX,
);
