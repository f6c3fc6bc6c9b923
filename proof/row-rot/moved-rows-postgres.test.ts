/** As the last test of moved-rows.test.ts, with rows in PostgreSQL. */
import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { type KnownNode, makeDeployment } from './deployment.ts';
import { postgresSubject } from './postgres.ts';
import { CALLER, DAY_MS, SPACE, upload } from './world.ts';

const TEST_MS_MAX = 600_000;
const UNNAMED =
  'SELECT count(*)::int AS count FROM contents WHERE generation NOT IN (SELECT generation FROM nodes)';
const WRONG_PACKS = `SELECT count(*)::int AS count FROM packs
  WHERE live_records <> (SELECT count(*) FROM contents WHERE contents.space = packs.space AND contents.pack = packs.generation)`;
const LOSE_HASH = 'UPDATE nodes SET hash = set_byte(hash, 0, get_byte(hash, 0) # 1) WHERE hash = $1';

test(
  'rows with a wrong key go with their records once the new rows of their nodes hold as much, in no pack and in one',
  async () => {
    const databases = await openPostgres();
    try {
      const url = await databases.createDatabase();
      const { open } = postgresSubject(url);
      const known = await makeDeployment(open);
      const wanted = ['free', 'packed leased'].map(
        (name) =>
          known.nodes.find(({ content }) =>
            Buffer.from(content).toString().startsWith(`node ${name} `),
          ) as KnownNode,
      );
      await using sql = new SQL(url, { max: 1 });
      const count = async (query: string): Promise<number> => (await sql.unsafe(query))[0].count;
      const unnamed = await count(UNNAMED);
      for (const { hash } of wanted) await sql.unsafe(LOSE_HASH, [Buffer.from(hash, 'hex')]);
      const world = await open(known.now, 2);
      for (const node of wanted) await upload(world, node, DAY_MS);
      const look = { rehashPercent: 0, signal: new AbortController().signal, report: () => undefined };
      const check = (isRepaired: boolean) => checkDeployment(world.core, { ...look, isRepaired });
      const named = (await check(false)).findings.filter(({ message }) =>
        message.includes('one wrong bit in hash'),
      );
      expect(named).toHaveLength(wanted.length);
      await check(true);
      expect((await check(true)).findings).toEqual([]);
      expect(await count(UNNAMED)).toBe(unnamed);
      expect(await count(WRONG_PACKS)).toBe(0);
      world.clock.now += DAY_MS;
      await runGc(world.core, SPACE, 1000);
      for (const { hash } of wanted) {
        const read = async () => readContent(world.core, SPACE, hash, undefined, CALLER);
        await expect(read()).rejects.toMatchObject({ status: 404 });
      }
      await world.close();
    } finally {
      await databases.close();
    }
  },
  TEST_MS_MAX,
);
