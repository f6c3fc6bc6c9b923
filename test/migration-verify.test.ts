/** The verification at the end of a copy finds and names whatever differs from the source. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomUUID } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { openDeployment } from '../packages/server/deployment/open.ts';
import { parseDeploymentPlace } from '../packages/server/deployment/place.ts';
import { copyDeployment } from '../packages/server/transfer/copy-deployment.ts';
import type { TransferEvent } from '../packages/server/transfer/events.ts';
import { fillZoo, type Zoo } from './support/deployment-zoo.ts';
import { databasePath, objectPath } from './support/embedded-files.ts';
import { MIGRATED_APP, openMigrationPlaces, registerApp, withServer } from './support/migration-places.ts';
import { readPlace } from './support/read-place.ts';
import { changeRows } from './support/reseal-rows.ts';

const TEST_MS_MAX = 300_000;
const folderPlace = (text: string) => parseDeploymentPlace('--from', text, {});

const places = openMigrationPlaces('migration-verify');
const source = places.makeFolder();
let zoo: Zoo;

beforeAll(async () => {
  await registerApp(source, MIGRATED_APP, places.issuer);
  zoo = await withServer(source, places.issuer, (clientOf) => fillZoo(clientOf, 3));
}, TEST_MS_MAX);

afterAll(() => places.close());

/** Copies to a new folder; `meddle` comes between copying and verifying. */
async function copyWith(
  meddle: (targetData: string) => void,
  sourceData = source.data,
): Promise<TransferEvent[]> {
  const { data } = places.makeFolder();
  const from = await openDeployment(folderPlace(sourceData), { kind: 'copy' });
  const to = await openDeployment(folderPlace(data), { kind: 'copy' });
  const events: TransferEvent[] = [];
  const rows = new Proxy(to.rows, {
    get(rows, name) {
      const verbs = rows as unknown as Record<string | symbol, (...args: unknown[]) => Promise<unknown>>;
      const verb = verbs[name]?.bind(rows) as (...args: unknown[]) => Promise<unknown>;
      if (name !== 'setMark') return verb;
      return async (mark: string, text: string) => {
        await verb(mark, text);
        if (text.includes('"phase":"verify"') && text.includes('"spaces":0')) meddle(data);
      };
    },
  });
  try {
    await copyDeployment({
      source: from,
      target: { ...to, rows },
      signal: new AbortController().signal,
      onEvent: (event) => events.push(event),
      makeEpoch: randomUUID,
      // Every kind takes several pages and batches.
      limits: { pageEntriesMax: 3, pageBytesMax: 400_000, batchEntriesMax: 5 },
      pausesMs: [],
    });
  } finally {
    await to.close();
    await from.close();
  }
  return events;
}

/** Changes rows as a person with a database tool would, without knowledge of flags and counters. */
function change(data: string, sql: string): void {
  const database = new Database(databasePath(data));
  try {
    database.run('PRAGMA busy_timeout = 5000');
    const changes = changeRows(database, sql);
    if (changes === 0) throw new Error(`nothing was changed by: ${sql}`);
  } finally {
    database.close();
  }
}

const one = (table: string, condition = '1'): string => `(SELECT min(hash) FROM ${table} WHERE ${condition})`;

describe('a copy', () => {
  test(
    'is verified in pages of any size',
    async () => {
      const events = await copyWith(() => undefined);
      expect(events.at(-1)).toMatchObject({ type: 'done', damagedNodes: 0, counts: { spaces: 3 } });
      expect(events.filter(({ type }) => type === 'progress').length).toBeGreaterThan(40);
    },
    TEST_MS_MAX,
  );

  test(
    'of a source that lost a row is refused',
    async () => {
      const { data } = places.makeFolder();
      cpSync(source.data, data, { recursive: true });
      change(data, `DELETE FROM nodes WHERE hash = ${one('nodes', "refs = x'' AND child_ref_count = 0")}`);
      const refused = await copyWith(() => undefined, data).catch((error: unknown) => error);
      expect((refused as Error).message).toMatch(
        /the source is damaged: Space .* has \d+ nodes by its counter, and \d+ rows of nodes; restore a backup/,
      );
    },
    TEST_MS_MAX,
  );

  const changes: readonly [string, string, RegExp][] = [
    [
      'a lease',
      'UPDATE nodes SET lease_expires_at = lease_expires_at + 1',
      /the row of node \w{64} is not the same/,
    ],
    [
      'a count',
      'UPDATE nodes SET root_ref_count = root_ref_count + 1',
      /the row of node \w{64} is not the same/,
    ],
    ['refs', `UPDATE nodes SET refs = x'' WHERE length(refs) > 0`, /the row of node \w{64} is not the same/],
    ['a state', 'UPDATE nodes SET state = 2 WHERE state = 1', /node \w{64} is rotten, in the source ready/],
    [
      'a missing row',
      `DELETE FROM nodes WHERE hash = ${one('nodes')}`,
      /the row of node \w{64} is not the same|nodes: \d rows arrived of \d/,
    ],
    [
      'a content record',
      'UPDATE contents SET canonical_size = canonical_size + 1',
      /the content record of node/,
    ],
    ['a missing content record', 'DELETE FROM contents', /the content record of node \w{64} is not right/],
    [
      'inline bytes',
      `UPDATE contents SET inline_bytes = zeroblob(length(inline_bytes)) WHERE inline_bytes IS NOT NULL`,
      /lacks its bytes/,
    ],
    ['a loose edge', 'UPDATE loose_edges SET count = count + 1', /looseEdges .* are not the same/],
    ['a missing loose edge', 'DELETE FROM loose_edges', /looseEdges: 0 rows arrived of 1/],
    [
      'an instant of an upload',
      'UPDATE uploads SET touched_at = touched_at - 1',
      /the unfinished upload of \w{64}/,
    ],
    ['a missing upload', 'DELETE FROM uploads', /uploads: 0 rows arrived of 3/],
    ['a revision', 'UPDATE domains SET revision = revision + 1', /domains .* are not the same/],
    ['a floor', 'UPDATE domains SET history_floor = history_floor + 1', /domains .* are not the same/],
    ['a balance', 'UPDATE balances SET balance = balance * 2', /balances of the domain .* are not the same/],
    ['a missing balance', 'DELETE FROM balances', /balances: 0 rows arrived of \d/],
    [
      'a superseded balance',
      'UPDATE balance_history SET to_revision = to_revision + 1',
      /history of the domain/,
    ],
    ['a payload', 'UPDATE root_ref_commits SET payload_digest = zeroblob(32)', /commits of the domain/],
    ['a request id', `UPDATE root_ref_commits SET request_id = request_id || 'x'`, /commits of the domain/],
    ['a counter', 'UPDATE spaces SET ready_content_bytes = ready_content_bytes + 1', /its counters are/],
    [
      'a Space too many',
      `INSERT INTO spaces (app_id, space_id) VALUES ('other', 'x')`,
      /the target has 4 Spaces/,
    ],
  ];
  for (const [what, sql, why] of changes) {
    test(
      `is refused for ${what}`,
      async () => {
        const copying = copyWith((data) => change(data, sql));
        await expect(copying).rejects.toThrow(why);
        await expect(copying).rejects.toThrow(/; empty the target and begin again$/);
      },
      TEST_MS_MAX,
    );
  }

  for (const [what, sql] of [
    ['a rejection', 'UPDATE uploads SET rejection_code = NULL WHERE rejection_code IS NOT NULL'],
    ['a verdict', 'UPDATE uploads SET verdict = NULL WHERE verdict = 0'],
  ] as const) {
    test(`is refused for ${what}, without which no server writes its row`, async () => {
      await expect(copyWith((data) => change(data, sql))).rejects.toThrow(
        /the row of the upload of \w{64} is damaged/,
      );
    });
  }

  test('is refused for a row too many', async () => {
    const columns =
      'space, state, size, canonical_size, content_type, refs, generation, storage, lease_started_at, lease_expires_at, child_ref_count, root_ref_count, held_domain_count, waiting_touched_at, claim_held_until, collectable';
    const sql = (hash: string): string =>
      `INSERT INTO nodes (hash, ${columns}) SELECT ${hash}, ${columns} FROM nodes WHERE hash = ${one('nodes', 'state = 1')}`;
    await expect(copyWith((data) => change(data, sql('zeroblob(32)')))).rejects.toThrow(
      /is not the same|rows arrived/,
    );
    const last = `x'${'ff'.repeat(32)}'`;
    await expect(copyWith((data) => change(data, sql(last)))).rejects.toThrow(/nodes: \d rows arrived of \d/);
  });

  test('is refused for a missing object', async () => {
    const { generation } = readPlace(source.data, zoo.nodes.large.hash);
    await expect(copyWith((data) => rmSync(objectPath(data, generation)))).rejects.toThrow(
      `node ${zoo.nodes.large.hash} is ready, in the source ready, or lacks its bytes`,
    );
  });

  test('is refused if a server was started on the source meanwhile', async () => {
    const copying = copyWith(() => change(source.data, `DELETE FROM store WHERE name = 'copy-epoch'`));
    await expect(copying).rejects.toThrow(/a server was started on the source/);
  });
});
