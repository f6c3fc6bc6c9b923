/** The composition root: the only file that knows concrete engines. Opens everything, in order, and closes it in reverse. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ABANDONED_AFTER_MS, ROOT_REF_HISTORY_MS } from '@holdfast/protocol';
import { REAL_AUTH_WORLD } from './auth/auth-world.ts';
import { authorize, openAuthorizer } from './auth/authorize.ts';
import type { BackgroundLoop } from './background-loop.ts';
import { startBackgroundWork } from './background-work.ts';
import type { ServeConfig } from './config.ts';
import type { Core } from './core/core.ts';
import { InvariantViolation } from './core/invariant.ts';
import type { Clock } from './core/ports.ts';
import { explainFolderError } from './data-folder.ts';
import { DataFolderNewer } from './engine/embedded/migrations.ts';
import { ContentFolderMissing, openEmbeddedEngine } from './engine/embedded/open-embedded-engine.ts';
import { openEmbeddedRegistryStore, RegistryFileError } from './engine/embedded/registry-store.ts';
import { openFileSpool } from './http/content-spool.ts';
import type { FailureReport } from './http/error-answer.ts';
import { createHandler, type Handler } from './http/handler.ts';
import type { Log } from './log.ts';
import { ServeError } from './serve-error.ts';
import { openSigner } from './signer.ts';

export interface OpenServerOptions {
  readonly config: ServeConfig;
  readonly log: Log;
  /** a broken invariant, or a write of unknown outcome: the process has to end, now */
  readonly onFatal: (error: Error) => void;
  /** this process's number among `config.workers`; 0 is the one that does the background work */
  readonly worker: number;
  /** no other process serves this data: what interrupted ones left half done may be cleared up at once */
  readonly isAlone: boolean;
  readonly clock?: Clock;
}

export interface OpenServer extends Handler {
  readonly core: Core;
  close(): Promise<void>;
}

/** The data folder exists and is held by the caller (data-folder.ts). Rejects with ServeError. */
export async function openServer(options: OpenServerOptions): Promise<OpenServer> {
  const { dataDir } = options.config;
  const opened: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const each of opened.splice(0).reverse()) await each();
  };
  try {
    return await openParts(options, opened, close);
  } catch (error) {
    await close().catch(() => undefined);
    throw explainStartError(dataDir, error);
  }
}

async function openParts(
  { config, log, onFatal, worker, isAlone, clock = { now: Date.now } }: OpenServerOptions,
  opened: (() => Promise<void>)[],
  close: () => Promise<void>,
): Promise<OpenServer> {
  const { dataDir, workers } = config;
  const signer = await openSigner(dataDir);
  const engine = await openEmbeddedEngine({ dataDir, workers, isAlone, clock, onFatal });
  opened.push(() => engine.close());
  const registryStore = openEmbeddedRegistryStore(dataDir);
  opened.push(async () => registryStore.close());
  const authorizer = await openAuthorizer(registryStore, { ...REAL_AUTH_WORLD, now: () => clock.now() });
  opened.push(async () => authorizer.close());
  const core: Core = {
    metadata: engine.metadata,
    content: engine.content,
    random: { bytes: (count) => randomBytes(count) },
    signer,
    settings: {
      nodeBytesMax: config.nodeBytesMax,
      activeUploadsMax: config.activeUploadsMax,
      uploadTtlMs: config.uploadTtlMs,
      abandonedAfterMs: ABANDONED_AFTER_MS,
      rootRefHistoryMs: ROOT_REF_HISTORY_MS,
    },
  };
  const spool = await openFileSpool(join(dataDir, 'spool', String(worker)));
  const handler = createHandler({
    core,
    authorize: (authorization, appId, spaceId, operation) =>
      authorize(authorizer, authorization, appId, spaceId, operation),
    spool,
    reportFailure: (report) => logFailure(log, report, onFatal),
    publicUrl: config.publicUrl,
    corsOrigins: config.corsOrigins,
  });
  if (worker === 0) {
    const background: BackgroundLoop = startBackgroundWork(core, log);
    opened.push(() => background.stop());
  }
  return { ...handler, core, close };
}

function logFailure(log: Log, report: FailureReport, onFatal: (error: Error) => void): void {
  const { kind, requestId, error } = report;
  const fields = { requestId, err: error };
  if (kind === 'caller-gone') log.debug(fields, 'a caller went away before its answer');
  else if (kind === 'unexpected') log.error(fields, 'a request failed unexpectedly');
  else log.warn(fields, 'a request failed: storage or the registry could not be used');
  if (error instanceof InvariantViolation) onFatal(error);
}

function explainStartError(dataDir: string, error: unknown): unknown {
  const isExplained =
    error instanceof DataFolderNewer ||
    error instanceof ContentFolderMissing ||
    error instanceof RegistryFileError;
  if (isExplained) return new ServeError(error.message, { cause: error });
  return explainFolderError(dataDir, error);
}
