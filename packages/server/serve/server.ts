/** Connects an open deployment, the rules, authorization and HTTP, and closes them in reverse order. */
import { statfsSync } from 'node:fs';
import { AuditLog, type AuditOptions } from '../audit/audit-log.ts';
import { KeySetUnavailable } from '../auth/auth-limits.ts';
import { REAL_AUTH_WORLD } from '../auth/auth-world.ts';
import { authorize, checkGivenUpload, type GivenUpload, openAuthorizer } from '../auth/authorize.ts';
import { type BackgroundLoop, startLoop } from '../background/loop.ts';
import { QuotaWatch } from '../background/quota-watch.ts';
import { DISK_PACE, S3_PACE, startBackgroundWork } from '../background/work.ts';
import { readLastBackup } from '../backup/last-backup.ts';
import type { Core } from '../core/core.ts';
import { CounterBroken, InvariantViolation } from '../core/invariant.ts';
import { isHeldBy, type PackGrant, type UploadGrant } from '../core/lease/upload-token.ts';
import type { Clock, Signer } from '../core/ports.ts';
import { type RotReport, RottenNodes } from '../core/rotten-nodes.ts';
import { RotatingSigner } from '../core/signer.ts';
import { explainBehind, isBehind, moveEpoch, readEpochs } from '../core/store-epoch.ts';
import { explainFolderError } from '../deployment/data-folder.ts';
import { Opened, type ServedDeployment } from '../deployment/deployment.ts';
import { DiskSpace } from '../deployment/disk-space.ts';
import { watchSecret } from '../deployment/folder-secret.ts';
import { makeCore } from '../deployment/make-core.ts';
import { openDeployment } from '../deployment/open.ts';
import { ServeError } from '../errors.ts';
import { ContentCopies } from '../http/content-copies.ts';
import type { FailureReport } from '../http/error-answer.ts';
import { createHandler, type Handler } from '../http/handler.ts';
import { TrustedProxies } from '../http/peer.ts';
import { makeTenantShares } from '../http/tenant-shares.ts';
import { type Log, reasonsOf } from '../log.ts';
import {
  BACKUP_LAST_SUCCESS,
  BUILD_INFO,
  ENGINE_UP,
  FREE_BYTES,
  FREE_INODES,
  METRICS,
  ROT_FOUND,
  ROT_HEALED,
  ROTTEN_NODES,
} from '../metrics/server-metrics.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { ServeConfig } from './config.ts';
import { suspendDevApp } from './dev-app.ts';
import { openTraces } from './traces.ts';

/** Returns a function that stops it. `isFirst`: whether this process of the server polls the stores. */
function watchServer(
  { place, dataDir }: ServeConfig,
  core: Core,
  log: Log,
  isFirst: boolean,
): () => Promise<void> {
  const isFolder = place.rows.kind === 'folder' || place.bytes.kind === 'folder';
  BUILD_INFO.set({ version: serverPackage.version, bun: Bun.version }, 1);
  // Network stores report the result of their last request.
  ENGINE_UP.set({ engine: place.rows.kind === 'folder' ? 'sqlite' : 'postgres' }, 1);
  ENGINE_UP.set({ engine: place.bytes.kind === 'folder' ? 'disk' : 's3' }, 1);
  const bucketBackup = isFirst ? watchBucketBackup(core, log) : undefined;
  const stopReading = METRICS.readBefore(() => {
    ROTTEN_NODES.set(core.rottenNodes.total());
    if (isFolder) readDisk(dataDir);
    if (!isFirst) return;
    const folderBackupAt = place.rows.kind === 'folder' ? readLastBackup(place.rows.dataDir) : 0;
    BACKUP_LAST_SUCCESS.set(olderBackup(folderBackupAt, bucketBackup?.readAt() ?? 0) / 1000);
  });
  return async () => {
    stopReading();
    await bucketBackup?.stop();
  };
}

/** Asks the bucket every minute when it was last backed up, so that a scrape waits for no request. */
function watchBucketBackup({ content: { lastBackup } }: Core, log: Log) {
  if (lastBackup === undefined) return undefined;
  let at = 0;
  const step = async (): Promise<number> => {
    at = (await lastBackup.read()) ?? 0;
    // Each look is a request.
    return 60_000;
  };
  const { stop } = startLoop({ name: 'backups', log, step, retryMs: 5_000 });
  return { readAt: () => at, stop };
}

/** If rows and bytes are backed up separately, the older backup decides what can be restored. An unknown time (0) does not count. */
function olderBackup(first: number, second: number): number {
  return first === 0 || second === 0 ? Math.max(first, second) : Math.min(first, second);
}

/** The space available to an unprivileged user; 0 if unknown. */
function readDisk(folder: string): void {
  let disk = { bavail: 0, bsize: 0, ffree: 0 };
  try {
    disk = statfsSync(folder);
  } catch {
    // The gauges say 0 then.
  }
  FREE_BYTES.set(disk.bavail * disk.bsize);
  FREE_INODES.set(disk.ffree);
}

export interface OpenServerOptions {
  readonly config: ServeConfig;
  readonly log: Log;
  /** called for a broken invariant or a write of unknown outcome: the process must end now */
  readonly onFatal: (error: Error) => void;
  /** this process's number among `config.workers` */
  readonly worker: number;
  /** whether no other process serves this data: leftovers of interrupted processes may then be removed at once */
  readonly isAlone: boolean;
  readonly clock?: Clock;
  /** of the clock that all processes of the server share; left out: it is taken now */
  readonly timeOrigin?: number | undefined;
}

export interface OpenServer extends Handler {
  readonly core: Core;
  readonly deployment: ServedDeployment;
  readonly background: BackgroundLoop;
  readonly audit: AuditLog | undefined;
  /** as of LiveServer */
  readonly stoppedForMs: (appId: string) => number;
  close(): Promise<void>;
}

/** If a data folder is used, it exists and the caller holds it (data-folder.ts). Rejects with ServeError. */
export async function openServer(options: OpenServerOptions): Promise<OpenServer> {
  const opened = new Opened();
  try {
    const { config, ...purpose } = options;
    const { place, workers, uploadTtlMs } = config;
    const deployment = await openDeployment(place, { kind: 'serve', ...purpose, workers, uploadTtlMs });
    opened.add(() => deployment.close());
    return await openParts(options, deployment, opened);
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw error;
  }
}

async function openParts(
  { config, log, onFatal, worker, clock = { now: () => Date.now() } }: OpenServerOptions,
  deployment: ServedDeployment,
  opened: Opened,
): Promise<OpenServer> {
  const world = { ...REAL_AUTH_WORLD, now: () => clock.now() };
  if (!config.isDev && worker === 0 && (await suspendDevApp(deployment.apps, clock.now()))) {
    log.warn('the demo App of an earlier start with --dev is suspended: its tokens could do everything');
  }
  const authorizer = await openAuthorizer(deployment.apps, world);
  opened.add(() => authorizer.close());
  const signer = new RotatingSigner(await deployment.secret.read(), clock);
  opened.add(watchSecret(deployment.secret, signer, log));
  const { registry } = authorizer;
  const quotas = new QuotaWatch(
    (space) => registry.findLimits(space),
    deployment.rows,
    () => world.monotonicNow(),
    heldByOthers(deployment),
  );
  const rottenNodes = new RottenNodes((report) => logRot(log, report));
  const disk = openDiskSpace(config);
  const core = makeCore(config, deployment, signer, rottenNodes, quotas, disk, {
    clock,
    onClockSet: (message) => log.warn(message),
  });
  if (worker === 0) await beginEpoch(core);
  // A restarted server loads the rotten nodes at once. If the rows cannot be read, background work tries again.
  await core.rottenNodes.look(core.metadata).catch(() => undefined);
  const { spoolFolder, turns } = deployment;
  const copies = await ContentCopies.open(spoolFolder, {
    processes: config.workers,
    keptFreeBytes: () => disk?.keptFree ?? 0,
  }).catch((error: unknown) => {
    throw explainFolderError(spoolFolder, error);
  });
  opened.add(() => copies.close());
  opened.add(watchServer(config, core, log, worker === 0));
  const audit =
    config.audit === undefined
      ? undefined
      : await openAudit({ ...config.audit, processes: config.workers }, log);
  opened.add(async () => audit?.close());
  const tracer = await openTraces(process.env, log, worker);
  opened.add(async () => tracer?.close());
  const handler = createHandler({
    core,
    audit,
    tracer,
    authorize: (authorization, appId, spaceId, operation, record) =>
      authorize(authorizer, authorization, appId, spaceId, operation, record),
    isRegistered: (appId) => authorizer.registry.isRegistered(appId),
    checkUpload: (grant) => checkGivenUpload(authorizer, describeGrant(signer, grant)),
    copies,
    reportFailure: (report) => logFailure(log, report, onFatal),
    publicUrl: config.publicUrl,
    trustedProxies: new TrustedProxies(config.trustedProxies),
    shares: makeTenantShares({ processes: config.workers }),
    corsOrigins: config.corsOrigins,
    idleSeconds: config.idleSeconds,
  });
  const pace = config.place.bytes.kind === 'folder' ? DISK_PACE : S3_PACE;
  const background = startBackgroundWork({
    ...{ core, turns, pace, log },
    measured: worker === 0 ? deployment.apps : undefined,
    collection:
      config.gcEveryMs === undefined ? undefined : { apps: deployment.apps, everyMs: config.gcEveryMs },
  });
  opened.add(() => background.stop());
  const stoppedForMs = (appId: string): number => registry.stoppedForMs(appId);
  return { ...handler, core, deployment, background, audit, stoppedForMs, close: () => opened.close() };
}

function describeGrant(signer: Signer, grant: UploadGrant | PackGrant): GivenUpload {
  const { space, expiresAt, holder } = grant;
  return {
    ...{ appId: space.appId, expiresAt },
    holder: holder && `${holder.jti}.${holder.sub}`,
    isHeldBy: (claim, value) => isHeldBy(signer, grant, claim, value),
  };
}

/** The bytes that other processes on the same folder are receiving of an App. */
function heldByOthers({ bytes: { upload } }: ServedDeployment): (appId: string) => number {
  if (upload.kind === 'direct') return () => 0;
  return (appId) => upload.receiver.heldBytesOfApp(appId, 'other processes');
}

function openDiskSpace({ place, dataDir, minFreeBytes }: ServeConfig): DiskSpace | undefined {
  const isOnDisk = place.rows.kind === 'folder' || place.bytes.kind === 'folder';
  return isOnDisk ? new DiskSpace(dataDir, minFreeBytes) : undefined;
}

/** A database that is behind its bucket would treat unknown objects as strays. Rejects with ServeError. */
async function beginEpoch(core: Core): Promise<void> {
  const epochs = await readEpochs(core);
  if (epochs === undefined) return;
  if (isBehind(epochs)) throw new ServeError(explainBehind(epochs));
  await moveEpoch(core, epochs);
}

/** Throws ServeError. */
async function openAudit(options: AuditOptions, log: Log): Promise<AuditLog> {
  const audit = await AuditLog.open(options, (report) => {
    if (report.kind === 'failing') {
      log.error({ reason: report.reason }, 'the audit log cannot be written: lines are lost until it can');
    } else {
      log.warn(
        { lost: report.lost },
        report.lost > 0
          ? 'the audit log can be written again; some lines are missing'
          : 'the audit log can be written again; no line is missing',
      );
    }
  });
  const atExit = (): void => audit.writeAtExit();
  process.once('exit', atExit);
  return audit;
}

function logFailure(log: Log, report: FailureReport, onFatal: (error: Error) => void): void {
  const { kind, requestId, error } = report;
  if (kind === 'caller-gone') log.debug({ requestId, err: error }, 'a caller went away before its answer');
  else if (error instanceof CounterBroken)
    log.error(
      { requestId, app: error.space?.appId, space: error.space?.spaceId, err: error },
      'a count of one Space contradicts its rows: requests that need it answer 503, other Spaces go on',
    );
  else if (error instanceof KeySetUnavailable)
    log.warn(
      { requestId, app: error.appId, reasons: reasonsOf(error.cause) },
      'the key set of an App cannot be used, and its requests answer 503: check the URL or file that it was registered with',
    );
  else if (kind === 'unexpected') log.error({ requestId, err: error }, 'a request failed unexpectedly');
  else
    log.warn(
      { requestId, reasons: reasonsOf(error) },
      'a request failed: storage or the registry could not be used',
    );
  if (error instanceof InvariantViolation) onFatal(error);
}

const ROT_LINES: Readonly<
  Record<RotReport['kind'], { readonly level: 'error' | 'warn' | 'info'; readonly message: string }>
> = {
  rotten: {
    level: 'error',
    message:
      'the stored content of a node is damaged or lost: push the tree it belongs to again, or lease and upload the node; check the store',
  },
  unread: {
    level: 'error',
    message: 'the scrub could not read the content of a node, which proves nothing yet: check the store',
  },
  met: { level: 'warn', message: 'a damaged node was asked for, and refused' },
  sound: { level: 'warn', message: 'the content of a damaged node was found good again' },
  healed: { level: 'info', message: 'a damaged node was healed by bytes that were uploaded again' },
};

/** Logs each rotten node when it is found, and when it is ready again. The log counts lines that repeat too fast. */
function logRot(log: Log, { kind, space: { appId, spaceId }, hash, reason }: RotReport): void {
  const { level, message } = ROT_LINES[kind];
  log[level]({ app: appId, space: spaceId, hash, reason }, message);
  if (kind === 'rotten') ROT_FOUND.add();
  else if (kind === 'sound' || kind === 'healed') ROT_HEALED.add({ how: kind });
}
