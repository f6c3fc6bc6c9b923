/** Two Apps on one real server: a greedy one, which attacks, and an honest one, whose every request must succeed in time. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { watchForeignLoad } from './foreign-load.ts';
import { type Issuer, makeIssuer } from './issuer.ts';
import {
  addApp,
  readResidentBytes,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './server-process.ts';
import { makeSpaceClient, type SpaceClient } from './space-client.ts';
import { makeTempFolder } from './temp-folder.ts';

export const GREEDY = 'greedy';
export const HONEST = 'honest';

/** shares/README.md; of a machine that does nothing else */
const HONEST_P99_MS_MAX = 500;
const SERVER_BYTES_MAX = 512 * 1024 * 1024;
/** Measurements on a machine that others use too: the best of these rounds counts. */
const ROUNDS_MAX = 4;
const REQUESTS_PER_ROUND = 120;

export interface Tenants {
  readonly server: ServerProcess;
  readonly data: string;
  readonly issuers: Readonly<Record<typeof GREEDY | typeof HONEST, Issuer>>;
  client(appId: typeof GREEDY | typeof HONEST, spaceId?: string): SpaceClient;
  remove(): Promise<void>;
}

interface TenantsOptions extends Omit<ServerOptions, 'data'> {
  /** where rows are, if not in the data folder */
  readonly metadataUrl?: string;
  /** where the data folder is made; by default a temporary folder */
  readonly folder?: string;
  /** registers the greedy App in another way; resolves when that is done */
  readonly addGreedy?: (data: string, issuer: Issuer) => Promise<void>;
}

export async function startTenants(purpose: string, options: TenantsOptions = {}): Promise<Tenants> {
  const { metadataUrl, addGreedy, folder: given, ...serving } = options;
  const folder = makeTempFolder(purpose);
  const data = join(given ?? folder.path, 'data');
  mkdirSync(data);
  const issuers = {
    [GREEDY]: makeIssuer('https://greedy.test'),
    [HONEST]: makeIssuer('https://honest.test'),
  } as const;
  if (addGreedy === undefined) await addApp(data, GREEDY, issuers[GREEDY], metadataUrl);
  else await addGreedy(data, issuers[GREEDY]);
  await addApp(data, HONEST, issuers[HONEST], metadataUrl);
  const server = await startServer({ data, ...serving });
  return {
    server,
    data,
    issuers,
    client: (appId, spaceId = 'space') =>
      makeSpaceClient(server.url, appId, spaceId, issuers[appId].token(spaceId)),
    async remove() {
      if (server.isRunning()) await server.end('SIGKILL');
      folder.remove();
    },
  };
}

interface HonestRound {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** what other programs took of the machine meanwhile */
  readonly foreignShare: number;
}

/** The round that went best. */
interface HonestReport extends HonestRound {
  /** statuses that no honest request should see, of all rounds */
  readonly refused: readonly number[];
  /** the most that the server held while it was looked at */
  readonly serverBytes: number;
}

/**
 * Makes the honest tenant's requests one after another, in rounds, until a round is as fast as was promised. Call it while the
 * attack goes on; `works` are taken in turns and resolve with a status.
 */
export async function askHonestly(
  server: ServerProcess,
  works: readonly ((turn: number) => Promise<number>)[],
): Promise<HonestReport> {
  const refused: number[] = [];
  let best: HonestRound = {
    p50Ms: Number.POSITIVE_INFINITY,
    p99Ms: Number.POSITIVE_INFINITY,
    foreignShare: 0,
  };
  let serverBytes = 0;
  let turn = 0;
  for (let round = 0; round < ROUNDS_MAX && ownP99Ms(best) > HONEST_P99_MS_MAX; round += 1) {
    const readForeignShare = watchForeignLoad();
    const times: number[] = [];
    for (let count = 0; count < REQUESTS_PER_ROUND; count += 1) {
      const work = works[turn % works.length] as (typeof works)[number];
      const startedAt = performance.now();
      const status = await work(turn);
      times.push(performance.now() - startedAt);
      if (status !== 200) refused.push(status);
      serverBytes = Math.max(serverBytes, readResidentBytes(server.pid));
      turn += 1;
    }
    times.sort((a, b) => a - b);
    const at = (share: number): number => times[Math.ceil(times.length * share) - 1] as number;
    const made = { p50Ms: at(0.5), p99Ms: at(0.99), foreignShare: readForeignShare() };
    if (ownP99Ms(made) < ownP99Ms(best)) best = made;
  }
  return { ...best, refused, serverBytes };
}

/** The time the requests would have taken on a machine of their own. */
function ownP99Ms({ p99Ms, foreignShare }: HonestRound): number {
  return p99Ms * (1 - foreignShare);
}

/** Requests of the honest tenant while the server is attacked. */
export function expectHonest(report: HonestReport): void {
  const { refused, serverBytes } = report;
  const isFast = ownP99Ms(report) <= HONEST_P99_MS_MAX;
  if (refused.length === 0 && isFast && serverBytes <= SERVER_BYTES_MAX) return;
  throw new Error(`the honest tenant was not served fairly: ${JSON.stringify(report)}`);
}
