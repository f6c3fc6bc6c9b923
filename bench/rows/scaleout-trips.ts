/** The cost of each operation if engines are a network away: round trips to PostgreSQL and requests to S3, counted. */

import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { LeaseResponse } from '@holdfast/protocol';
import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import type { Core } from '../../packages/server/core/core.ts';
import { leaseNode } from '../../packages/server/core/lease/lease-node.ts';
import { PackJudgements } from '../../packages/server/core/packs/judge-pack.ts';
import { NO_QUOTAS } from '../../packages/server/core/quotas.ts';
import type { ContentCaller } from '../../packages/server/core/read/content-caller.ts';
import { getUsage } from '../../packages/server/core/read/get-usage.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { RottenNodes } from '../../packages/server/core/rotten-nodes.ts';
import { createSigner } from '../../packages/server/core/signer.ts';
import { StrayWatch } from '../../packages/server/core/stray-watch.ts';
import { parseS3Url } from '../../packages/server/engine/address.ts';
import { unzstd } from '../../packages/server/engine/packed-object.ts';
import { PostgresMetadataStore } from '../../packages/server/engine/postgres/metadata-store.ts';
import { openPostgres } from '../../packages/server/engine/postgres/open-postgres.ts';
import { SQL } from '../../packages/server/engine/postgres/statements.ts';
import { PostgresConnection } from '../../packages/server/engine/postgres/wire/connection.ts';
import type { PostgresPool } from '../../packages/server/engine/postgres/wire/connection-pool.ts';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';
import { openS3ContentStore } from '../../packages/server/engine/s3/open-s3-content-store.ts';
import { JudgingTurns } from '../../packages/server/shares/fair-queue.ts';
import { formatContentUrl } from '../../test/support/cluster.ts';
import { APP } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import type { Deployment } from '../scaleout.ts';

const SPACE = { appId: APP, spaceId: 'trips' };
const DOMAIN = 'trips';
const LEASE_MS = 60_000;
const UPLOAD_TTL_MS = 300_000;
const DAY_MS = 86_400_000;
/** The first uses of a statement on a connection cost a trip more; the third run is what it goes on costing. */
const RUNS = 3;
const PUBLISHED_AT_ONCE = 16;

/** The nodes here are small. */
const NO_COPIES: ContentCaller = {
  wantsBytes: true,
  copy: () => Promise.reject(new Error('no content here is large enough to be copied')),
};

export interface OperationTrips {
  /** such as `1 to PostgreSQL, 0 to S3` */
  readonly trips: string;
  /** what was sent to PostgreSQL, in order: names of the server's table of statements */
  readonly statements: readonly string[];
}

/** By operation. A commit of all nodes of `held` is among them. */
export async function countTrips(
  deployment: Deployment,
  held: { readonly spaceId: string; readonly hashes: readonly string[] },
): Promise<ReadonlyMap<string, OperationTrips>> {
  const world = await openWorld(deployment);
  const work = new TripWork(world.core);
  const trips = new TripCount(world.pool);
  try {
    const ready = await work.publish();
    const isReady = async (): Promise<string> => ready;
    const { core } = world;
    await trips.count('lease of a ready node', isReady, (hash) => work.lease(hash));
    await trips.count('lease that opens an upload', newHash, (hash) => work.lease(hash));
    await trips.count(
      'lease that validates and publishes 4 KiB',
      () => work.bring(),
      (hash) => work.lease(hash),
    );
    await trips.count('readMetadata', isReady, (hash) => readMetadata(core, SPACE, hash));
    await trips.count('readContent', isReady, (hash) => readContent(core, SPACE, hash, undefined, NO_COPIES));
    await trips.count('getUsage', isReady, () => getUsage(core, SPACE));
    await trips.count('commit of 1', isReady, (hash) => work.commit([hash]));
    await trips.count(
      `commit of ${held.hashes.length}`,
      async () => held.hashes,
      (hashes) => work.commit(hashes, held.spaceId),
    );
    await trips.count('page of root refs', isReady, () => listRootRefs(core, SPACE, DOMAIN, { limit: 50 }));
    await trips.count('GC pass with nothing to do', isReady, () => runGc(core, SPACE, 100));
    await trips.count(
      'GC pass that takes 100 nodes',
      () => work.publishExpired(100, world.pool),
      () => runGc(core, SPACE, 100),
    );
    return trips.found;
  } finally {
    await world.close();
  }
}

/** One connection, so that every statement is known to it after its first use. */
async function openWorld({ metadataUrl, bucket }: Deployment) {
  const pool = await openPostgres({ ...parsePostgresUrl(metadataUrl, {}), connectionsMax: 1 });
  const metadata = await PostgresMetadataStore.open({
    pool,
    onFatal(error) {
      throw error;
    },
  });
  const { accessKeyId, secretAccessKey } = bucket;
  const { content } = await openS3ContentStore({
    // A prefix of its own: the servers' part of the bucket is marked as theirs.
    address: { ...parseS3Url(formatContentUrl(bucket), {}), prefix: 'trips/' },
    uploadTtlMs: UPLOAD_TTL_MS,
    identity: { storeId: randomUUID(), isMarked: false, noteMarked: async () => {} },
    credentials: async () => ({ accessKeyId, secretAccessKey }),
  });
  const core: Core = {
    metadata,
    content,
    random: { bytes: (count) => new Uint8Array(randomBytes(count)) },
    signer: createSigner(randomBytes(32)),
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    quotas: NO_QUOTAS,
    settings: {
      nodeBytesMax: 2 ** 25,
      activeUploadsMax: 1024,
      uploadTtlMs: UPLOAD_TTL_MS,
      abandonedAfterMs: DAY_MS,
      rootRefHistoryMs: DAY_MS,
      keepReplacedMs: DAY_MS,
    },
  };
  return {
    pool,
    core,
    async close() {
      await content.close();
      await metadata.close();
      await pool.close();
    },
  };
}

async function newHash(): Promise<string> {
  return createHash('sha256').update(randomUUID()).digest('hex');
}

/** The input of the operations: nodes on their way in, and commits. */
class TripWork {
  readonly #core: Core;
  readonly #next = createNodeSource(4096, `trips-${randomUUID()}`);
  #commits = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  lease(hash: string): Promise<LeaseResponse> {
    return leaseNode(this.#core, SPACE, hash, LEASE_MS, () => 'http://127.0.0.1');
  }

  /** Uploaded, and not yet judged by a lease. */
  async bring(): Promise<string> {
    const { hash, bytes } = this.#next();
    const body = bytes.slice();
    const answer = await this.lease(hash);
    if (answer.state !== 'awaiting_upload') throw new Error(`A new node answered ${answer.state}.`);
    const put = await fetch(answer.upload.url, { method: 'PUT', headers: answer.upload.headers, body });
    if (!put.ok) throw new Error(`The S3 store answered a PUT with ${put.status}.`);
    return hash;
  }

  async publish(): Promise<string> {
    const hash = await this.bring();
    await this.lease(hash);
    return hash;
  }

  async publishMany(count: number): Promise<string[]> {
    const hashes: string[] = [];
    const drive = async (): Promise<void> => {
      for (let at = hashes.push(''); at <= count; at = hashes.push('')) hashes[at - 1] = await this.publish();
    };
    await Promise.all(Array.from({ length: PUBLISHED_AT_ONCE }, drive));
    return hashes.slice(0, count);
  }

  /** Leases last a minute at least, so their end is written by hand. */
  async publishExpired(count: number, pool: PostgresPool): Promise<void> {
    const hashes = await this.publishMany(count);
    const text =
      'UPDATE nodes SET lease_due_at = 0, lease_expires_at = 1, fixed_sum = NULL, row_sum = NULL WHERE hash = ANY ($1::bytea[])';
    await pool.run('ending leases', text, [hashes.map((hash) => `\\x${hash}`)]);
  }

  commit(hashes: readonly string[], spaceId = SPACE.spaceId): Promise<unknown> {
    this.#commits += 1;
    const changes = [...hashes].sort().map((hash) => ({ hash, delta: 1 }));
    const space = { appId: APP, spaceId };
    return updateRootRefs(this.#core, space, DOMAIN, { requestId: `trip-${this.#commits}`, changes });
  }
}

class TripCount {
  /** of the last run of each */
  readonly found = new Map<string, OperationTrips>();
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async count<T>(name: string, prepare: () => Promise<T>, run: (given: T) => unknown): Promise<void> {
    for (let turn = 1; turn <= RUNS; turn++) {
      const given = await prepare();
      const tripsBefore = this.#pool.counter.roundTrips;
      const statements: string[] = [];
      const requests = await countRequests(() => noteStatements(statements, () => run(given)));
      const trips = this.#pool.counter.roundTrips - tripsBefore;
      this.found.set(name, { trips: `${trips} to PostgreSQL, ${requests} to S3`, statements });
    }
  }
}

const STATEMENT_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(SQL).map(([name, text]) => [text, name]),
);

/** Every statement goes through one method of its connection; nothing else runs meanwhile. */
async function noteStatements(sent: string[], work: () => unknown): Promise<void> {
  const { prototype } = PostgresConnection;
  const { query } = prototype;
  prototype.query = function (text, parameters) {
    sent.push(STATEMENT_NAMES.get(text) ?? text);
    return query.call(this, text, parameters);
  };
  try {
    await work();
  } finally {
    prototype.query = query;
  }
}

/** The engine sends by the global fetch; nothing else runs meanwhile. */
async function countRequests(work: () => unknown): Promise<number> {
  const plain = globalThis.fetch;
  let requests = 0;
  const counting = (...given: Parameters<typeof fetch>): Promise<Response> => {
    requests += 1;
    return plain(...given);
  };
  globalThis.fetch = Object.assign(counting, { preconnect: plain.preconnect });
  try {
    await work();
  } finally {
    globalThis.fetch = plain;
  }
  return requests;
}
