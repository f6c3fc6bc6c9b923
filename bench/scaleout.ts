/** PostgreSQL and an S3 store for the rows of the scale-out engine, as durable as they come, and our servers over them. */

import { openPostgres } from '../packages/server/engine/postgres/open-postgres.ts';
import { parsePostgresUrl } from '../packages/server/engine/postgres-url.ts';
import { type CephServer, startCeph } from '../test/support/ceph-server.ts';
import { formatContentUrl, makeS3Environment } from '../test/support/cluster.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres-server.ts';
import type { TestBucket } from '../test/support/s3-request.ts';
import type { Bench } from './bench.ts';
import { cpuMsOf, listProcesses } from './child-process.ts';
import { type Holdfast, startHoldfast } from './holdfast.ts';

export interface Engines {
  readonly postgres: PostgresServer;
  readonly ceph: CephServer;
  /** the S3 store as a load meets it: the time it uses counts over all its daemons */
  readonly gateway: { readonly port: number; readonly process: { cpuMs(): number } };
  close(): Promise<void>;
}

/** Servers of one deployment: a database and a bucket of their own. */
export interface Deployment {
  readonly metadataUrl: string;
  readonly bucket: TestBucket;
}

/** How many server processes share the port, one after the other. */
export const PROCESS_COUNTS = [1, 2, 4] as const;

/** fsync is on: what an engine acknowledges while it is measured is on the disk, for the peer as for us. */
export async function startEngines(bench: Bench): Promise<Engines> {
  bench.progress('starting PostgreSQL and Ceph …');
  const postgres = await startPostgres({ durable: true, settings: { shared_buffers: '512MB' } });
  try {
    const before = new Set(listProcesses(process.pid));
    const ceph = await startCeph();
    const daemons = listProcesses(process.pid).filter((pid) => !before.has(pid));
    return {
      postgres,
      ceph,
      gateway: {
        port: Number(new URL(ceph.endpoint).port),
        process: { cpuMs: () => daemons.reduce((sum, pid) => sum + cpuMsOf(pid), 0) },
      },
      async close() {
        await ceph.close();
        await postgres.stop();
      },
    };
  } catch (error) {
    await postgres.stop();
    throw error;
  }
}

export async function makeDeployment({ postgres, ceph }: Engines): Promise<Deployment> {
  return { metadataUrl: await postgres.createDatabase(), bucket: await ceph.createBucket() };
}

/**
 * Gives an empty database the server's own schema. Returns what a connection of the server sets for its session, but for the
 * time limits: how statements are planned, and what a commit waits for.
 */
export async function migrateDatabase(url: string): Promise<Record<string, string>> {
  const pool = await openPostgres(parsePostgresUrl(url, {}));
  try {
    const text = `SELECT name, setting FROM pg_settings WHERE source = 'session' AND name NOT LIKE '%\\_timeout' ORDER BY name`;
    const { rows } = await pool.read('reading the settings of a session', text, []);
    return Object.fromEntries(rows.map(({ name, setting }) => [name as string, setting as string]));
  } finally {
    await pool.close();
  }
}

export function startScaleoutHoldfast(
  bench: Bench,
  { metadataUrl, bucket }: Deployment,
  options: { readonly name: string; readonly processes: number; readonly spaces: readonly string[] },
): Promise<Holdfast> {
  return startHoldfast(bench, {
    name: `${options.name}-${options.processes}`,
    spaces: options.spaces,
    processes: options.processes,
    engines: {
      ...makeS3Environment(bucket),
      HOLDFAST_METADATA: metadataUrl,
      HOLDFAST_CONTENT: formatContentUrl(bucket),
    },
  });
}
