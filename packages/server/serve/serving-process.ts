/** One process that serves: a single server, or one of several workers. */

import type { AuditLine } from '../audit/audit-event.ts';
import type { Log } from '../log.ts';
import { watchProcess } from '../metrics/process-metrics.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS, WORKERS } from '../metrics/server-metrics.ts';
import type { LoadedTokens } from '../operator/operator-tokens.ts';
import type { SignInCode } from '../operator/sign-in.ts';
import type { ServeConfig } from './config.ts';
import { type Listener, listen } from './listener.ts';
import { nameSpaceUrl } from './local-address.ts';
import { type Operators, openOperators } from './operators.ts';
import { type OpenServer, type OpenServerOptions, openServer } from './server.ts';

/** The exit code after a broken invariant or a write of unknown outcome: the supervisor starts the process again. */
export const FATAL_EXIT_CODE = 70;

export interface ServingProcess {
  readonly port: number;
  /** The metrics of all processes of this server. */
  readMetrics(): Promise<MetricsSnapshot>;
  /** of the listener for operators; undefined: there is none in this process */
  readonly operatorPort: number | undefined;
  /** The audit log file was moved away: the next line goes to a new one. */
  reopenAudit(): void;
  /** Drains, then closes everything. Further calls wait for the same drain. */
  end(): Promise<void>;
}

export interface OneServingProcess extends ServingProcess {
  /** The newest lines of the audit log that this process has written, the newest first. */
  readAudit(limit: number): readonly AuditLine[];
}

export interface ServingPlace extends Pick<OpenServerOptions, 'worker' | 'isAlone' | 'timeOrigin'> {
  /** 0: any free port */
  readonly port: number;
  /** the command that starts this holdfast, before its arguments */
  readonly program: readonly string[];
  /** the operator listener's port in an earlier process */
  readonly operatorPort?: number | undefined;
  /** of the console's one-time link; undefined if there is none or an earlier process had it */
  readonly signInCode?: SignInCode | undefined;
  /** of operators; undefined: there is no listener for them */
  readonly tokens?: LoadedTokens | undefined;
  /** what all processes of this server have counted; left out: there is no other */
  readonly readSum?: () => Promise<MetricsSnapshot>;
  /** the newest lines that all processes of this server have written; left out: there is no other */
  readonly gatherAudit?: (limit: number) => Promise<readonly AuditLine[]>;
}

/** Throws ServeError. */
export async function startServing(
  config: ServeConfig,
  log: Log,
  place: ServingPlace,
): Promise<OneServingProcess> {
  const onFatal = (error: Error): never => {
    log.fatal({ err: error }, 'the server ends now: a restart continues from what is durable');
    process.exit(FATAL_EXIT_CODE);
  };
  const { worker, isAlone, timeOrigin } = place;
  const server = await openServer({ config, log, onFatal, worker, isAlone, timeOrigin });
  let ending: Promise<void> | undefined;
  const isDraining = (): boolean => ending !== undefined;
  const readMetrics = async (): Promise<MetricsSnapshot> => METRICS.snapshot();
  const readAudit = (limit: number): readonly AuditLine[] => server.audit?.recent(limit) ?? [];
  const gatherHere = async (limit: number): Promise<readonly AuditLine[]> => readAudit(limit);
  const { readSum = readMetrics, gatherAudit = gatherHere, operatorPort, signInCode, tokens } = place;
  let listener: Listener;
  let operators: Operators | undefined;
  try {
    // The first of several workers has them.
    if (place.worker === 0) {
      operators = await openOperators({
        ...{ config, log, server, isDraining, readSum, gatherAudit, port: operatorPort, signInCode, tokens },
        program: place.program,
        spaceUrl: () => nameSpaceUrl(config, listener.port),
      });
    }
    listener = listen(config, place.port, server);
  } catch (error) {
    await operators?.close();
    await server.close();
    throw error;
  }
  const stopWatching = watchProcess();
  WORKERS.set(1);
  return {
    port: listener.port,
    operatorPort: operators?.port,
    readMetrics,
    readAudit,
    reopenAudit: () => server.audit?.reopen(),
    end: () => {
      ending ??= endServing(listener, operators, server).finally(stopWatching);
      return ending;
    },
  };
}

async function endServing(
  listener: Listener,
  operators: Operators | undefined,
  server: OpenServer,
): Promise<void> {
  // Requests in progress still need the engines. Background work ends meanwhile.
  void server.background.stop();
  await Promise.all([listener.drain(), operators?.idle()]);
  // Last, so that probes learn of the drain.
  await operators?.close();
  await server.close();
}
