/** `holdfast serve`: runs a server until a signal ends it. */

import { PRIVATE_UMASK } from '@holdfast/protocol';
import { type HeldDataFolder, holdDataFolder } from '../deployment/data-folder.ts';
import { type FolderModes, tightenModes } from '../deployment/folder-owner.ts';
import { watchFolder } from '../deployment/watch-folder.ts';
import { formatAuthority } from '../engine/address.ts';
import { type Log, openLog } from '../log.ts';
import { LOG_DROPPED } from '../metrics/server-metrics.ts';
import { makeSignInCode, nameLink, type SignInCode } from '../operator/sign-in.ts';
import type { ServeConfig } from './config.ts';
import { type DevApp, type KeepAccess, openDevApp } from './dev-app.ts';
import { nameLocalUrl, nameSpaceUrl } from './local-address.ts';
import { loadGivenTokens, makeToken } from './operator-tokens.ts';
import { FATAL_EXIT_CODE, type ServingProcess, startServing } from './serving-process.ts';
import { type StartedProgram, startSupervising } from './supervisor.ts';
import { findUnknownVariables, listServeVariables } from './variables.ts';

const ENDED = 'a signal ended the start';

export interface ServingProgram extends StartedProgram {
  /** what a person types before the command */
  readonly name: string;
  /** variables that its other commands read */
  readonly otherVariables: readonly string[];
  readonly keepAccess: KeepAccess;
}

/** Serves until SIGTERM or SIGINT, then drains; a second signal ends the process at once. `printLine`: to stdout. Throws ServeError. */
export async function serve(
  config: ServeConfig,
  program: ServingProgram,
  printLine: (line: string) => void,
): Promise<void> {
  process.umask(PRIVATE_UMASK);
  const log = openLog(config.logLevel, {}, (lines) => LOG_DROPPED.add(lines));
  // Installed first, so that a signal during the start is not lost.
  const told = awaitSignal();
  // A log rotation during the start must not end the server.
  if (config.audit !== undefined) process.on('SIGHUP', () => undefined);
  // No folder is created for a server that cannot start. A pipe may deliver its tokens late or never.
  const givenTokens = await Promise.race([loadGivenTokens(config), told.then((): typeof ENDED => ENDED)]);
  if (givenTokens === ENDED) return;
  const folder = holdFolder(config);
  endAfter(told, log);
  try {
    const devApp = config.isDev ? await openDevApp(config.dataDir, config.place.rows) : undefined;
    const signInCode = config.isDev ? makeSignInCode() : undefined;
    const tokens = config.operators && (givenTokens ?? (await makeToken(config, log)));
    const serving =
      config.workers === 1
        ? await startServing(config, log, {
            ...{ worker: 0, port: config.port, isAlone: true, signInCode, tokens, program: program.command },
          })
        : await startSupervising(config, log, program, { signInCode, tokens });
    const stopWatching = await watchServedFolder(config, log);
    if (config.audit !== undefined) process.on('SIGHUP', () => serving.reopenAudit());
    for (const line of await describeServer(config, serving, program, { devApp, signInCode }))
      printLine(line);
    const { host, workers, place } = config;
    const stores = { rows: place.rows.kind, bytes: place.bytes.kind };
    log.info({ host, port: serving.port, workers, ...stores }, 'listening');
    // Not earlier: a failed start prints only its own line.
    warnOfUnknownVariables(log, program.otherVariables);
    if (folder !== undefined) warnOfModes(log, folder.modes);
    log.info({ signal: await told }, 'draining');
    stopWatching?.();
    await serving.end();
    log.info('ended');
  } finally {
    folder?.release();
  }
}

/** A mistyped variable would silently have no effect. */
function warnOfUnknownVariables(log: Log, otherVariables: readonly string[]): void {
  const known = [...listServeVariables(), ...otherVariables];
  for (const { name, meant } of findUnknownVariables(process.env, known)) {
    log.warn({ variable: name, meant }, 'nothing reads this variable');
  }
}

/** Returns undefined for rows in PostgreSQL: no folder is used, and any number of servers may run. */
function holdFolder({
  place: { rows },
  workers,
}: ServeConfig): (HeldDataFolder & { readonly modes: FolderModes }) | undefined {
  if (rows.kind !== 'folder') return undefined;
  const held = holdDataFolder(rows.dataDir, { withWorkers: workers > 1 });
  return { ...held, modes: tightenModes(rows.dataDir) };
}

/** Workers end with this process. */
async function watchServedFolder(
  { place: { rows }, workers }: ServeConfig,
  log: Log,
): Promise<(() => void) | undefined> {
  if (rows.kind !== 'folder') return undefined;
  return watchFolder(rows.dataDir, workers > 1, (path) => {
    log.fatal(
      { path },
      'the data folder or a file of it is gone, or another one is in its place: the server ends, because nothing would be kept; bring it back (is its disk mounted?) and start again',
    );
    process.exit(FATAL_EXIT_CODE);
  });
}

function warnOfModes(log: Log, { tightened, open }: FolderModes): void {
  if (tightened.length > 0)
    log.warn({ paths: tightened }, 'other users of this machine could read these; now they cannot');
  if (open.length > 0)
    log.warn({ paths: open }, 'other users of this machine can look into these: check owner and mode');
}

async function describeServer(
  config: ServeConfig,
  { port, operatorPort }: ServingProcess,
  program: ServingProgram,
  {
    devApp,
    signInCode,
  }: { readonly devApp: DevApp | undefined; readonly signInCode: SignInCode | undefined },
): Promise<readonly string[]> {
  const lines = [`holdfast listening on http://${formatAuthority(config.host, port)}`];
  const { operators } = config;
  let consoleLink: string | undefined;
  if (operators !== undefined && operatorPort !== undefined) {
    lines.push(`operators: http://${formatAuthority(operators.host, operatorPort)}`);
    if (signInCode !== undefined)
      consoleLink = nameLink(nameLocalUrl(operators.host, operatorPort), signInCode.code);
  }
  if (devApp === undefined) return lines;
  const url = nameSpaceUrl(config, port);
  return [
    ...lines,
    ...(await devApp.describe({ url, program: program.name, consoleLink, keepAccess: program.keepAccess })),
  ];
}

/** A store, or a file that the start reads, may never answer. Acknowledged data is durable, as after a kill. */
function endAfter(told: Promise<NodeJS.Signals>, log: Log): void {
  told.then(() =>
    setTimeout(() => {
      log.warn('ended without waiting for what does not answer');
      process.exit(0);
      // It is longer than a drain, and the server must end within 15 s.
    }, 14_500).unref(),
  );
}

function awaitSignal(): Promise<NodeJS.Signals> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let isTold = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isTold) process.exit(1);
    isTold = true;
    resolve(signal);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return promise;
}
