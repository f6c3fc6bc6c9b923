/** Rows that exchange their values, take the key of another one, or are taken out: a sum covers the key, and other rows tell the rest. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Hash } from '@holdfast/protocol';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import { makeNode } from '../../test/support/canonical-node.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { type KnownNode, makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';
import { RenewedCopy } from './renewed-copy.ts';
import { CALLER, DAY_MS, openFolder, SPACE, upload } from './world.ts';

/** The second row of the table takes the key of the fourth. */
function replace(table: string, key: string): string[] {
  const at = (row: number): string => `(SELECT ${key} FROM ${table} ORDER BY ${key} LIMIT 1 OFFSET ${row})`;
  return [
    `CREATE TEMP TABLE keys AS SELECT ${at(1)} AS one, ${at(3)} AS two`,
    `DELETE FROM ${table} WHERE ${key} = (SELECT two FROM keys)`,
    `UPDATE ${table} SET ${key} = (SELECT two FROM keys) WHERE ${key} = (SELECT one FROM keys)`,
  ];
}

const DAMAGES: Readonly<Record<string, readonly string[]>> = {
  'a node under the hash of another one': replace('nodes', 'hash'),
  'content under the generation of another one': replace('contents', 'generation'),
  'a balance under the hash of another one': replace('balances', 'hash'),
  'a domain without its row': ['DELETE FROM domains WHERE id = 3'],
  'a Space without its row': ["DELETE FROM spaces WHERE space_id = 'other'"],
};
const TEST_MS_MAX = 600_000;

test(
  'rows in the place of others, and rows without an owner, lead to no loss',
  async () => {
    const folder = makeTempFolder('moved-rows', { fast: true });
    try {
      const origin = join(folder.path, 'origin');
      mkdirSync(origin);
      const known = await makeDeployment(openFolder(origin));
      const copies = new RenewedCopy(origin);
      const copy = join(folder.path, 'copy');
      for (const [name, statements] of Object.entries(DAMAGES)) {
        copies.make(copy);
        using database = new Database(join(copy, 'holdfast.db'), { readwrite: true, create: false });
        const changed = statements.map((each) => database.run(each).changes);
        expect([name, changed.at(-1)]).toEqual([name, 1]);
        database.close();
        const { wrong, isSeen } = await judge(
          { open: openFolder(copy), remove: async () => undefined },
          known,
        );
        expect([name, wrong, isSeen]).toEqual([name, [], true]);
      }
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);

const LOST: Readonly<Record<string, string>> = {
  'its hash': 'UPDATE nodes SET hash = ?2 WHERE hash = ?1',
  'its Space': 'UPDATE nodes SET space = space + 4096 WHERE hash = ?1 AND space = 1',
  'all of it': 'DELETE FROM nodes WHERE hash = ?1',
};

test.each(
  Object.keys(LOST).flatMap((lost) => [false, true].map((isRepaired) => [lost, isRepaired] as const)),
)(
  'a node that is uploaded again because its row lost %s is kept by its root refs (repair: %p)',
  async (lost, isRepaired) => {
    const folder = makeTempFolder('lost-row', { fast: true });
    try {
      const known = await makeDeployment(openFolder(folder.path));
      const held = known.domains.get('main')?.balances;
      const node = known.nodes.find(({ hash, refs }) => held?.has(hash) && refs.length === 0) as KnownNode;
      const child = known.nodes.find(({ hash }) =>
        known.nodes.some(({ refs }) => refs.includes(hash)),
      ) as KnownNode;
      const wanted = lost === 'all of it' ? [node] : [node, child];
      using database = new Database(join(folder.path, 'holdfast.db'), { readwrite: true, create: false });
      for (const { hash } of wanted) lose(database, hash, lost);
      database.close();
      const world = await openFolder(folder.path)(known.now, 2);
      const read = (hash: Hash) => readContent(world.core, SPACE, hash, undefined, CALLER);
      for (const each of wanted) {
        await expect(read(each.hash)).rejects.toMatchObject({ status: 404 });
        await upload(world, each);
      }
      const release = { requestId: 'release', changes: [{ hash: node.hash, delta: -1 }] };
      // Its balance is 2, and its new row has none: that is no conflict of the client's.
      await expect(updateRootRefs(world.core, SPACE, 'main', release)).rejects.toThrow('run check --repair');
      const garbage = makeNode('garbage');
      await upload(world, garbage);
      const look = { rehashPercent: 0, signal: new AbortController().signal, report: () => undefined };
      if (isRepaired) await checkDeployment(world.core, { ...look, isRepaired });
      world.clock.now += DAY_MS;
      await runGc(world.core, SPACE, 1000).catch((error) => expect(error).toMatchObject({ status: 503 }));
      for (const each of wanted) expect((await read(each.hash)).contentType).toBe(each.contentType);
      await expect(read(garbage.hash)).rejects.toMatchObject({ status: 404 });
      await world.close();
    } finally {
      folder.remove();
    }
  },
);

/** in no pack, and in one */
test.each(['free', 'packed leased'])(
  'the row of the node "%s" with a wrong key goes with its record once the new row holds as much, and the node can be collected',
  async (name) => {
    const folder = makeTempFolder('old-row', { fast: true });
    try {
      const known = await makeDeployment(openFolder(folder.path));
      const text = `node ${name} `;
      const node = known.nodes.find(({ content }) =>
        Buffer.from(content).toString().startsWith(text),
      ) as KnownNode;
      using database = new Database(join(folder.path, 'holdfast.db'), { readwrite: true, create: false });
      const unnamed = countUnnamed(folder.path);
      lose(database, node.hash, 'its hash');
      database.close();
      const world = await openFolder(folder.path)(known.now, 2);
      await upload(world, node, DAY_MS);
      const look = { rehashPercent: 0, signal: new AbortController().signal, report: () => undefined };
      const check = (isRepaired: boolean) => checkDeployment(world.core, { ...look, isRepaired });
      expect((await check(false)).findings.map(({ message }) => message).join()).toContain(
        'one wrong bit in hash',
      );
      await check(true);
      expect((await check(true)).findings).toEqual([]);
      expect(countUnnamed(folder.path)).toBe(unnamed);
      expect(countWrongPacks(folder.path)).toBe(0);
      world.clock.now += DAY_MS;
      await runGc(world.core, SPACE, 1000);
      await expect(
        (async () => readContent(world.core, SPACE, node.hash, undefined, CALLER))(),
      ).rejects.toMatchObject({ status: 404 });
      await world.close();
    } finally {
      folder.remove();
    }
  },
);

/** Records that no node names. */
function countUnnamed(folder: string): number {
  using database = new Database(join(folder, 'holdfast.db'), { readonly: true });
  using statement = database.prepare<{ count: number }, []>(
    'SELECT count(*) AS count FROM contents WHERE generation NOT IN (SELECT generation FROM nodes)',
  );
  return statement.get()?.count ?? 0;
}

/** Packs that count another number of live records than name them. */
function countWrongPacks(folder: string): number {
  using database = new Database(join(folder, 'holdfast.db'), { readonly: true });
  using statement = database.prepare<{ count: number }, []>(
    'SELECT count(*) AS count FROM packs WHERE live_records <> (SELECT count(*) FROM contents WHERE pack = packs.generation)',
  );
  return statement.get()?.count ?? 0;
}

function lose(database: Database, hash: Hash, lost: string): void {
  const key = Buffer.from(hash, 'hex');
  const wrong = Buffer.from(key);
  wrong[0] = (wrong[0] as number) ^ 1;
  expect(database.run(LOST[lost] as string, lost === 'its hash' ? [key, wrong] : [key]).changes).toBe(1);
}
