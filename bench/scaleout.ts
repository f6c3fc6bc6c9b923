/** PostgreSQL and an S3 store for the rows of the scale-out engine, as durable as they come, and our servers over them. */
import { openPostgres } from '../packages/server/engine/scaleout/postgres/open-postgres.ts';
import { parsePostgresUrl } from '../packages/server/engine-urls.ts';
import { type CephServer, startCeph } from '../test/support/ceph-server.ts';
import { formatContentUrl, makeS3Environment } from '../test/support/cluster.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres-server.ts';
import type { TestBucket } from '../test/support/s3-request.ts';
import type { Bench } from './bench.ts';
import { type Holdfast, startHoldfast } from './holdfast.ts';

export interface Engines {
  readonly postgres: PostgresServer;
  readonly ceph: CephServer;
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
    const ceph = await startCeph();
    return {
      postgres,
      ceph,
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

/** Gives an empty database the server's own schema. */
export async function migrateDatabase(url: string): Promise<void> {
  const pool = await openPostgres(parsePostgresUrl(url, {}));
  await pool.close();
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
