/** Opens a deployment at any place, for any purpose: the only file that names stores. It loads only the stores that it opens. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UPLOAD_TTL_MS_DEFAULT } from '@holdfast/protocol';
import type { RegistryStore } from '../auth/registry-store.ts';
import { type BackgroundTurns, makeLocalTurns, NO_TURNS } from '../background/turns.ts';
import type { Clock, ContentStore, MetadataStore } from '../core/ports.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { AppTotals } from '../core/tenancy-ports.ts';
import { formatHosts, type PostgresAddress } from '../engine/address.ts';
import type { BucketObjects, FolderFormat } from '../engine/backup-ports.ts';
import type { Files } from '../engine/disk/files.ts';
import { EngineRefused } from '../engine/refused.ts';
import type { SqliteMetadataStore } from '../engine/sqlite/metadata-store.ts';
import { ROWS_FILE } from '../engine/sqlite/rows-file.ts';
import type { StoreIdentity } from '../engine/store-identity.ts';
import type { BytesTrial, RowsTrial } from '../engine/store-trial.ts';
import type { ContentIntake, DeploymentWriter } from '../engine/transfer-ports.ts';
import { ServeError } from '../errors.ts';
import { type Log, openLog } from '../log.ts';
import { explainFolderError, holdDataFolder, isDataFolderHeld, noDeployment } from './data-folder.ts';
import { type CopiedDeployment, Opened, type ServedDeployment, type SharedSecret } from './deployment.ts';
import { chooseClock, WALL_CLOCK } from './folder-clock.ts';
import { assertRestored } from './folder-marks.ts';
import { ownedFolder } from './folder-owner.ts';
import { folderSecret } from './folder-secret.ts';
import { type DeploymentPlace, nameBucket, nameRows, type RowsPlace, type S3Place } from './place.ts';
import { sayChecksums } from './say-checksums.ts';
import { attemptStart } from './start-attempts.ts';

/** Opens to serve. The data folder exists and the caller holds it (data-folder.ts). Retries for a while if a store is unavailable. */
export interface ServePurpose {
  readonly kind: 'serve';
  readonly uploadTtlMs: number;
  /** how many processes serve the folder */
  readonly workers: number;
  /** this process's number among them; 0 does the background work */
  readonly worker: number;
  /** whether no other process has the folder open: leftovers of interrupted processes are then removed at once */
  readonly isAlone: boolean;
  readonly log: Log;
  /** called if the outcome of a write is unknown or an invariant is broken: end the process and restart from durable state */
  readonly onFatal: (error: Error) => void;
  /** Tests set it. If left out, the database's own clock decides, or the steady one of a data folder. */
  readonly clock?: Clock | undefined;
  /** of the steady clock that all processes of a server share (engine/steady-clock.ts); left out: it is taken now */
  readonly timeOrigin?: number | undefined;
  /** tests inject a failing disk */
  readonly files?: Files;
  /** a restore opens the folder that it has not finished yet */
  readonly isRestored?: boolean;
}

/** Opens the source or target of a copy exclusively. Creates what is missing, as a server would. */
export interface CopyPurpose {
  readonly kind: 'copy';
}

type Purpose = ServePurpose | CopyPurpose;

/** The parts that both stores of rows provide. */
interface OpenRows {
  readonly metadata: MetadataStore;
  readonly identity: StoreIdentity;
  readonly apps: RegistryStore;
  readonly secret: SharedSecret;
  readonly turns: BackgroundTurns;
  readonly steadyClock: Clock | undefined;
  readonly assertSchema: () => Promise<void>;
  /** for a copy, as `assertAlone` */
  readonly openTransfer: () => DeploymentWriter;
  readonly assertAlone: () => Promise<void>;
}

interface OpenBytes {
  readonly content: ContentStore;
  readonly intake: ContentIntake;
}

/** Rejects with ServeError. */
export function openDeployment(place: DeploymentPlace, purpose: ServePurpose): Promise<ServedDeployment>;
export function openDeployment(place: DeploymentPlace, purpose: CopyPurpose): Promise<CopiedDeployment>;
export async function openDeployment(
  place: DeploymentPlace,
  purpose: Purpose,
): Promise<ServedDeployment | CopiedDeployment> {
  const opened = new Opened();
  try {
    if (place.rows.kind === 'folder' && !(purpose.kind === 'serve' && purpose.isRestored)) {
      assertRestored(place.rows.dataDir);
    }
    const { rows, bytes } = await openStores(place, settingOf(purpose), opened);
    const { apps, secret } = rows;
    const common = { bytes: bytes.content, apps, secret, close: () => opened.close() };
    if (purpose.kind === 'copy') {
      const { openTransfer, assertAlone } = rows;
      return { ...common, rows: openTransfer(), intake: bytes.intake, assertAlone };
    }
    const spoolFolder = openSpoolFolder(place.rows, purpose.worker, opened);
    const { metadata, turns, steadyClock, assertSchema } = rows;
    const isClockSteady = steadyClock !== undefined;
    return { ...common, rows: metadata, turns, isClockSteady, assertSchema, spoolFolder };
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw place.rows.kind === 'folder' ? explainFolderError(place.rows.dataDir, error) : error;
  }
}

/** Whether there are rows at the place, another user's folder only if allowed. Makes nothing. Rejects with ServeError. */
export async function hasRows(place: RowsPlace): Promise<boolean> {
  if (place.kind === 'folder') return existsSync(join(ownedFolder(place.dataDir), ROWS_FILE));
  const { hasPostgresRows } = await import('../engine/postgres/open-postgres.ts');
  return naming(nameRows(place), () => hasPostgresRows(place.address));
}

/** As `hasRows`, of a registry of Apps. */
export async function hasApps(place: RowsPlace): Promise<boolean> {
  if (place.kind === 'postgres') return hasRows(place);
  return (await import('../engine/sqlite/registry-store.ts')).hasSqliteRegistry(ownedFolder(place.dataDir));
}

/** Looks at the rows of a server. Makes nothing. Rejects with ServeError or StoreUnavailable. */
export async function tryRows({ rows, bytes }: DeploymentPlace): Promise<RowsTrial> {
  if (rows.kind === 'postgres') {
    const { tryDatabase } = await import('../engine/postgres/door.ts');
    return naming(`--metadata, ${nameRows(rows)}`, () => tryDatabase(rows.address));
  }
  const isServed = isDataFolderHeld(rows.dataDir);
  const path = join(rows.dataDir, ROWS_FILE);
  const nothing = { version: undefined, storeId: undefined, isMarked: false, clockAheadMs: undefined };
  if (!existsSync(path)) return { ...nothing, isServed };
  const { tryDatabaseFile } = await import('../engine/sqlite/door.ts');
  return { ...nothing, isServed, ...tryDatabaseFile(path, bytes.kind) };
}

/** Looks at the bucket of a server. Makes nothing. Rejects with ServeError or StoreUnavailable. */
export async function tryBytes(place: S3Place): Promise<BytesTrial> {
  const { tryBucket } = await import('../engine/s3/try-bucket.ts');
  return naming(`--content, ${nameBucket(place)}`, () => tryBucket(place.address));
}

/** Works on the objects of a bucket past all rows, also while servers run. Rejects with ServeError. */
export async function withBucket<T>(place: S3Place, work: (bucket: BucketObjects) => Promise<T>): Promise<T> {
  const { openBucketObjects } = await import('../engine/s3/bucket-objects.ts');
  return naming(nameBucket(place), async () => {
    const bucket = await openBucketObjects(place.address);
    return work(bucket).finally(() => bucket.close());
  });
}

export interface OpenApps extends Pick<CopiedDeployment, 'apps' | 'close'> {
  readTotals(appId: string): Promise<AppTotals>;
}

/** Opens only the registry of Apps, also while servers run. Creates what is missing. Rejects with ServeError. */
export async function openApps(place: RowsPlace): Promise<OpenApps> {
  if (place.kind === 'folder') {
    const { openSqliteRegistryStore } = await import('../engine/sqlite/registry-store.ts');
    const { readSqliteAppTotals } = await import('../engine/sqlite/app-totals.ts');
    const apps = openSqliteRegistryStore(place.dataDir);
    const readTotals = async (appId: string) => readSqliteAppTotals(place.dataDir, appId);
    return { apps, readTotals, close: async () => apps.close() };
  }
  const { openPostgres } = await import('../engine/postgres/open-postgres.ts');
  const { openPostgresRegistryStore } = await import('../engine/postgres/registry-store.ts');
  const { readAppTotals } = await import('../engine/postgres/app-totals.ts');
  const pool = await naming(nameRows(place), () => openPostgres({ ...place.address, connectionsMax: 1 }));
  const readTotals = (appId: string) => readAppTotals(pool, appId);
  return { apps: openPostgresRegistryStore(pool), readTotals, close: () => pool.close() };
}

/** Opens only the shared secret, also while servers run. Rejects with ServeError. */
export async function openSecret(place: RowsPlace): Promise<Pick<CopiedDeployment, 'secret' | 'close'>> {
  if (place.kind === 'folder') return { secret: folderSecret(place.dataDir), close: async () => undefined };
  const postgres = await import('../engine/postgres/door.ts');
  const pool = await naming(nameRows(place), () =>
    postgres.openPostgres({ ...place.address, connectionsMax: 1 }),
  );
  return { secret: postgresSecret(postgres, pool), close: () => pool.close() };
}

/** Opens a folder that was taken out of a backup, alone and without a thread. The caller holds it. Rejects with ServeError. */
export function openRestoredFolder(dataDir: string): Promise<ServedDeployment> {
  const folder = { kind: 'folder', dataDir } as const;
  return openDeployment(
    { rows: folder, bytes: folder },
    {
      ...{ kind: 'serve', isRestored: true, isAlone: true, workers: 1, worker: 0 },
      ...{ uploadTtlMs: UPLOAD_TTL_MS_DEFAULT, clock: WALL_CLOCK, log: openLog('silent') },
      onFatal: (error) => {
        throw error;
      },
    },
  );
}

/** Loads the port of a backup to the stores of a data folder. */
export async function loadFolderFormat(): Promise<FolderFormat> {
  const sqlite = await import('../engine/sqlite/folder-databases.ts');
  const { FOLDER_DAMAGE } = await import('../engine/sqlite/damaged-databases.ts');
  const disk = await import('../engine/disk/object-files.ts');
  return {
    findDatabases: (dataDir) => {
      const found = sqlite.findFolderDatabases(dataDir);
      if (found[0]?.name === ROWS_FILE) return found;
      throw noDeployment(dataDir);
    },
    countNodes: sqlite.countFolderNodes,
    areBytesElsewhere: sqlite.areFolderBytesElsewhere,
    identitiesOf: sqlite.findFolderIdentities,
    notedMarkerOf: sqlite.findFolderMarker,
    markerOf: disk.findContentMarker,
    objectsOf: disk.findObjectFiles,
    objectsIn: disk.makeObjectFiles,
    ...FOLDER_DAMAGE,
    renewRows: sqlite.renewFolderRows,
  };
}

/** A purpose, with the values that every copy uses. */
interface Setting extends Omit<ServePurpose, 'kind' | 'log'> {
  /** undefined: a copy */
  readonly log: Log | undefined;
  /** throws after a write of unknown outcome: a copy does not go on from there */
  readonly assertSound: () => void;
}

function settingOf(purpose: Purpose): Setting {
  if (purpose.kind === 'serve') return { ...purpose, assertSound: () => undefined };
  let fatal: Error | undefined;
  return {
    ...{ uploadTtlMs: UPLOAD_TTL_MS_DEFAULT, workers: 1, worker: 0, isAlone: true, log: undefined },
    onFatal: (error) => {
      fatal ??= error;
    },
    assertSound: () => {
      if (fatal !== undefined) throw fatal;
    },
  };
}

async function openStores(
  { rows: rowsPlace, bytes: bytesPlace }: DeploymentPlace,
  setting: Setting,
  opened: Opened,
): Promise<{ readonly rows: OpenRows; readonly bytes: OpenBytes }> {
  if (rowsPlace.kind === 'postgres') {
    const name = `${setting.log === undefined ? '' : '--metadata, '}${nameRows(rowsPlace)}`;
    const rows = await naming(name, () => openPostgresRows(rowsPlace.address, setting, opened));
    return { rows, bytes: await openBucket(bytesPlace as S3Place, rows, setting, opened) };
  }
  const { dataDir } = rowsPlace;
  const rows = await openFolderRows(dataDir, bytesPlace.kind, setting, opened);
  if (bytesPlace.kind === 's3') return { rows, bytes: await openBucket(bytesPlace, rows, setting, opened) };
  const { identity, metadata } = rows;
  const { openDiskContentStore } = await import('../engine/disk/open-disk-content-store.ts');
  const bytes = await openDiskContentStore({ ...setting, dataDir, identity, rows: metadata });
  opened.add(() => bytes.content.close());
  return { rows, bytes };
}

async function openFolderRows(
  dataDir: string,
  bytes: 'folder' | 's3',
  { log, onFatal, assertSound, workers, worker, ...given }: Setting,
  opened: Opened,
): Promise<OpenRows & { readonly metadata: SqliteMetadataStore }> {
  const isCopied = log === undefined;
  const sqlite = await import('../engine/sqlite/door.ts');
  if (isCopied) {
    const folder = holdDataFolder(dataDir);
    opened.add(() => folder.release());
  }
  const path = join(dataDir, ROWS_FILE);
  const time = chooseClock(isCopied ? 'copy' : 'serve', given);
  const metadata = new sqlite.SqliteMetadataStore({
    ...{ path, onFatal, ...time, isShared: workers > 1 },
  });
  opened.add(() => metadata.close());
  if (!isCopied) await sqlite.beginServing(metadata, dataDir);
  const apps = sqlite.openSqliteRegistryStore(dataDir);
  opened.add(() => apps.close());
  return {
    ...{ metadata, apps, identity: await sqlite.openStoreIdentity(metadata, dataDir, bytes) },
    secret: folderSecret(dataDir),
    turns: worker === 0 ? makeLocalTurns() : NO_TURNS,
    steadyClock: time.timeOrigin === undefined ? undefined : time.clock,
    assertSchema: async () => sqlite.assertUsableFile(path),
    openTransfer: () => {
      const rows = new sqlite.SqliteDeploymentRows({ path, metadata, assertSound });
      opened.add(() => rows.close());
      return rows;
    },
    // The lock of the folder is held.
    assertAlone: async () => undefined,
  };
}

async function openPostgresRows(
  address: PostgresAddress,
  { log, clock, onFatal, worker }: Setting,
  opened: Opened,
): Promise<OpenRows> {
  const postgres = await import('../engine/postgres/door.ts');
  const name = `PostgreSQL (${formatHosts(address.hosts)})`;
  // A copy needs one connection more: its lock occupies one while the copy runs.
  const copied = { ...address, connectionsMax: address.connectionsMax + 1 };
  const pool = await (log === undefined
    ? // A copy may wait long, and counts the rows of large tables.
      postgres.openPostgres(copied, { statementMs: 120_000 })
    : attemptStart({ name, open: () => postgres.openPostgres(address), log }));
  const control = log === undefined ? pool : postgres.openControlPool(address);
  // Both close at the same time, because each may have to wait for a server that does not answer.
  opened.add(() => Promise.all([pool.close(), control.close()]).then(() => undefined));
  if (log === undefined) {
    const held = await postgres.holdDeployment(pool);
    opened.add(() => held.release());
    // Checked before the bucket is opened: nothing is written to the bucket of a database in use.
    await postgres.assertNoServer(pool);
  } else {
    await postgres.beginServing(control);
    if (worker === 0) sayChecksums(log, name, await postgres.findPageChecksums(control));
  }
  const metadata = await postgres.PostgresMetadataStore.open({ pool, onFatal, clock });
  opened.add(() => metadata.close());
  return {
    ...{ metadata, apps: postgres.openPostgresRegistryStore(control), steadyClock: undefined },
    identity: await postgres.openStoreIdentity(control),
    secret: postgresSecret(postgres, control),
    turns: new postgres.PostgresTurns(control, randomUUID()),
    assertSchema: () => postgres.assertUsable(control),
    openTransfer: () => new postgres.PostgresDeploymentRows({ pool, metadata }),
    assertAlone: () => postgres.assertNoServer(pool),
  };
}

function postgresSecret(
  postgres: typeof import('../engine/postgres/door.ts'),
  pool: Awaited<ReturnType<typeof postgres.openPostgres>>,
): SharedSecret {
  return {
    read: () => postgres.readSigningSecrets(pool),
    find: () => postgres.findSigningSecrets(pool),
    replace: (secrets) => postgres.replaceSigningSecrets(pool, secrets),
    exchange: (from, to) => postgres.exchangeSigningSecrets(pool, from, to),
  };
}

async function openBucket(
  place: S3Place,
  { identity, steadyClock }: Pick<OpenRows, 'identity' | 'steadyClock'>,
  { log, uploadTtlMs }: Setting,
  opened: Opened,
): Promise<OpenBytes> {
  const { address } = place;
  const { openS3ContentStore } = await import('../engine/s3/open-s3-content-store.ts');
  const open = () => openS3ContentStore({ address, uploadTtlMs, identity, rowsClock: steadyClock });
  const name = `S3 (${address.endpoint ?? `AWS, ${address.region}`})`;
  const bytes = await naming(`${log === undefined ? '' : '--content, '}${nameBucket(place)}`, () =>
    log === undefined ? open() : attemptStart({ name, open, log }),
  );
  opened.add(() => bytes.content.close());
  return bytes;
}

/** Adds the name of the store to the error with which a store across a network refuses or finally fails. */
async function naming<T>(name: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof EngineRefused) && !(error instanceof StoreUnavailable)) throw error;
    throw new EngineRefused(`${name}: ${error.message}`, { cause: error });
  }
}

/** A private folder, removed when the process ends. A `kill -9` leaves it empty, because its files have no names. */
function openSpoolFolder(rows: RowsPlace, worker: number, opened: Opened): string {
  if (rows.kind === 'folder') return join(rows.dataDir, 'spool', String(worker));
  const parent = tmpdir();
  let folder: string;
  try {
    folder = mkdtempSync(join(parent, 'holdfast-spool-'));
  } catch {
    throw new ServeError(
      `the temporary folder ${parent} cannot be written: make it writable, or set TMPDIR to one with room for large answers`,
    );
  }
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  opened.add(() => {
    process.off('exit', remove);
    remove();
  });
  return folder;
}
