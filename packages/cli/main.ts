/** The process behind `holdfast`: runs one command and turns its outcome into an exit code. */
import { CommanderError } from 'commander';
import { CliError, type ExitCode } from './cli-error.ts';
import { printable, printNote } from './output.ts';
import { buildProgram, separateVariadicValues } from './program.ts';

async function run(args: readonly string[]): Promise<ExitCode> {
  try {
    const program = buildProgram();
    await program.parseAsync(separateVariadicValues(program, args), { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has already printed its own line, or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const message = error instanceof Error ? error.message : String(error);
    const advice =
      error instanceof CliError ? '' : ' (unexpected: please report this with the command you ran)';
    printNote(`holdfast: ${printable(message)}${advice}`);
    return error instanceof CliError ? error.exitCode : 1;
  }
}

/** A reader that went away (`holdfast app list | head -1`) is not an error of ours. */
function exitQuietlyOnClosedPipe(stream: NodeJS.WriteStream): void {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    process.exit(error.code === 'EPIPE' ? 0 : 1);
  });
}

/** Resolves when everything written so far has left the process: exiting earlier could cut a pipe short. */
function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()));
}

exitQuietlyOnClosedPipe(process.stdout);
exitQuietlyOnClosedPipe(process.stderr);
const exitCode = await run(process.argv.slice(2));
await Promise.all([drained(process.stdout), drained(process.stderr)]);
process.exit(exitCode);
