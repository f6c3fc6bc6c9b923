/** A data folder, the real server on it, clients at work, and a kill at a random moment of their work. */
import { expect } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type BulkClient, makeBulkClient } from './bulk-client.ts';
import { CrashFacts, checkFacts } from './crash-facts.ts';
import { work } from './crash-workload.ts';
import { findLeftovers, type Leftovers, plantStray, recount } from './embedded-recount.ts';
import { makeIssuer } from './issuer.ts';
import { makeRandom } from './seeded-random.ts';
import { addApp, type ServerProcess, startServer } from './server-process.ts';
import { makeSpaceClient, type SpaceClient } from './space-client.ts';
import { makeTempFolder } from './temp-folder.ts';

const APP = 'app';
const SPACE = 'space';
export const WORK_MS_MAX = 600;
const SPREAD_MS = 8;
/** more than the shortest lease, so that what is not renewed can be collected one restart later */
const CLOCK_STEP_MS = 45_000;
/** more than 24 h after the end of any upload URL */
const ABANDONED_AFTER_MS = 25 * 3_600_000;
const SHIFTED_CLOCK = join(import.meta.dir, 'shifted-clock.ts');
/** more than from the tombstone of a stray to its end */
const STRAYS_GONE_AFTER_MS = 8 * 24 * 3_600_000;
/** A walk over the objects takes 16 sweeps, 3 s apart, and one that was begun before the stray was planted is finished first. */
const SWEEP_MS_MAX = 240_000;

export class CrashRun {
  readonly facts = new CrashFacts();
  readonly random;
  readonly #folder = makeTempFolder('crash');
  readonly data = join(this.#folder.path, 'data');
  readonly #issuer = makeIssuer();
  readonly #arguments: readonly string[];
  offsetMs = 0;
  #number = 0;
  server: ServerProcess | undefined;

  constructor(seed: number, serveArguments: readonly string[] = []) {
    this.random = makeRandom(seed);
    this.#arguments = serveArguments;
    mkdirSync(this.data);
  }

  async prepare(): Promise<void> {
    await addApp(this.data, APP, this.#issuer);
  }

  /** `wrapper`: a command that runs the server */
  async start(wrapper: readonly string[] = []): Promise<ServerProcess> {
    this.server = await startServer({
      ...{ data: this.data, wrapper },
      arguments: this.#arguments,
      environment: {
        BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
        HOLDFAST_TEST_CLOCK_OFFSET_MS: String(this.offsetMs),
      },
    });
    return this.server;
  }

  now(): number {
    return Date.now() + this.offsetMs;
  }

  /** `keepalive`: only while no server is killed, because fetch repeats a request whose connection breaks. */
  client(keepalive = false): SpaceClient {
    return makeSpaceClient(this.#url(), APP, SPACE, this.#token(), keepalive);
  }

  bulk(): BulkClient {
    return makeBulkClient(this.#url(), APP, SPACE, this.#token());
  }

  #url(): string {
    if (this.server === undefined) throw new Error('no server runs');
    return this.server.url;
  }

  #token(): string {
    const iat = Math.floor(this.now() / 1000);
    return this.#issuer.token(SPACE, { iat, exp: iat + 3600 });
  }

  /** `outlivesServers`: what says that a client is to come again is no fault */
  work(isStopped: () => boolean, outlivesServers = false): Promise<void> {
    return work({
      outlivesServers,
      facts: this.facts,
      client: this.client(),
      bulk: this.bulk(),
      random: this.random,
      now: () => this.now(),
      isStopped,
      nextNumber: () => {
        this.#number += 1;
        return this.#number;
      },
    });
  }

  /**
   * Starts, checks every fact, works until a random moment, and is killed there. `stepsMax`: the moment is counted in steps of the
   * clients, which need not be many for what they do to differ.
   */
  async workUntilKilled(stepsMax?: number): Promise<void> {
    const server = await this.start();
    await this.check();
    let isKilled = false;
    let steps = 0;
    const working = this.work(() => {
      steps += 1;
      return isKilled;
    });
    if (stepsMax === undefined) await Bun.sleep(this.random.below(WORK_MS_MAX));
    else {
      const last = this.random.below(stepsMax);
      while (steps < last && server.isRunning()) await Bun.sleep(1);
      // Not always right behind an answer.
      await Bun.sleep(this.random.below(SPREAD_MS));
    }
    await server.end('SIGKILL');
    isKilled = true;
    await working;
    this.offsetMs += CLOCK_STEP_MS;
  }

  /** Every fact over HTTP, then the second opinion of the rows themselves. */
  async check(): Promise<void> {
    const client = this.client(true);
    await checkFacts(this.facts, client, this.now(), this.bulk());
    await this.checkRows(client);
  }

  /** Only while nothing is being received. Nothing but time may lie between the answer and the rows. */
  async checkRows(client: SpaceClient): Promise<void> {
    const counted = recount(this.data);
    expect(counted.problems).toEqual([]);
    const before = counted.usage(APP, SPACE, this.now());
    const usage = { ...(await client.usage()) };
    const after = counted.usage(APP, SPACE, this.now());
    expect({ ...before, leasedNodeCount: usage.leasedNodeCount }).toEqual(usage);
    // Leases end between the two looks, which may be far apart.
    expect(usage.leasedNodeCount).toBeGreaterThanOrEqual(after.leasedNodeCount as number);
    expect(usage.leasedNodeCount).toBeLessThanOrEqual(before.leasedNodeCount as number);
  }

  /** An object as a kill during compaction leaves it: sealed, and no row names it. */
  plantStray(): void {
    plantStray(this.data, this.now());
  }

  /** A generation that is still open may have an object to be found by its next lease; a day later none is open. */
  async outliveUploads(): Promise<void> {
    await this.#restartLater(ABANDONED_AFTER_MS);
    // An object that no row names has a tombstone now, and goes a week later.
    await this.#waitUntilTidy((seen) => ({ ...seen, orphans: seen.unburied }));
  }

  /** After a sweep: no claim is left, every file has its record, and every record its file. */
  async checkNothingLeftOver(): Promise<void> {
    await this.#restartLater(STRAYS_GONE_AFTER_MS);
    await this.#waitUntilTidy((seen) => seen);
  }

  async #restartLater(ms: number): Promise<void> {
    expect(await this.server?.end('SIGTERM')).toBe(0);
    this.offsetMs += ms;
    await this.start();
  }

  async #waitUntilTidy(pick: (seen: Leftovers) => Leftovers): Promise<void> {
    const tidy = { orphans: [], unburied: [], missing: [], incoming: [], claimed: [] };
    // The recount reads every row, so it waits until the files are tidy.
    const look = () => {
      const left = pick(findLeftovers(this.data));
      const isTidy = Object.values(left).every((names) => names.length === 0);
      return { ...left, claimed: isTidy ? recount(this.data).hashes(APP, SPACE, 3) : undefined };
    };
    const deadline = Date.now() + SWEEP_MS_MAX;
    let seen = look();
    while (Date.now() < deadline && !Bun.deepEquals(seen, tidy)) {
      await Bun.sleep(500);
      seen = look();
    }
    expect(seen).toEqual(tidy);
  }

  async end(): Promise<void> {
    if (this.server?.isRunning()) await this.server.end('SIGKILL');
    this.#folder.remove();
  }
}
