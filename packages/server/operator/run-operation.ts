/** Runs an operation over the operator API, through the server that holds a data folder, or in this process. */
import { existsSync } from 'node:fs';
import {
  ACTIVE_UPLOADS_MAX_DEFAULT,
  CLOCK_SKEW_MS_MAX_DEFAULT,
  KEEP_REPLACED_MS_DEFAULT,
  NODE_BYTES_MAX_DEFAULT,
  UPLOAD_TTL_MS_DEFAULT,
} from '@holdfast/protocol';
import { NO_QUOTAS } from '../core/quotas.ts';
import { RottenNodes } from '../core/rotten-nodes.ts';
import { RotatingSigner } from '../core/signer.ts';
import { FolderInUse, holdDataFolder } from '../deployment/data-folder.ts';
import { makeCore } from '../deployment/make-core.ts';
import { hasRows, openDeployment } from '../deployment/open.ts';
import { type DeploymentPlace, nameRows } from '../deployment/place.ts';
import { administer } from '../deployment/registry.ts';
import { ServeError } from '../errors.ts';
import { openLog } from '../log.ts';
import {
  ConnectionBroken,
  callHolder,
  callOperation,
  NoServer,
  type OperatorAddress,
} from './call-operation.ts';
import type { Caller, OperatorContext } from './operation.ts';
import { type InputOf, OPERATIONS, type OperationName, type OutputOf, runWith } from './operations.ts';

export type OperatorWhere =
  /** over the operator API of a server */
  | { readonly kind: 'address'; readonly address: OperatorAddress }
  /** on a deployment: through the server that holds its folder, else in this process */
  | { readonly kind: 'place'; readonly place: DeploymentPlace };

/** Rejects with ServeError, whose message is one line. */
export async function runOperation<N extends OperationName>(
  where: OperatorWhere,
  name: N,
  input: InputOf<N>,
  caller: Caller,
): Promise<OutputOf<N>> {
  if (where.kind === 'address') return callOperation(where.address, name, input, caller);
  const { place } = where;
  if (place.rows.kind === 'postgres') return runHere(place, name, input, caller);
  return runOnFolder(place, place.rows.dataDir, name, input, caller);
}

/** Calls the server that holds the folder, or locks the folder and runs here. If that changes in between, tries the other way. */
async function runOnFolder<N extends OperationName>(
  place: DeploymentPlace,
  dataDir: string,
  name: N,
  input: InputOf<N>,
  caller: Caller,
): Promise<OutputOf<N>> {
  if (!existsSync(dataDir)) {
    throw new ServeError(
      `the data folder ${dataDir} does not exist: name the one that the server serves with --data`,
    );
  }
  // A server that starts or ends holds the folder for a while without answering on its channel.
  const endsAt = performance.now() + 15_000;
  for (;;) {
    try {
      return await callHolder(dataDir, name, input, caller);
    } catch (error) {
      // A read can be repeated; a change may have been made already.
      const isHarmless = error instanceof ConnectionBroken && OPERATIONS[name].method === 'GET';
      if (!(error instanceof NoServer) && !isHarmless) throw error;
      if (caller.signal.aborted) throw error;
    }
    if (!(await hasRows(place.rows))) {
      throw new ServeError(
        `${dataDir} is no data folder of holdfast: name the one that the server serves with --data`,
      );
    }
    try {
      const folder = holdDataFolder(dataDir);
      try {
        return await runHere(place, name, input, caller);
      } finally {
        folder.release();
      }
    } catch (error) {
      if (!(error instanceof FolderInUse)) throw error;
      if (performance.now() > endsAt || caller.signal.aborted) throw error;
      await Bun.sleep(100);
    }
  }
}

async function runHere<N extends OperationName>(
  place: DeploymentPlace,
  name: N,
  input: InputOf<N>,
  caller: Caller,
): Promise<OutputOf<N>> {
  const { signal, onProgress = () => undefined } = caller;
  const { context, close } = await openContext(place);
  try {
    return await runWith({ ...context, signal, report: onProgress }, name, input);
  } finally {
    await close();
  }
}

async function openContext(
  place: DeploymentPlace,
): Promise<{ readonly context: OperatorContext; readonly close: () => Promise<void> }> {
  if (!(await hasRows(place.rows))) {
    throw new ServeError(`${nameRows(place.rows)} holds no deployment: start a server on it first`);
  }
  const config = {
    nodeBytesMax: NODE_BYTES_MAX_DEFAULT,
    activeUploadsMax: ACTIVE_UPLOADS_MAX_DEFAULT,
    uploadTtlMs: UPLOAD_TTL_MS_DEFAULT,
    clockSkewMsMax: CLOCK_SKEW_MS_MAX_DEFAULT,
    keepReplacedMs: KEEP_REPLACED_MS_DEFAULT[place.bytes.kind],
  };
  const log = openLog('fatal');
  let fatal: Error | undefined;
  const deployment = await openDeployment(place, {
    ...{ kind: 'serve', uploadTtlMs: config.uploadTtlMs, workers: 1, worker: 0 },
    // The folder is locked. A database may have other servers.
    isAlone: place.rows.kind === 'folder',
    log,
    onFatal: (error) => {
      fatal ??= error;
    },
  });
  const core = makeCore(
    config,
    deployment,
    new RotatingSigner(await deployment.secret.read(), { now: () => Date.now() }),
    new RottenNodes(() => undefined),
    NO_QUOTAS,
  );
  const registry = administer({
    apps: deployment.apps,
    readTotals: async (appId) => deployment.rows.readAppTotals(appId),
    close: async () => undefined,
  });
  return {
    context: {
      ...{ place, deployment, core, registry, log, live: undefined },
      secret: deployment.secret,
    },
    close: async () => {
      await deployment.close();
      if (fatal !== undefined) throw fatal;
    },
  };
}
