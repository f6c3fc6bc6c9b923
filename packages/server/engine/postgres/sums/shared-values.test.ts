/** A wrong bit of what all processes share: it is refused, named by a check, and put right by the next start. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../../test/support/postgres-server.ts';
import { hashAt, insertNodes, newGeneration, openUpload, readyNode, SPACE } from '../../test/samples.ts';
import { findOrCreateSecret, findSecret } from '../secrets.ts';
import { openDatabases, openInstance, type StoreInstance } from '../test/postgres-fixture.ts';

const START_MS_MAX = 300_000;
const AT = 1_800_000_000_000;

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

const check = async ({ store }: StoreInstance, isRepaired = false) =>
  (
    await store.findRowDamage({
      ...{ signal: new AbortController().signal, onTable: () => undefined, isRepaired },
    })
  ).map(({ message }) => message);

test('notes and secrets', async () => {
  const url = await databases.createDatabase();
  let instance = await openInstance(url);
  await instance.store.settle('note', { name: 'epoch', value: '5' });
  await findOrCreateSecret(instance.pool, 'store', () => Buffer.from('one'));
  expect(await check(instance)).toEqual([]);
  await instance.pool.run('damaging', "UPDATE notes SET value = '7' WHERE name = 'epoch'", []);
  await instance.pool.run('damaging', "UPDATE secrets SET name = 'rtore' WHERE name = 'store'", []);
  expect(
    await Promise.resolve(instance.store.page('note', 'epoch')).catch((error) => error.message),
  ).toContain('note epoch');
  expect(await check(instance)).toEqual([
    'the row of notes name "epoch" has one wrong bit in value: check --repair puts it right',
    'the row of secrets name "store" has one wrong bit in name: check --repair puts it right',
  ]);
  await instance.close();
  instance = await openInstance(url);
  expect(await instance.store.page('note', 'epoch')).toBe('5');
  expect(await findSecret(instance.pool, 'store')).toEqual(new TextEncoder().encode('one'));
  expect(await check(instance)).toEqual([]);
  await instance.close();
});

test('a tombstone that is damaged proves no age, and begins anew', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const { store, pool } = instance;
  const [damaged, sound] = [newGeneration(), newGeneration()];
  const settle = (now: number) =>
    store.settle('tombstones', { unknown: [damaged, sound], known: [], now, seenSince: 0 });
  await settle(AT);
  await pool.run('damaging', 'UPDATE tombstones SET noted_at = 0 WHERE generation = $1', [`\\x${damaged}`]);
  expect(await store.page('tombstones', [damaged, sound])).toEqual(new Map([[sound, AT]]));
  expect((await check(instance)).join()).toContain(`the row of tombstones generation ${damaged}`);
  await settle(AT + 1);
  expect(await store.page('tombstones', [damaged, sound])).toEqual(
    new Map([
      [damaged, AT + 1],
      [sound, AT],
    ]),
  );
  expect(await check(instance)).toEqual([]);
  await pool.run('damaging', 'UPDATE tombstones SET seen_at = 9223372036854775807', []);
  await settle(AT + 2);
  expect([...(await store.page('tombstones', [damaged, sound])).values()]).toEqual([AT + 2, AT + 2]);
  await instance.close();
});

test('a value where a row has none', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const { store, pool } = instance;
  const [node, upload] = [readyNode(hashAt(1), { storage: 'object' }), openUpload(hashAt(2))];
  await store.transact(SPACE, async (tx) => {
    await tx.insert('node', node);
    await tx.insert('content', {
      ...{ generation: node.generation, canonicalSize: 134, integrity: new Uint8Array(1) },
      ...{ inlineBytes: undefined, packed: undefined, urlExpiresAt: 0 },
    });
    await tx.insert('upload', upload);
  });
  const isContentBelieved = async () =>
    (await store.findNodeWithContent(SPACE, node.hash))?.content !== undefined;
  for (const column of ['codec', 'pack_offset', 'stored_length']) {
    await pool.run('damaging', `UPDATE contents SET ${column} = 1`, []);
    expect([column, await isContentBelieved()]).toEqual([column, false]);
    await pool.run('putting back', `UPDATE contents SET ${column} = NULL`, []);
    expect(await isContentBelieved()).toBe(true);
  }
  for (const [column, value] of [
    ['rejection_message', "'no'"],
    ['bad_code', "'NO'"],
    ['size', '8'],
  ] as const) {
    await pool.run('damaging', `UPDATE uploads SET ${column} = ${value}`, []);
    expect([column, (await check(instance)).length]).toEqual([column, 1]);
    await pool.run('putting back', `UPDATE uploads SET ${column} = NULL`, []);
    expect(await check(instance)).toEqual([]);
  }
  await instance.close();
});

test('a row that cannot be put right holds up no other', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const { store, pool } = instance;
  await store.transact(SPACE, async (tx) => tx.insert('upload', openUpload(hashAt(1))));
  await insertNodes(store, SPACE, [readyNode(hashAt(2))]);
  await pool.run('damaging', 'UPDATE usage_counters SET leased_count = 9223372036854775807', []);
  await pool.run('damaging', 'UPDATE uploads SET touched_at = touched_at # 4', []);
  expect(await check(instance, true)).toHaveLength(2);
  expect((await check(instance)).filter((message) => message.startsWith('the row of uploads'))).toEqual([]);
  await instance.close();
});
