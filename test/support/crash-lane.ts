/** A data folder and the real server on it, which kills itself at an exact instant: for tests that kill compaction. */
import { Database } from 'bun:sqlite';
import { expect } from 'bun:test';
import { join } from 'node:path';
import { type BulkClient, makeBulkClient } from './bulk-client.ts';
import type { CanonicalNode } from './canonical-node.ts';
import { databasePath } from './embedded-files.ts';
import { findLeftovers, recount } from './embedded-recount.ts';
import type { Issuer } from './issuer.ts';
import { runHoldfast, type ServerProcess, startServer } from './server-process.ts';
import { makeSpaceClient, type SpaceClient } from './space-client.ts';

export const CRASH_APP = 'app';
export const CRASH_SPACE = 'space';
const WAIT_MS_MAX = 300_000;
/** A look reads the rows and lists all files, and several servers are looked at together. */
const LOOK_MS = 250;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** what no row names is noted from a day on, and goes a week later */
const STRAY_NOTED_AFTER_MS = DAY_MS + HOUR_MS;
const STRAY_GONE_AFTER_MS = 8 * DAY_MS;
const KILL_POINT = join(import.meta.dir, 'kill-point.ts');
const SHIFTED_CLOCK = join(import.meta.dir, 'shifted-clock.ts');

export class CrashLane {
  readonly data: string;
  readonly #issuer: Issuer;
  #offsetMs: number;
  #server: ServerProcess | undefined;

  constructor(data: string, issuer: Issuer, offsetMs: number) {
    this.data = data;
    this.#issuer = issuer;
    this.#offsetMs = offsetMs;
  }

  async start(killAt = '', laterMs = 0): Promise<ServerProcess> {
    this.#offsetMs += laterMs;
    this.#server = await startServer({
      data: this.data,
      environment: {
        BUN_OPTIONS: `--preload=${KILL_POINT} --preload=${SHIFTED_CLOCK}`,
        HOLDFAST_TEST_KILL_AT: killAt,
        HOLDFAST_TEST_CLOCK_OFFSET_MS: String(this.#offsetMs),
      },
    });
    return this.#server;
  }

  async stop(): Promise<void> {
    expect(await this.#server?.end('SIGTERM')).toBe(0);
  }

  async remove(): Promise<void> {
    if (this.#server?.isRunning() === true) await this.#server.end('SIGKILL');
  }

  get bulk(): BulkClient {
    return makeBulkClient(this.#url, CRASH_APP, CRASH_SPACE, this.#token());
  }

  get client(): SpaceClient {
    return makeSpaceClient(this.#url, CRASH_APP, CRASH_SPACE, this.#token(), false);
  }

  get #url(): string {
    return this.#server?.url ?? '';
  }

  #token(): string {
    const iat = Math.floor((Date.now() + this.#offsetMs) / 1000);
    return this.#issuer.token(CRASH_SPACE, { iat, exp: iat + 3600 });
  }

  /** Asks the rows of the data folder, past the server. */
  ask<T>(question: (database: Database) => T): T {
    const database = new Database(databasePath(this.data), { readonly: true });
    try {
      return question(database);
    } finally {
      database.close();
    }
  }

  expectSound(): void {
    expect(recount(this.data).problems).toEqual([]);
    expect(findLeftovers(this.data).missing).toEqual([]);
  }

  /** Both ways of reading answer all of them, byte for byte. */
  async expectReadable(nodes: readonly CanonicalNode[]): Promise<void> {
    const records = await this.bulk.read(nodes.map(({ hash }) => hash));
    expect(records.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
    const wrong = nodes.filter(({ bytes }, index) => Buffer.compare(bytes, records[index]?.stored ?? bytes));
    expect(wrong).toEqual([]);
    const { hash, content } = nodes.at(-1) as CanonicalNode;
    expect(Buffer.compare(await (await this.client.content(hash)).bytes(), content)).toBe(0);
  }

  async expectChecked(name: string): Promise<void> {
    const { data } = this;
    const checked = await runHoldfast(['check', '--data', data, '--rehash', 'all', '--json']);
    const { exitCode, stdout } = checked;
    expect([name, exitCode, JSON.parse(stdout)]).toMatchObject([name, 0, { ok: true, findings: [] }]);
  }

  /** Until an object that no row ever named is gone. */
  async outliveStrays(): Promise<void> {
    await this.stop();
    await this.start('', STRAY_NOTED_AFTER_MS);
    await until(() => findLeftovers(this.data).unburied.length === 0, 'the stray is noted');
    await this.stop();
    await this.start('', STRAY_GONE_AFTER_MS);
    await until(() => findLeftovers(this.data).orphans.length === 0, 'the stray is gone');
  }
}

export async function until(holds: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`after ${WAIT_MS_MAX} ms ${what} is not so`);
    await Bun.sleep(LOOK_MS);
  }
}

/** Packs whose object is there because their row says so. */
export function countPacks(database: Database): number {
  const sql = 'SELECT count(*) AS count FROM packs WHERE is_discarded = 0';
  return database.query<{ count: number }, []>(sql).get()?.count ?? 0;
}
