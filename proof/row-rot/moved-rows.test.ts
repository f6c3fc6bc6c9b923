/** Rows that exchange their values, take the key of another one, or are taken out: a sum covers the key, and other rows tell the rest. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';
import { RenewedCopy } from './renewed-copy.ts';
import { openFolder } from './world.ts';

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
