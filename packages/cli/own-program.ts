/** How this very program is started once more: to begin with other variables, as a worker of a server, or by a person. */

/** The running program by whatever path, also after an upgrade has put another file in its place. */
const RUNNING_PROGRAM = '/proc/self/exe';

/** The first word of a worker's command line. It is no command: a worker also needs the channel to its server. */
export const WORKER_ARGUMENT = 'serve-worker';

/** The program and the arguments that come before those of the command. */
export function findOwnProgram(): readonly [string, ...string[]] {
  if (Bun.isStandaloneExecutable) return [RUNNING_PROGRAM];
  return [process.execPath, ...process.execArgv, process.argv[1] ?? ''];
}

/** The words that a person types before the command. */
export function nameOwnProgram(): string {
  if (Bun.isStandaloneExecutable) return process.argv0;
  // Sources run in a checkout alone; a package has built files, and npm puts its command on the PATH.
  return import.meta.path.endsWith('.ts') ? 'npx holdfast' : 'holdfast';
}
