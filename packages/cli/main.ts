/** The process behind `holdfast`: runs one command and turns its outcome into an exit code. */
import { writeSync } from 'node:fs';
import { type Command, CommanderError } from 'commander';
import { CliError, type ExitCode, UsageError } from './cli-error.ts';
import { describeFileError } from './files.ts';
import { isStdoutMissing } from './inherited-descriptors.ts';
import { buildProgram, expandHelp, separateVariadicValues } from './program.ts';
import { sayingWhileRead } from './progress/waits.ts';
import { interruption, untilInterrupted, watchForInterruption } from './terminal/interruption.ts';
import { isOneLinePrinted, lastPrintedLine, printable, printFailure } from './terminal/output.ts';
import { nameOf } from './usage-words.ts';

/** Follows every write on `stream` to its own end: a later end or an `error` event says nothing of the earlier ones. */
class WrittenOutput {
  #pending = 0;
  #error: Error | undefined;
  #onSettled: () => void = () => undefined;

  constructor(stream: NodeJS.WriteStream) {
    const write = stream.write.bind(stream) as (
      chunk: string | Uint8Array,
      encoding: BufferEncoding | undefined,
      done: (error?: Error | null) => void,
    ) => boolean;
    stream.write = (
      chunk: string | Uint8Array,
      encodingOrDone?: BufferEncoding | ((error?: Error | null) => void),
      done?: (error?: Error | null) => void,
    ): boolean => {
      const [encoding, tell] =
        typeof encodingOrDone === 'function' ? [undefined, encodingOrDone] : [encodingOrDone, done];
      this.#pending += 1;
      return write(chunk, encoding, (error) => {
        this.#pending -= 1;
        this.#error ??= error ?? undefined;
        tell?.(error);
        if (this.#pending === 0) this.#onSettled();
      });
    };
  }

  /** Resolves when nothing is on its way any more: with the first failure, if there was one. */
  async settled(): Promise<Error | undefined> {
    while (this.#pending > 0) {
      await new Promise<void>((resolve) => {
        this.#onSettled = resolve;
      });
    }
    return this.#error;
  }
}

/** Arguments that may hold a path whose text is not enough, or is not what was given; most commands do without the code for those. */
const TO_BE_FOLLOWED = /\.\.(?:\/|$)|\/\.?$|\ufffd/;
const URL_AS_FOLDER = /--data[= ][a-z][a-z0-9+.-]*:\/\//i;

const ENDING_ITSELF: ReadonlySet<string> = new Set([
  'holdfast serve',
  'holdfast gateway cache',
  'holdfast gateway webdav',
  'holdfast mount',
  'holdfast mcp',
]);

/** The command whose action has begun. */
let running: Command | undefined;

async function run(args: readonly string[]): Promise<ExitCode> {
  try {
    const program = await buildProgram(args);
    // A server and a door have their own way to end: they drain.
    program.hook('preAction', async (_, command) => {
      running = command;
      if (!ENDING_ITSELF.has(nameOf(command))) watchForInterruption();
      const given = [...args, `--data=${process.env.HOLDFAST_DATA ?? ''}`];
      if (given.some((text) => TO_BE_FOLLOWED.test(text)) || URL_AS_FOLDER.test(given.join(' ')))
        (await import('./trees/given-path.ts')).settlePaths(command);
    });
    const expanded = expandHelp(program, separateVariadicValues(program, args));
    await program.parseAsync(expanded, { from: 'user' });
    return 0;
  } catch (error) {
    // The command failed because of the signal, and what is kept has been said already.
    if (interruption.aborted) return 1;
    // Commander has already printed its own line, or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const message = error instanceof Error ? error.message : String(error);
    const advice = error instanceof CliError ? '' : adviceFor(error);
    const pointer =
      error instanceof UsageError && running !== undefined ? `; see ${nameOf(running)} --help` : '';
    printFailure(`${message}${advice}${pointer}`);
    return error instanceof CliError ? error.exitCode : 1;
  }
}

/** The disk or the kernel may refuse any call. */
function adviceFor(error: unknown): string {
  const { code, syscall } = Object(error) as { code?: unknown; syscall?: unknown };
  const isOfSystem = typeof code === 'string' && typeof syscall === 'string';
  return isOfSystem
    ? ': the system refused this; check the disk and the limits of this process, and run the command again'
    : ' (unexpected: please report this with the command you ran)';
}

const stdout = new WrittenOutput(process.stdout);
const stderr = new WrittenOutput(process.stderr);
let exitCode: ExitCode | undefined;
/** Commands whose exit code says what they found, or that what they wrote is whole. */
const JUDGING: ReadonlySet<string> = new Set(['holdfast verify', 'holdfast check', 'holdfast bundle create']);
/** Commands that only show, perhaps very much: they end with their reader (`| head -1`). */
const SHOWING: ReadonlySet<string> = new Set(
  ['cat', 'diff', 'ls', 'node get', 'refs list', 'tree'].map((name) => `holdfast ${name}`),
);

/** A lost result is a failure: a root hash would be lost silently. */
function exitOnFailedWrite(error: NodeJS.ErrnoException): void {
  // The reader may have got the same Ctrl-C. This process then ends by the signal.
  if (interruption.aborted) return;
  if (error.code === 'EPIPE') {
    endWithoutReader();
    return;
  }
  // At once: the process ends here, and stderr is not waited for.
  const line = `stdout cannot be written: ${describeFileError(error)}; then run the command again${describeLostLine()}`;
  writeAtOnce(`holdfast: ${printable(line)}\n`);
  process.exit(1);
}

/**
 * A reader that went away makes only JUDGING commands fail. SHOWING commands end with it. All others end what they began, so that
 * their exit code stays true.
 */
function endWithoutReader(): void {
  const name = exitCode === undefined && running !== undefined ? nameOf(running) : undefined;
  if (name !== undefined && JUDGING.has(name)) {
    writeAtOnce('holdfast: stdout was closed before the command finished; run it again\n');
    process.exit(1);
  }
  if (name !== undefined && !SHOWING.has(name)) return;
  // A reader such as `head -1` has taken the first line of several.
  const lost = isOneLinePrinted() ? describeLostLine() : '';
  if (lost !== '') writeAtOnce(`holdfast: nobody reads stdout${printable(lost)}\n`);
  process.exit(exitCode ?? 0);
}

/** A command that did its work may have been the one to do it: its result is not lost with stdout. */
function describeLostLine(): string {
  const line = lastPrintedLine();
  // A longer text is no hash or id.
  return (exitCode === 0 || exitCode === 3) && line !== '' && line.length <= 200
    ? `. Its last line was: ${line}`
    : '';
}

function writeAtOnce(text: string): void {
  try {
    writeSync(process.stderr.fd, text);
  } catch {
    // There is nobody left to tell; the exit code does.
  }
}

process.stdout.on('error', exitOnFailedWrite);
// Messages on stderr are for people. If nobody can read them, the work goes on, and the exit code says how it ended.
process.stderr.on('error', () => undefined);
const flush = (): Promise<(Error | undefined)[]> => Promise.all([stdout.settled(), stderr.settled()]);
/** Writing the last of a result to a slow reader is part of the command: a signal ends that too. */
async function runAndFlush(): Promise<void> {
  exitCode = await run(process.argv.slice(2));
  const [failure] = await sayingWhileRead(flush);
  if (failure !== undefined) exitOnFailedWrite(failure);
  const lost = describeLostLine();
  if (lost !== '' && isStdoutMissing()) writeAtOnce(`holdfast: stdout is closed${printable(lost)}\n`);
}
await untilInterrupted(runAndFlush(), flush);
process.exit(exitCode);
