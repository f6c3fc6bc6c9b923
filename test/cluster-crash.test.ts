/**
 * The test kills one server of three, PostgreSQL and the object store with kill -9, while uploads, leases, commits, reads and
 * collections go on over the others. After each kill it checks everything that was acknowledged, and recounts the rows. It
 * moves the clock of the database on, so that leases end and collections have work. The clocks of the servers are wrong by up
 * to 30 s, in both directions.
 */
import { expect, test } from 'bun:test';
import { type CephServer, startCeph } from './support/ceph-server.ts';
import { type Cluster, startCluster } from './support/cluster.ts';
import { CrashFacts, checkFacts } from './support/crash-facts.ts';
import { work } from './support/crash-workload.ts';
import { type DatabaseClock, openDatabaseClock } from './support/database-clock.ts';
import { type PostgresServer, startPostgres } from './support/postgres-server.ts';
import { APP, SPACE } from './support/running-server.ts';
import { findBucketLeftovers, proveUsage, recountScaleout } from './support/scaleout-recount.ts';
import { makeRandom } from './support/seeded-random.ts';

type Victim = 'server' | 'postgres' | 'gateway' | 'store';

/** In this order. */
const VICTIMS: readonly Victim[] = [
  ...(['server', 'postgres', 'server', 'gateway', 'server'] as const),
  ...(['postgres', 'server', 'store', 'server', 'postgres'] as const),
];
const CLOCK_OFFSETS_MS = [30_000, -30_000, 0];
const WORK_MS_MAX = 400;
const OUTAGE_MS_MAX = 300;
/** more than the shortest lease, so that what is not renewed can be collected one round later */
const CLOCK_STEP_MS = 45_000;
const ABANDONED_AFTER_MS = 25 * 3_600_000;
/** within this all servers answer again after the engine they lost is back */
const RECOVERY_MS_MAX = 180_000;
const SWEEP_MS_MAX = 180_000;
/** more than the time between the tombstone of an object and its end */
const TOMBSTONE_DAYS = 8;

class ClusterCrashRun {
  readonly facts = new CrashFacts();
  readonly random;
  readonly #closers: (() => Promise<void>)[] = [];
  #number = 0;
  postgres!: PostgresServer;
  ceph!: CephServer;
  cluster!: Cluster;
  clock!: DatabaseClock;

  constructor(seed: number) {
    this.random = makeRandom(seed);
  }

  async open(): Promise<void> {
    this.postgres = await startPostgres();
    this.#closers.push(() => this.postgres.stop());
    this.ceph = await startCeph();
    this.#closers.push(() => this.ceph.close());
    const engines = {
      metadataUrl: await this.postgres.createDatabase(),
      bucket: await this.ceph.createBucket(),
    };
    this.clock = await openDatabaseClock(engines.metadataUrl);
    this.cluster = await startCluster(engines, { clockOffsetsMs: CLOCK_OFFSETS_MS });
    this.#closers.push(() => this.cluster.remove());
  }

  work(isStopped: () => boolean): Promise<void> {
    return work({
      facts: this.facts,
      client: this.cluster.client(),
      random: this.random,
      now: () => this.clock.now(),
      isStopped,
      nextNumber: () => {
        this.#number += 1;
        return this.#number;
      },
      outlivesServers: true,
    });
  }

  /** Kills, lets the others work on, and starts again what was killed. */
  async strike(victim: Victim): Promise<void> {
    const outage = this.random.below(OUTAGE_MS_MAX);
    if (victim === 'server') {
      const server = this.random.pick(this.cluster.servers);
      await server?.kill();
      await Bun.sleep(outage);
      await server?.start();
    } else if (victim === 'postgres') {
      await this.postgres.kill();
      await Bun.sleep(outage);
      await this.postgres.restart();
    } else {
      await (victim === 'gateway' ? this.ceph.killGateway() : this.ceph.kill());
      await Bun.sleep(outage);
      await this.ceph.restart();
    }
  }

  /** Each server reads rows and bytes again. */
  async untilWell(): Promise<void> {
    const deadline = Date.now() + RECOVERY_MS_MAX;
    const [probe] = this.facts.readyFacts();
    for (const { index } of this.cluster.servers) {
      const client = this.cluster.clientOf(index);
      for (;;) {
        const statuses = [
          (await client.request('GET', '/cas/usage')).status,
          probe === undefined ? 200 : (await client.content(probe.node.hash)).status,
        ];
        if (statuses.every((status) => status === 200 || status === 404)) break;
        expect(statuses.filter((status) => ![200, 404, 429, 503].includes(status))).toEqual([]);
        if (Date.now() > deadline) throw new Error(`server ${index} is not well again: ${statuses}`);
        await Bun.sleep(50);
      }
    }
  }

  /** Every fact over HTTP, then the second opinion of the rows themselves. Only while no client is at work. */
  async check(): Promise<void> {
    const client = this.cluster.client();
    await checkFacts(this.facts, client, this.clock.now());
    const counted = await proveUsage(this.cluster.metadataUrl, [APP, SPACE], client, () => this.clock.now());
    expect((await findBucketLeftovers(counted, this.cluster.bucket)).missing).toEqual([]);
    expect(counted.hashes(APP, SPACE, 'rotten')).toEqual([]);
  }

  /**
   * Days later, once servers that just started have swept: no object but those of rows, no claim left. An object without a record
   * has a tombstone for a week before it goes, so a second look comes after that.
   */
  async checkNothingLeftOver(): Promise<void> {
    const tidy = { orphans: [], missing: [], claimed: [], waiting: [], discarded: [] };
    const look = async () => {
      const counted = await recountScaleout(this.cluster.metadataUrl);
      return {
        ...(await findBucketLeftovers(counted, this.cluster.bucket)),
        claimed: counted.hashes(APP, SPACE, 'claimed'),
        waiting: counted.hashes(APP, SPACE, 'waiting'),
        discarded: [...counted.discarded],
      };
    };
    let seen = await look();
    for (const days of [2, TOMBSTONE_DAYS]) {
      for (const server of this.cluster.servers) expect(await server.terminate()).toBe(0);
      for (let day = 0; day < days; day += 1) await this.clock.advance(ABANDONED_AFTER_MS);
      await Promise.all(this.cluster.servers.map((server) => server.start()));
      const deadline = Date.now() + SWEEP_MS_MAX;
      seen = await look();
      while (Date.now() < deadline && !Bun.deepEquals(seen, tidy)) {
        await Bun.sleep(300);
        seen = await look();
      }
    }
    expect(seen).toEqual(tidy);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}

test(
  `${VICTIMS.length} kills of servers, PostgreSQL and the object store lose nothing acknowledged`,
  async () => {
    const seed = Date.now() % 1_000_000;
    const run = new ClusterCrashRun(seed);
    try {
      await run.open();
      for (const [round, victim] of VICTIMS.entries()) {
        let isStopped = false;
        const working = run.work(() => isStopped);
        // Awaited below; if the kill itself fails, that failure is reported.
        working.catch(() => {});
        try {
          await Bun.sleep(run.random.below(WORK_MS_MAX));
          await run.strike(victim);
          await run.untilWell();
        } finally {
          isStopped = true;
        }
        await working;
        await run.check().catch((error) => {
          throw new Error(`after kill ${round} (${victim}): ${error}`, { cause: error });
        });
        await run.clock.advance(CLOCK_STEP_MS);
      }
      await run.checkNothingLeftOver();
      await run.check();
      // A run in which nothing happened proves nothing.
      const { facts } = run;
      expect(facts.revision).toBeGreaterThan(VICTIMS.length);
      expect(facts.deletedReported).toBeGreaterThan(VICTIMS.length);
      expect(facts.readyFacts().length).toBeGreaterThan(VICTIMS.length);
      for (const server of run.cluster.servers) expect(await server.terminate()).toBe(0);
      expect((await recountScaleout(run.cluster.metadataUrl)).problems).toEqual([]);
    } catch (error) {
      console.error(`cluster crash test: seed ${seed}; logs:\n${run.cluster?.logs()}`);
      throw error;
    } finally {
      await run.close();
    }
  },
  18 * 60_000,
);
