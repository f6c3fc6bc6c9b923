/** A statement that changes a row names it as it was read: it leaves a row that differs in one of these columns. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { migrate } from './migrations.ts';
import { explainableStatements } from './statements.ts';

const NAMED: Readonly<Record<string, string>> = {
  moveWatermark: 'id lease_watermark',
  updateNodeLease: 'space hash lease_expires_at state',
  updateNodeCounts: 'space hash child_ref_count root_ref_count',
  updateNode: 'space hash state generation lease_expires_at child_ref_count root_ref_count',
  deleteNode: 'space hash state generation lease_expires_at child_ref_count root_ref_count',
  removeNode: 'space hash',
  clearCollectable: 'space hash',
  deleteLooseEdges: 'space hash',
  updateUpload: 'space hash generation verdict',
  touchUpload: 'space hash generation verdict',
  finishUpload: 'space hash generation verdict',
  deleteUpload: 'space hash generation',
  deleteContent: 'generation space',
  deleteDiscard: 'generation space',
  advanceRevision: 'id revision',
  updateBalance: 'domain hash balance from_revision',
  deleteBalance: 'domain hash balance from_revision',
  deleteHistory: 'domain hash from_revision',
  deleteCommit: 'domain request_id revision',
  deleteCommitMarks: 'domain marked_at',
  updatePack: 'generation space id state published_count',
  deletePack: 'generation space live_records',
  moveRecord: 'generation space pack pack_offset',
};

const TARGET = /^(?:UPDATE (\w+) SET (?:(?! WHERE).)+|DELETE FROM (\w+)) WHERE (?:(?!SELECT).)+$/;
/** column, and its parameter or value; the revision before the one that is given */
const CONDITION = /(\w+) (?:=|IS|<=) (?:\+\?(\d+)|(\d+))( - 1)?/g;

type Value = number | string | Uint8Array;

const database = new Database(':memory:');
migrate(database, ':memory:');
database.run('PRAGMA foreign_keys = OFF');
database.run('PRAGMA ignore_check_constraints = ON');
afterAll(() => database.close());

/** Another for each number. */
const makeValue = (type: string | undefined, number: number): Value =>
  type === 'INTEGER' ? number : type === 'TEXT' ? `text ${number}` : new Uint8Array([number]);

function changesOf(sql: string, values: readonly Value[]): number {
  database.query(sql).all(...values);
  return database.query<{ count: number }, []>('SELECT changes() AS count').get()?.count ?? 0;
}

test('each statement that names more than a key is known', () => {
  const changes = explainableStatements().filter(([, sql]) => TARGET.test(sql));
  const guarded = changes.filter(([, sql]) => sql.slice(sql.lastIndexOf('WHERE')).includes(' AND '));
  expect(guarded.map(([name]) => name).filter((name) => !(name in NAMED))).toEqual([]);
});

for (const [name, sql] of explainableStatements().filter(([each]) => each in NAMED)) {
  test(`${name} changes the row that it names, and no other`, () => {
    const [, updated, deleted] = TARGET.exec(sql) as RegExpExecArray;
    const table = (updated ?? deleted) as string;
    const list = 'SELECT name, type FROM pragma_table_info(?1)';
    const columns = database.query<{ name: string; type: string }, [string]>(list).all(table);
    const row = new Map(columns.map((column, index) => [column.name, makeValue(column.type, index + 10)]));
    const count = Math.max(...[...sql.matchAll(/\?(\d+)/g)].map(([, number]) => Number(number)));
    const parameters: Value[] = Array.from({ length: count }, () => 0);
    const where = sql.lastIndexOf('WHERE');
    // A value that is set is the one that was there, unless it is a condition too.
    for (const part of [sql.slice(0, where), sql.slice(where)]) {
      for (const [, column = '', parameter, literal, isNext] of part.matchAll(CONDITION)) {
        if (literal !== undefined) row.set(column, Number(literal));
        const value = row.get(column) ?? 0;
        if (parameter !== undefined)
          parameters[Number(parameter) - 1] = isNext === undefined ? value : Number(value) + 1;
      }
    }
    const insert = `INSERT INTO ${table} (${[...row.keys()]}) VALUES (${[...row].map(() => '?')})`;
    for (const different of [undefined, ...(NAMED[name] as string).split(' ')]) {
      database.run(`DELETE FROM ${table}`);
      const type = columns.find((column) => column.name === different)?.type;
      const values = [...row].map(([column, value]) => (column === different ? makeValue(type, 99) : value));
      database.query(insert).run(...values);
      expect([different, changesOf(sql, parameters)]).toEqual([different, different === undefined ? 1 : 0]);
    }
  });
}
