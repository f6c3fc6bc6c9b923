/** Usage and quotas believe no counter that contradicts its sum. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import { openPostgres, type TestDatabases } from '../../../../test/support/postgres-server.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import { checkDeployment } from '../../inspect/check-deployment.ts';
import { coreOf, makeContent, openInstance } from './test/postgres-fixture.ts';

const TEST_MS_MAX = 300_000;
const SPACE = { appId: 'app', spaceId: 'space' };

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openPostgres();
}, TEST_MS_MAX);
afterAll(() => databases.close());

test(
  'a wrong counter is refused until it is repaired',
  async () => {
    const url = await databases.createDatabase();
    const instance = await openInstance(url);
    await using sql = new SQL(url, { max: 1 });
    const content = makeContent(Date.now);
    const core = coreOf(instance, content);
    const { hash, bytes } = makeNode('node');
    const lease = () => leaseNode(core, SPACE, hash, 60_000, () => 'http://unused');
    const answer = await lease();
    if (!('upload' in answer)) throw new Error(answer.state);
    content.put(answer.upload.url, bytes);
    await lease();
    const usage = await core.metadata.readCounters(SPACE);
    expect(usage).toMatchObject({ nodeCount: 1, leasedNodeCount: 1 });
    for (const column of ['node_count', 'ready_content_bytes', 'leased_count']) {
      await sql.unsafe(`UPDATE usage_counters SET ${column} = ${column} + 2`);
      const damage = { message: expect.stringContaining('usage_counters contradicts its sum') };
      const read = Promise.resolve(core.metadata.readCounters(SPACE));
      expect(await read.catch((error) => error)).toMatchObject(damage);
      const stored = core.metadata.transact(SPACE, (tx) => tx.lockStored());
      expect(await stored.catch((error) => error)).toMatchObject(damage);
      const spaces = await core.metadata.page('spaces', { after: undefined, limit: 10 });
      expect(spaces).toMatchObject([{ space: SPACE, counters: undefined, damage }]);
      // What other Spaces of the App hold is counted all the same.
      const totals = await core.metadata.readAppTotals('app');
      expect(totals).toMatchObject({ spaces: 1, nodeCount: 0, readyContentBytes: 0 });
      await sql.unsafe('DELETE FROM app_totals');
      await checkDeployment(core, {
        ...{ isRepaired: true, rehashPercent: 0, report: () => undefined },
        signal: new AbortController().signal,
      });
      expect(await core.metadata.readCounters(SPACE)).toEqual(usage);
    }
    await instance.close();
  },
  TEST_MS_MAX,
);
