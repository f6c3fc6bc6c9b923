/** Histories over one process, workers, or two servers on PostgreSQL, with kills, and a recount of the rows at their end. */
import { openEngines, startCluster } from '../../test/support/cluster.ts';
import { recount } from '../../test/support/embedded-recount.ts';
import { APP, startFreshServer } from '../../test/support/running-server.ts';
import { recountScaleout } from '../../test/support/scaleout-recount.ts';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import { makeSpaceClient, type SpaceClient } from '../../test/support/space-client.ts';
import { checkHistory } from './check-history.ts';
import { withKeptConnections } from './kept-client.ts';
import { Recorder } from './record-history.ts';

export const PLACES = ['one process', 'workers', 'two servers on PostgreSQL'] as const;
export type Place = (typeof PLACES)[number];

interface Deployment {
  client(spaceId: string): SpaceClient;
  /** a process is ended by SIGKILL, and started again */
  kill(random: SeededRandom): Promise<void>;
  recount(): Promise<{
    readonly problems: readonly string[];
    usage(appId: string, spaceId: string, now: number): unknown;
  }>;
  remove(): Promise<void>;
}

interface HistoriesWanted {
  readonly place: Place;
  /** of the first: each has the next */
  readonly seed: number;
  /** Each history is of one Space. They run side by side: commits of all share fsyncs, and kills meet all. */
  readonly spaces: number;
  /** of each history */
  readonly operations: number;
  readonly kills: number;
  /** for each of the other requests; left out: as few as others */
  readonly commits?: number;
}

/** A line for each thing that is wrong, and how many commits were made. */
export async function runHistories(wanted: HistoriesWanted) {
  const { place, seed, spaces, commits: share = 1 } = wanted;
  const deployment = place === 'two servers on PostgreSQL' ? await openCluster() : await openOne(place);
  try {
    const histories = Array.from({ length: spaces }, (_, index) => {
      const [spaceId, own] = [`space ${index}`, seed + index];
      const client = deployment.client(spaceId);
      const recorder = new Recorder(client, makeRandom(own), share);
      return { spaceId, client, recorder, name: `${place}, seed ${own}` };
    });
    const recorders = histories.map(({ recorder }) => recorder);
    for (const recorder of recorders) await recorder.store();
    await workUnderKills(deployment, recorders, { ...wanted, commits: share });
    const { problems, usage } = await deployment.recount();
    const wrong = problems.map((problem) => `${place}, seed ${seed}: ${problem}`);
    for (const { spaceId, client, recorder, name } of histories) {
      const told = JSON.stringify(sorted({ ...(await client.usage()) }));
      const counted = JSON.stringify(sorted(usage(APP, spaceId, Date.now())));
      if (told !== counted) wrong.push(`${name}: the usage is ${told}, and the rows have ${counted}`);
      wrong.push(...checkHistory(recorder).map((each) => `${name}: ${each}`));
    }
    const made = recorders.flatMap(({ commits }) => commits.filter(({ revisions }) => revisions.size > 0));
    return { wrong, commits: made.length };
  } finally {
    await deployment.remove();
  }
}

/** Each kill meets another part of the work. */
async function workUnderKills(
  deployment: Deployment,
  recorders: readonly Recorder[],
  { seed, operations, kills, commits: share }: Required<HistoriesWanted>,
): Promise<void> {
  const random = makeRandom(seed);
  let isOver = false;
  const working = Promise.all(recorders.map((recorder) => recorder.work(operations))).finally(() => {
    isOver = true;
  });
  const begun = (): number => recorders.reduce((sum, { commits }) => sum + commits.length, 0);
  const all = operations * recorders.length * (share / (share + 1));
  for (let kill = 1; kill <= kills && !isOver; kill += 1) {
    const due = Math.floor((all * kill) / (kills + 1));
    while (!isOver && begun() < due) await Bun.sleep(1);
    if (!isOver) await deployment.kill(random);
  }
  await working;
}

const sorted = (record: unknown): unknown[] =>
  Object.entries(record as Record<string, unknown>).sort(([one], [other]) => (one < other ? -1 : 1));

async function openOne(place: Place): Promise<Deployment> {
  const given = place === 'workers' ? ['--workers', '2'] : [];
  const running = await startFreshServer('history', { arguments: given });
  return {
    client(spaceId) {
      const token = running.issuer.token(spaceId);
      const client = makeSpaceClient(() => running.server.url, APP, spaceId, token, false);
      return withKeptConnections(client, token);
    },
    kill: () => running.restart('SIGKILL'),
    recount: async () => recount(running.data),
    remove: () => running.remove(),
  };
}

async function openCluster(): Promise<Deployment> {
  const engines = await openEngines();
  const cluster = await startCluster(engines, { processes: 2 });
  return {
    client: (spaceId) => cluster.client(spaceId),
    async kill(random) {
      const server = random.pick(cluster.servers);
      await server?.kill();
      await server?.start();
    },
    recount: () => recountScaleout(engines.metadataUrl),
    async remove() {
      await cluster.remove();
      await engines.close();
    },
  };
}
