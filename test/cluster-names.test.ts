/** Names over several servers on one PostgreSQL and one bucket. */
import { afterAll } from 'bun:test';
import { createClient } from '../packages/client/index.ts';
import { openEngines, startCluster } from './support/cluster.ts';
import { describeNameRaces } from './support/name-races.ts';
import { APP } from './support/running-server.ts';

const engines = await openEngines();
const cluster = await startCluster(engines, { processes: 2 });
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

let turn = 0;
describeNameRaces((spaceId, fetch) => {
  turn += 1;
  const server = cluster.servers[turn % cluster.servers.length];
  return createClient({
    baseUrl: server?.process.url ?? '',
    appId: APP,
    spaceId,
    token: cluster.issuer.token(spaceId),
    fetch,
  });
});
