/** The scale-out engine in this process: rows in a real PostgreSQL that has the model's clock, bytes in a real S3. */
import { SQL } from 'bun';
import type { NodeRow } from '../../packages/server/core/model.ts';
import type { ContentStore, MetadataStore } from '../../packages/server/core/ports.ts';
import { parseS3Url } from '../../packages/server/engine/address.ts';
import { PostgresMetadataStore } from '../../packages/server/engine/postgres/metadata-store.ts';
import { openPostgres } from '../../packages/server/engine/postgres/open-postgres.ts';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';
import { openS3ContentStore } from '../../packages/server/engine/s3/open-s3-content-store.ts';
import { type ClusterEngines, formatContentUrl } from '../support/cluster.ts';
import { listKeys, sendToBucket, type TestBucket } from '../support/s3-request.ts';
import type { EngineUnderTest } from './engine-under-test.ts';
import { MODEL_SETTINGS } from './reference-rules.ts';

/** The store of bytes, for all runs: what it proves of the bucket when it opens takes longer than many a run. */
export async function openContentUnderTest({ bucket }: ClusterEngines): Promise<ContentStore> {
  const { accessKeyId, secretAccessKey } = bucket;
  const opened = await openS3ContentStore({
    address: parseS3Url(formatContentUrl(bucket), {}),
    uploadTtlMs: MODEL_SETTINGS.uploadTtlMs,
    identity: { storeId: 'model', isMarked: false, noteMarked: async () => {} },
    credentials: async () => ({ accessKeyId, secretAccessKey }),
    limits: { listIntervalMs: 0, walkIntervalMs: 0, healthMs: 0 },
  });
  return opened.content;
}

/** One database and one bucket for all runs, emptied after each. */
export function makeScaleoutUnderTest(
  { metadataUrl, bucket }: ClusterEngines,
  content: ContentStore,
  servers = 1,
): EngineUnderTest {
  const spoiler = new ObjectSpoiler(bucket);
  const failures: Error[] = [];
  let opened: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const each of opened.splice(0).reverse()) await each();
  };
  return {
    direct: {
      startsAt: () => Date.now(),
      async findOrphans(generations) {
        const keys = await listKeys(bucket, 'nodes/');
        return keys.filter((key) => !generations.has(key.slice(key.lastIndexOf('/') + 1)));
      },
    },
    async open({ clock }) {
      const openStore = async (): Promise<MetadataStore> => {
        const pool = await openPostgres({ ...parsePostgresUrl(metadataUrl, {}), connectionsMax: 8 });
        opened.push(() => pool.close());
        const metadata = await PostgresMetadataStore.open({
          pool,
          clock,
          onFatal: (error) => failures.push(error),
        });
        opened.push(() => metadata.close());
        return metadata;
      };
      opened = [];
      const metadata = await openStore();
      const others: MetadataStore[] = [];
      for (let count = 1; count < servers; count += 1) others.push(await openStore());
      return { metadata, content, others };
    },
    async close() {
      await close();
      if (failures.length > 0) throw new AggregateError(failures, 'the engine asked to end the process');
    },
    damage: (_space, node, how) => spoiler.spoil(node, how),
    mend: (_space, node) => spoiler.restore(node),
    async destroy() {
      await close();
      await emptyDatabase(metadataUrl);
      await emptyBucket(bucket);
    },
  };
}

async function emptyDatabase(metadataUrl: string): Promise<void> {
  await using sql = new SQL(metadataUrl, { max: 1 });
  const rows = await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`;
  const names = rows.map(({ tablename }: { tablename: string }) => tablename);
  const kept = ['holdfast_schema', 'apps', 'apps_version', 'secrets'];
  await sql.unsafe(`TRUNCATE ${names.filter((name: string) => !kept.includes(name)).join(', ')}`);
}

async function emptyBucket(bucket: TestBucket): Promise<void> {
  for (const key of await listKeys(bucket, 'nodes/')) await sendToBucket(bucket, { method: 'DELETE', key });
}

/** Spoils objects behind the engine's back, and puts them back as they were. */
class ObjectSpoiler {
  readonly #bucket: TestBucket;
  readonly #kept = new Map<string, { key: string; bytes: Uint8Array<ArrayBuffer> }>();

  constructor(bucket: TestBucket) {
    this.#bucket = bucket;
  }

  async spoil({ generation }: NodeRow, how: 'flipped' | 'lost'): Promise<void> {
    const key = (await listKeys(this.#bucket, 'nodes/')).find((each) => each.endsWith(`/${generation}`));
    if (key === undefined) throw new Error(`no object of generation ${generation}`);
    const bytes = await (await this.#send('GET', key)).bytes();
    this.#kept.set(generation, { key, bytes });
    if (how === 'lost') await this.#send('DELETE', key);
    else {
      const flipped = bytes.slice();
      flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1;
      await this.#send('PUT', key, flipped);
    }
  }

  async restore({ generation }: NodeRow): Promise<void> {
    const kept = this.#kept.get(generation);
    if (kept === undefined) throw new Error(`generation ${generation} was never spoiled`);
    await this.#send('PUT', kept.key, kept.bytes);
  }

  async #send(method: string, key: string, body?: Uint8Array<ArrayBuffer>): Promise<Response> {
    const request = { method, key, ...(body === undefined ? {} : { body }) };
    const response = await sendToBucket(this.#bucket, request);
    if (!response.ok) throw new Error(`${method} ${key} answered ${response.status}`);
    return response;
  }
}
