/** Composition of a copy: whole deployments of either kind, opened alone, as where it comes from or where it goes. */
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UPLOAD_TTL_MS_DEFAULT } from '@holdfast/protocol';
import type { AppRecord, RegistryStore } from '../auth/registry-store.ts';
import { type Clock, type ContentStore, type MetadataStore, StoreUnavailable } from '../core/ports.ts';
import { formatDatabase, type PostgresAddress, type S3Address } from '../engine/address.ts';
import { EmbeddedContentIntake } from '../engine/disk/deployment-content.ts';
import { ObjectLayout } from '../engine/disk/object-layout.ts';
import { assertNoServer, holdDeployment } from '../engine/postgres/deployment-lock.ts';
import { PostgresDeploymentRows } from '../engine/postgres/deployment-rows.ts';
import { PostgresMetadataStore } from '../engine/postgres/metadata-store.ts';
import { hasPostgresRows, openPostgres } from '../engine/postgres/open-postgres.ts';
import { PostgresRegistryStore } from '../engine/postgres/registry-store.ts';
import { findOrCreateSecret, replaceSecret } from '../engine/postgres/secrets.ts';
import type { PostgresPool } from '../engine/postgres/wire/connection-pool.ts';
import { EngineRefused } from '../engine/refused.ts';
import { openS3Deployment } from '../engine/s3/open-s3-content-store.ts';
import { EmbeddedDeploymentRows } from '../engine/sqlite/deployment-rows.ts';
import { openEmbeddedRegistryStore } from '../engine/sqlite/registry-store.ts';
import type { ContentIntake, DeploymentWriter } from '../engine/transfer-ports.ts';
import { ServeError } from '../errors.ts';
import type { TargetDeployment } from '../transfer/ports.ts';
import { explainFolderError, holdDataFolder } from './data-folder.ts';
import { Opened } from './engines.ts';
import {
  CONTENT_FOLDER,
  DATABASE_FILE,
  type EmbeddedEngineOptions,
  openEmbeddedEngine,
} from './open-embedded-engine.ts';
import { openEmbeddedRows } from './open-embedded-rows.ts';
import { readStoreIdentity, SECRET_NAMES } from './open-scaleout.ts';
import type { DeploymentPlace, PostgresPlace, S3Place } from './place.ts';
import { readFolderSecret, replaceFolderSecret, SECRET_BYTES } from './signer.ts';

/** Either side of a copy. */
export interface OpenDeployment extends TargetDeployment {
  /** to read from, too */
  readonly store: ContentStore;
  close(): Promise<void>;
}

/** ms; a copy is in no hurry, and counts tables that grew for years */
const STATEMENT_MS = 120_000;
const REAL_CLOCK: Clock = { now: () => Date.now() };

/** Whether anything was ever kept there. Makes nothing. Rejects with ServeError. */
export async function hasDeployment(place: DeploymentPlace): Promise<boolean> {
  const { rows } = place;
  if (rows.kind === 'folder') return existsSync(join(rows.dataDir, DATABASE_FILE));
  return explainScaleout(toScaleout(place), () => hasPostgresRows(rows.address));
}

/** Makes what is missing, as a server would. Rejects with ServeError. */
export function openDeployment(place: DeploymentPlace): Promise<OpenDeployment> {
  const { rows, bytes } = place;
  if (rows.kind === 'postgres') return openScaleout(toScaleout(place));
  return openFolder({
    dataDir: rows.dataDir,
    content: bytes.kind === 's3' ? bytes.address : undefined,
  });
}

const toScaleout = ({ rows, bytes }: DeploymentPlace): ScaleoutPlace => ({
  metadata: (rows as PostgresPlace).address,
  content: (bytes as S3Place).address,
});

async function openFolder(place: FolderPlace): Promise<OpenDeployment> {
  const { dataDir } = place;
  const opened = new Opened();
  try {
    const folder = holdDataFolder(dataDir);
    opened.add(() => folder.release());
    let fatal: Error | undefined;
    const assertSound = (): void => {
      if (fatal !== undefined) throw fatal;
    };
    const onFatal = (error: Error): void => {
      fatal ??= error;
    };
    const options = { dataDir, workers: 1, isAlone: true, isForCopy: true, clock: REAL_CLOCK, onFatal };
    const { metadata, content, intake } =
      place.content === undefined
        ? await openFolderContent(options, assertSound, opened)
        : await openBesideBucket(options, place.content, opened);
    const rows = new EmbeddedDeploymentRows({ path: join(dataDir, DATABASE_FILE), metadata, assertSound });
    opened.add(() => rows.close());
    const registry = openEmbeddedRegistryStore(dataDir);
    opened.add(() => registry.close());
    return {
      ...makeDeployment(rows, content, intake, registry),
      // The lock of the folder is held.
      assertAlone: async () => undefined,
      readSecret: () => readFolderSecret(dataDir),
      replaceSecret: (secret) => replaceFolderSecret(dataDir, secret),
      close: () => opened.close(),
    };
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw explainFolder(place, error);
  }
}

interface Stores {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  readonly intake: ContentIntake;
}

async function openFolderContent(
  options: EmbeddedEngineOptions,
  assertSound: () => void,
  opened: Opened,
): Promise<Stores> {
  const engine = await openEmbeddedEngine(options);
  opened.add(() => engine.close());
  const { metadata, content } = engine;
  if (content.upload.kind !== 'server') throw new Error('the embedded engine receives uploads itself');
  const { receiver } = content.upload;
  const layout = new ObjectLayout(join(options.dataDir, CONTENT_FOLDER));
  return { metadata, content, intake: new EmbeddedContentIntake({ receiver, layout, assertSound }) };
}

/** Rows in the folder, bytes in S3. */
async function openBesideBucket(
  options: Parameters<typeof openEmbeddedRows>[0],
  address: S3Address,
  opened: Opened,
): Promise<Stores> {
  const rows = await openEmbeddedRows(options);
  opened.add(() => rows.metadata.close());
  const storeId = await rows.findOrCreateStoreId(randomUUID);
  const { metadata, isMarked } = rows;
  const identity = { storeId, isMarked, noteMarked: () => rows.noteMarked() };
  const { content, intake } = await openS3Deployment({
    address,
    uploadTtlMs: UPLOAD_TTL_MS_DEFAULT,
    identity,
  });
  opened.add(() => content.close());
  return { metadata, content, intake };
}

interface FolderPlace {
  readonly dataDir: string;
  readonly content: S3Address | undefined;
}

interface ScaleoutPlace {
  readonly metadata: PostgresAddress;
  readonly content: S3Address;
}

async function openScaleout(place: ScaleoutPlace): Promise<OpenDeployment> {
  const opened = new Opened();
  try {
    return await explainScaleout(place, () => openScaleoutParts(place, opened));
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw error;
  }
}

async function openScaleoutParts(place: ScaleoutPlace, opened: Opened): Promise<OpenDeployment> {
  // One more: the lock keeps one as long as the copy runs.
  const address = { ...place.metadata, connectionsMax: place.metadata.connectionsMax + 1 };
  const pool = await openPostgres(address, { statementMs: STATEMENT_MS });
  opened.add(() => pool.close());
  const held = await holdDeployment(pool);
  opened.add(() => held.release());
  // Before the bucket: nothing is written to that of a database that is in use.
  await assertNoServer(pool);
  const metadata = await PostgresMetadataStore.open({ pool, onFatal: () => undefined });
  opened.add(() => metadata.close());
  const { content, intake } = await openS3Deployment({
    address: place.content,
    uploadTtlMs: UPLOAD_TTL_MS_DEFAULT,
    identity: await readStoreIdentity(pool),
  });
  opened.add(() => content.close());
  const registry = new PostgresRegistryStore(pool);
  opened.add(() => registry.close());
  return {
    ...makeDeployment(new PostgresDeploymentRows({ pool, metadata }), content, intake, registry),
    assertAlone: () => assertNoServer(pool),
    readSecret: () => readSharedSecret(pool),
    replaceSecret: (secret) => replaceSecret(pool, SECRET_NAMES.signer, secret),
    close: () => opened.close(),
  };
}

const readSharedSecret = (pool: PostgresPool): Promise<Uint8Array> =>
  findOrCreateSecret(pool, SECRET_NAMES.signer, () => randomBytes(SECRET_BYTES));

function makeDeployment(
  rows: DeploymentWriter,
  store: ContentStore,
  content: ContentIntake,
  registry: RegistryStore,
): Pick<OpenDeployment, 'rows' | 'store' | 'content' | 'readApps' | 'replaceApps'> {
  return {
    ...{ rows, store, content },
    readApps: async () => registry.readAll(),
    replaceApps: (apps) => replaceApps(registry, apps),
  };
}

/** One by one: the target is served by nobody before all are there. */
async function replaceApps(registry: RegistryStore, apps: readonly AppRecord[]): Promise<void> {
  const wanted = new Map(apps.map((app) => [app.appId, app]));
  for (const app of await registry.readAll()) {
    if (Bun.deepEquals(app, wanted.get(app.appId))) wanted.delete(app.appId);
    else await registry.remove(app.appId);
  }
  for (const app of wanted.values()) {
    const outcome = await registry.insert(app);
    if (outcome !== 'inserted')
      throw new ServeError(`the App ${JSON.stringify(app.appId)} is registered twice`);
  }
}

function explainFolder({ dataDir, content }: FolderPlace, error: unknown): unknown {
  if (content === undefined || !(error instanceof StoreUnavailable))
    return explainFolderError(dataDir, error);
  return new EngineRefused(`${dataDir}, bucket ${content.bucket}: ${error.message}`, { cause: error });
}

/** Names the place without its secrets. */
async function explainScaleout<T>({ metadata, content }: ScaleoutPlace, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreUnavailable) && !(error instanceof EngineRefused)) throw error;
    const place = `${formatDatabase(metadata)}, bucket ${content.bucket}`;
    throw new EngineRefused(`${place}: ${error.message}`, { cause: error });
  }
}
