/** A damaged row of another tenant, in a Space whose number differs in one bit, must not hold up a collection for ever. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import { hashAt, insertNodes, ManualClock, readyNode } from '../test/samples.ts';
import { SqliteMetadataStore } from './metadata-store.ts';

test('only a row that has the sum of one of this Space is doubted in a near Space', async () => {
  const folder = makeTempFolder('near-spaces', { fast: true });
  const path = join(folder.path, 'holdfast.db');
  const onFatal = (error: Error) => {
    throw error;
  };
  const store = new SqliteMetadataStore({ path, clock: new ManualClock(), onFatal, isShared: false });
  try {
    const spaces = [1, 2, 3].map((id) => ({ appId: 'app', spaceId: `${id}` }));
    const [one] = spaces as [(typeof spaces)[number]];
    for (const space of spaces) await insertNodes(store, space, [readyNode(hashAt(1))]);
    const findDoubted = () => store.transact(one, async (tx) => tx.mending.findDoubted([hashAt(1)]));
    using database = new Database(path, { readwrite: true, create: false });
    const change = (sql: string): void => expect(database.run(sql).changes).toBe(1);
    expect(await findDoubted()).toEqual([]);
    change('UPDATE nodes SET size = size + 1 WHERE space = 3');
    expect(await findDoubted()).toEqual([]);
    change('DELETE FROM nodes WHERE space = 3');
    // As if a bit of a row of Space 1 had turned, and its node were there anew.
    const columns = database.query<{ name: string }, []>("SELECT name FROM pragma_table_info('nodes')").all();
    const values = columns.map(({ name }) => (name === 'space' ? '3' : name)).join(', ');
    change(`INSERT INTO nodes SELECT ${values} FROM nodes WHERE space = 1`);
    expect(await findDoubted()).toEqual([hashAt(1)]);
  } finally {
    await store.close();
    folder.remove();
  }
});
