/** A data folder of the last schema without sums, with a wrong value that others contradict, is opened by this build. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';
import { openFolder } from './world.ts';

const UNSUMMED_SCHEMA = { version: 9, minCompatible: 6 };
const COLUMNS_SINCE = /^(row_sum|name_sum|request_key|balance_count|walked_from|walked_until)$/;
const INLINE = 'generation IN (SELECT generation FROM contents WHERE inline_bytes IS NOT NULL)';
const FIRST_INLINE = `hash = (SELECT min(hash) FROM nodes WHERE ${INLINE} AND length(refs) > 0)`;
const TEST_MS_MAX = 600_000;

const DAMAGES: readonly string[] = [
  'UPDATE nodes SET size = size | 4096',
  'UPDATE nodes SET size = size + 1, canonical_size = canonical_size + 1',
  'UPDATE nodes SET canonical_size = canonical_size - 1',
  `UPDATE nodes SET content_type = 'text/plaim' WHERE ${INLINE}`,
  `UPDATE nodes SET refs = zeroblob(length(refs)) WHERE ${FIRST_INLINE}`,
  'UPDATE spaces SET lease_watermark = 9223372036854775807',
  'UPDATE domains SET space = -id',
  'UPDATE balances SET hash = zeroblob(32) WHERE hash = (SELECT min(hash) FROM balances)',
  'UPDATE packs SET live_records = live_records + 3',
  'UPDATE packs SET live_records = 0',
];

test(
  'what was damaged before rows had sums is not believed, and nothing that can be read is lost',
  async () => {
    const folder = makeTempFolder('row-rot-upgrade', { fast: true });
    try {
      const origin = join(folder.path, 'origin');
      mkdirSync(origin);
      const known = await makeDeployment(openFolder(origin));
      const wrong: Record<string, readonly string[]> = {};
      for (const [index, damage] of DAMAGES.entries()) {
        const copy = join(folder.path, String(index));
        cpSync(origin, copy, { recursive: true });
        spoil(join(copy, 'holdfast.db'), damage);
        const verdict = await judge(
          { open: openFolder(copy), isUnproven: true, remove: async () => undefined },
          known,
        );
        if (verdict.wrong.length > 0) wrong[damage] = verdict.wrong;
      }
      expect(wrong).toEqual({});
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);

function spoil(path: string, damage: string): void {
  using database = new Database(path, { readwrite: true, create: false });
  database.run('PRAGMA ignore_check_constraints = ON');
  database.run('DROP INDEX root_ref_commits_by_key');
  database.run('DROP TABLE commit_marks');
  const columns = database.query<{ table: string; name: string }, []>(
    `SELECT m.name AS "table", c.name AS name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'`,
  );
  for (const { table, name } of columns.all())
    if (COLUMNS_SINCE.test(name)) database.run(`ALTER TABLE ${table} DROP COLUMN ${name}`);
  database.run(`PRAGMA user_version = ${UNSUMMED_SCHEMA.version}`);
  database.run('PRAGMA application_id = 0');
  database.run('UPDATE holdfast_schema SET min_compatible_version = ?1', [UNSUMMED_SCHEMA.minCompatible]);
  if (database.run(damage).changes === 0) throw new Error(`nothing was changed by: ${damage}`);
}
