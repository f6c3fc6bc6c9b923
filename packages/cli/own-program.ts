/** How this very program is started once more: to begin with other variables, or as a worker of a server. */
import { existsSync } from 'node:fs';

/** The running program by whatever path, also after an upgrade has put another file in its place. */
const RUNNING_PROGRAM = '/proc/self/exe';

/** The first word of a worker's command line. It is no command: a worker also needs the channel to its server. */
export const WORKER_ARGUMENT = 'serve-worker';

/** The program and the arguments that come before those of the command. */
export function findOwnProgram(): readonly [string, ...string[]] {
  if (Bun.isStandaloneExecutable) {
    return [existsSync(RUNNING_PROGRAM) ? RUNNING_PROGRAM : process.execPath];
  }
  return [process.execPath, ...process.execArgv, process.argv[1] ?? ''];
}
