/** The two kinds of failure of the command line: a command that failed (1), and a command line that is wrong (2). */

export type ExitCode = 0 | 1 | 2;

/**
 * A failure the user can act on. `message` is one line that says what happened and what to do; it never holds a token or
 * a key. Ends the process with exit code 1.
 */
export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: ExitCode = 1;
}

/** Wrong usage found after the arguments were parsed, such as two options that exclude each other. Exit code 2. */
export class UsageError extends CliError {
  override readonly name: string = 'UsageError';
  override readonly exitCode: ExitCode = 2;
}
