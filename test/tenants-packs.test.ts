// test-run: alone
/** One tenant has packs judged that unpack to gigabytes: another tenant, and its packs, are served in time. */
import { afterAll, beforeAll, test } from 'bun:test';
import { zstdCompressSync } from 'node:zlib';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { makeNode } from './support/canonical-node.ts';
import { makePack, type PlantedRecord, plain } from './support/planted-pack.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const BOMBS_AT_ONCE = 24;
/** of 7 MiB each: a judgement takes seconds */
const RECORDS_OF_BOMB = 300;

let tenants: Tenants;
beforeAll(async () => {
  tenants = await startTenants('tenants-packs', { arguments: ['--min-free', '0'] });
}, 300_000);
afterAll(() => tenants.remove());

function bulkOf(appId: typeof GREEDY | typeof HONEST, space = 'space'): BulkClient {
  return makeBulkClient(tenants.server.url, appId, space, tenants.issuers[appId].token(space));
}

function makeBomb(): Buffer {
  const stored = zstdCompressSync(new Uint8Array(7 * MIB));
  const records = Array.from({ length: RECORDS_OF_BOMB }, (_, index): PlantedRecord => {
    return { hash: index.toString(16).padStart(64, '0'), codec: 1, stored, canonicalLength: 7 * MIB };
  });
  return makePack(records);
}

/** Has several bombs judged at once, until it is stopped. */
function attack(): { begun(): number; stop(): Promise<void> } {
  const bomb = makeBomb();
  let isOver = false;
  let begun = 0;
  const spaces = ['a', 'b', 'c', 'd'].map((space) => bulkOf(GREEDY, space));
  const loops = Array.from({ length: BOMBS_AT_ONCE }, async (_, index) => {
    const bulk = spaces[index % spaces.length] as BulkClient;
    for (let count = 0; !isOver; count += 1) {
      const pack = await bulk.open([makeNode(`bomb ${index} ${count}`).hash]);
      await bulk.put(pack, bomb);
      begun += 1;
      // A request that waits too long for its turn is refused.
      await bulk.lease(pack.id);
    }
  });
  // The last requests of all break off with the server.
  const ended = Promise.allSettled(loops);
  return {
    begun: () => begun,
    async stop() {
      isOver = true;
      await tenants.server.end('SIGKILL');
      await ended;
    },
  };
}

test('packs that unpack to gigabytes delay no other tenant', async () => {
  const honest = tenants.client(HONEST);
  const bulk = bulkOf(HONEST);
  const node = makeNode('honest');
  await honest.store(node, HOUR_MS);
  const bombs = attack();
  try {
    await until(() => bombs.begun() >= BOMBS_AT_ONCE);
    const report = await askHonestly(tenants.server, [
      async () => (await honest.lease(node.hash)).status,
      async (turn) => (await honest.commit(`packs-${turn}`, { [node.hash]: 1 })).status,
      async () => (await honest.metadata(node.hash)).status,
      async (turn) => {
        const each = makeNode(`in a pack ${turn}`);
        const { status, json } = await bulk.send([each], [plain(each)]);
        return json.results[0].state === 'ready' ? status : 0;
      },
    ]);
    expectHonest(report);
  } finally {
    await bombs.stop();
  }
}, 600_000);
