/** One history over one process, workers, or two servers on PostgreSQL, with kills, and a recount of the rows at its end. */
import { openEngines, startCluster } from '../../test/support/cluster.ts';
import { recount } from '../../test/support/embedded-recount.ts';
import { APP, SPACE, startFreshServer } from '../../test/support/running-server.ts';
import { recountScaleout } from '../../test/support/scaleout-recount.ts';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import { makeSpaceClient, type SpaceClient } from '../../test/support/space-client.ts';
import { checkHistory } from './check-history.ts';
import { withKeptConnections } from './kept-client.ts';
import { Recorder } from './record-history.ts';

export const PLACES = ['one process', 'workers', 'two servers on PostgreSQL'] as const;
export type Place = (typeof PLACES)[number];

interface Deployment {
  readonly client: SpaceClient;
  /** a process is ended by SIGKILL, and started again */
  kill(random: SeededRandom): Promise<void>;
  recount(): Promise<{
    readonly problems: readonly string[];
    usage(appId: string, spaceId: string, now: number): unknown;
  }>;
  remove(): Promise<void>;
}

interface HistoryWanted {
  readonly place: Place;
  readonly seed: number;
  readonly operations: number;
  readonly kills: number;
  /** for each of the other requests; left out: as few as others */
  readonly commits?: number;
}

/** A line for each thing that is wrong, and how many commits were made. */
export async function runHistory({ place, seed, operations, kills, commits: share = 1 }: HistoryWanted) {
  const random = makeRandom(seed);
  const deployment = place === 'two servers on PostgreSQL' ? await openCluster() : await openOne(place);
  try {
    const recorder = new Recorder(deployment.client, random, share);
    let isOver = false;
    const working = recorder.work(operations).finally(() => {
      isOver = true;
    });
    // Each kill meets another part of the work.
    for (let kill = 1; kill <= kills && !isOver; kill += 1) {
      const due = Math.floor(((operations * kill) / (kills + 1)) * (share / (share + 1)));
      while (!isOver && recorder.commits.length < due) await Bun.sleep(1);
      if (!isOver) await deployment.kill(random);
    }
    await working;
    const { problems, usage } = await deployment.recount();
    const told = JSON.stringify(sorted({ ...(await deployment.client.usage()) }));
    const counted = JSON.stringify(sorted(usage(APP, SPACE, Date.now())));
    const wrong = [...checkHistory(recorder), ...problems];
    if (told !== counted) wrong.push(`the usage is ${told}, and the rows have ${counted}`);
    const commits = recorder.commits.filter(({ revisions }) => revisions.size > 0).length;
    return { wrong: wrong.map((each) => `${place}, seed ${seed}: ${each}`), commits };
  } finally {
    await deployment.remove();
  }
}

const sorted = (record: unknown): unknown[] =>
  Object.entries(record as Record<string, unknown>).sort(([one], [other]) => (one < other ? -1 : 1));

async function openOne(place: Place): Promise<Deployment> {
  const given = place === 'workers' ? ['--workers', '2'] : [];
  const running = await startFreshServer('history', { arguments: given });
  const token = running.issuer.token(SPACE);
  const client = makeSpaceClient(() => running.server.url, APP, SPACE, token, false);
  return {
    client: withKeptConnections(client, token),
    kill: () => running.restart('SIGKILL'),
    recount: async () => recount(running.data),
    remove: () => running.remove(),
  };
}

async function openCluster(): Promise<Deployment> {
  const engines = await openEngines();
  const cluster = await startCluster(engines, { processes: 2 });
  return {
    client: cluster.client(),
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
