/** How a command can end but well: it failed (1), its command line is wrong (2), or it left something out (3). */

export type ExitCode = 0 | 1 | 2 | 3;

/** A failure the user can act on, exit code 1. `message`: what happened and what to do, in one line, without tokens or keys. */
export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: ExitCode = 1;
}

/** Runs `work`. What it throws of kind `From` becomes an error of kind `To` with the same message. */
export function restating<T>(
  work: () => T,
  From: abstract new (...given: never[]) => Error,
  To: new (message: string) => Error,
): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof From ? new To(error.message) : error;
  }
}

/** Wrong usage found after the arguments were parsed, such as two options that exclude each other. Exit code 2. */
export class UsageError extends CliError {
  override readonly name: string = 'UsageError';
  override readonly exitCode: ExitCode = 2;
}

/** The command has done its work, but for what it left out and has named. Exit code 3. */
export class LeftOutError extends CliError {
  override readonly name: string = 'LeftOutError';
  override readonly exitCode: ExitCode = 3;
}
