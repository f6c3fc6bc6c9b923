/** Opens the operator listener and the channel in the data folder. */

import { resolve } from 'node:path';
import type { AuditLine } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import { readTotalsOf } from '../core/read/get-usage.ts';
import { Opened } from '../deployment/deployment.ts';
import { administer } from '../deployment/registry.ts';
import { isLoopbackHost } from '../engine/address.ts';
import type { Log } from '../log.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { answerApi } from '../operator/api.ts';
import { openChannel } from '../operator/channel.ts';
import { FolderBackups } from '../operator/folder-backups.ts';
import { GuessThrottle } from '../operator/guess-throttle.ts';
import { createOperatorHandler } from '../operator/handler.ts';
import { HealthSampler } from '../operator/health-sampler.ts';
import { listenForOperators, type OperatorListener } from '../operator/listener.ts';
import type { LiveServer } from '../operator/live-server.ts';
import { LoadHistory } from '../operator/load-history.ts';
import type { OperatorContext } from '../operator/operation.ts';
import { type LoadedTokens, OperatorTokens } from '../operator/operator-tokens.ts';
import { type Check, OK } from '../operator/readiness.ts';
import { makeOwnerCaller } from '../operator/rights.ts';
import { ConsoleSignIn, type SignInCode } from '../operator/sign-in.ts';
import type { ServeConfig } from './config.ts';
import { grantDevAccess } from './dev-app.ts';
import { nameLocalUrl } from './local-address.ts';
import type { OpenServer } from './server.ts';

export interface Operators {
  /** undefined if there is no listener */
  readonly port: number | undefined;
  /** Resolves when no operation is running, or after a limit. Requests are still answered. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

export interface OperatorsOptions {
  readonly config: ServeConfig;
  readonly log: Log;
  readonly server: OpenServer;
  readonly isDraining: () => boolean;
  /** what all processes of this server have counted */
  readonly readSum: () => Promise<MetricsSnapshot>;
  /** the newest lines of the audit log that they have written */
  readonly gatherAudit: (limit: number) => Promise<readonly AuditLine[]>;
  /** of the Space API; called once it listens */
  readonly spaceUrl: () => string;
  readonly signInCode: SignInCode | undefined;
  /** undefined: there is no listener */
  readonly tokens: LoadedTokens | undefined;
  /** the command that starts this holdfast, before its arguments */
  readonly program: readonly string[];
  /** the listener's port in an earlier process; undefined for the configured one */
  readonly port: number | undefined;
}

/** The first of several workers calls this, because it has the deployment open and does the background work. Throws ServeError. */
export async function openOperators(options: OperatorsOptions): Promise<Operators> {
  const { config, log, server } = options;
  const { isDraining } = options;
  const { audit } = server;
  const { rows } = config.place;
  const dataDir = rows.kind === 'folder' ? rows.dataDir : undefined;
  const sampler = new HealthSampler(server.core, server.deployment);
  const history = new LoadHistory(options.readSum);
  const backups = dataDir === undefined ? undefined : new FolderBackups(options.program, resolve(dataDir));
  let listener: OperatorListener | undefined;
  const live: LiveServer = {
    ...{
      startedAt: Date.now(),
      isDraining,
      audit,
      readAudit: options.gatherAudit,
      checks: [...makeChecks(isDraining, audit), ...sampler.checks],
    },
    ...{ workers: config.workers, gcEveryMs: config.gcEveryMs, history, backups },
    stoppedForMs: server.stoppedForMs,
    signIn: openSignIn(options, () => listener),
  };
  const context: OperatorContext = {
    ...{
      place: config.place,
      deployment: server.deployment,
      core: server.core,
      log,
      live,
    },
    secret: server.deployment.secret,
    registry: administer({
      apps: server.deployment.apps,
      readTotals: (appId) => readTotalsOf(server.core, appId),
      close: async () => undefined,
    }),
  };
  const sockets: { pending(): number }[] = [];
  const opened = new Opened();
  opened.add(() => history.stop());
  opened.add(async () => backups?.stop());
  try {
    if (dataDir !== undefined) {
      const channel = openChannel(dataDir, (request, url) =>
        answerApi(context, request, url, makeOwnerCaller()),
      );
      opened.add(() => channel.close());
      sockets.push(channel);
    }
    if (config.operators !== undefined) {
      await sampler.start();
      opened.add(() => sampler.stop());
    }
    const opening = openListener(options, context, live);
    listener = opening;
    if (opening !== undefined) {
      opened.add(() => opening.close());
      sockets.push(opening);
    }
    return {
      port: listener?.port,
      idle: () => {
        backups?.stop();
        return awaitIdle(sockets);
      },
      close: () => opened.close(),
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

function openListener(
  { config, log, readSum, spaceUrl, port, tokens }: OperatorsOptions,
  context: OperatorContext,
  live: LiveServer,
): OperatorListener | undefined {
  const { operators } = config;
  if (operators === undefined || tokens === undefined) return undefined;
  const gatekeepers = {
    ...{ tokens: new OperatorTokens(tokens, log), signIn: live.signIn, throttle: new GuessThrottle() },
  };
  return listenForOperators({
    ...operators,
    ...(port === undefined ? {} : { port, mayMove: false }),
    handle: createOperatorHandler({
      ...{ context, live, gatekeepers, isLoopback: isLoopbackHost(operators.host), readMetrics: readSum },
      consoleReach: { spaceUrl, place: config.place },
    }),
  });
}

/** The console's address is known once the listener has a port. */
function openSignIn(
  { config, signInCode, spaceUrl }: OperatorsOptions,
  findListener: () => OperatorListener | undefined,
): ConsoleSignIn | undefined {
  const { operators, isDev, dataDir } = config;
  if (operators === undefined) return undefined;
  return new ConsoleSignIn({
    nameUrl: () => nameLocalUrl(operators.host, findListener()?.port ?? operators.port),
    grantSpace: isDev ? () => grantDevAccess(dataDir, spaceUrl()) : undefined,
    code: signInCode,
  });
}

/** Resolves when no request is in progress, or at the time limit of a drain. */
async function awaitIdle(sockets: readonly { pending(): number }[]): Promise<void> {
  // The server must end within 15 s.
  const endsAt = performance.now() + 12_000;
  while (sockets.some((socket) => socket.pending() > 0) && performance.now() < endsAt) {
    await Bun.sleep(25);
  }
}

function makeChecks(isDraining: () => boolean, audit: AuditLog | undefined): readonly Check[] {
  return [
    {
      name: 'draining',
      look: () => (isDraining() ? { status: 'fail', message: 'the server is ending' } : OK),
    },
    {
      name: 'audit',
      look: () => {
        const reason = audit?.failure;
        return reason === undefined ? OK : { status: 'fail', message: `the audit log fails: ${reason}` };
      },
    },
  ];
}
