/** Rows that exchange their values, take the key of another one, or are taken out: a sum covers the key, and other rows tell the rest. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
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

test('a node that is uploaded again because its row lost its hash is kept by its root refs after a repair', async () => {
  const folder = makeTempFolder('lost-hash', { fast: true });
  try {
    const known = await makeDeployment(openFolder(folder.path));
    const node = known.nodes.find(({ hash }) => known.domains.get('main')?.balances.has(hash)) as KnownNode;
    using database = new Database(join(folder.path, 'holdfast.db'), { readwrite: true, create: false });
    const [hash, wrong] = [Buffer.from(node.hash, 'hex'), Buffer.from(node.hash, 'hex')];
    wrong[0] = (wrong[0] as number) ^ 1;
    expect(database.run('UPDATE nodes SET hash = ?1 WHERE hash = ?2', [wrong, hash]).changes).toBe(1);
    database.close();
    const world = await openFolder(folder.path)(known.now, 2);
    const read = () => readContent(world.core, SPACE, node.hash, undefined, CALLER);
    await expect(read()).rejects.toMatchObject({ status: 404 });
    await upload(world, node);
    const look = { rehashPercent: 0, signal: new AbortController().signal, report: () => undefined };
    await checkDeployment(world.core, { ...look, isRepaired: true });
    world.clock.now += DAY_MS;
    await runGc(world.core, SPACE, 1000);
    expect((await read()).contentType).toBe(node.contentType);
    await world.close();
  } finally {
    folder.remove();
  }
});
