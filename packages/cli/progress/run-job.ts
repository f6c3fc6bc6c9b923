/** Runs one long job with its view, and ends it well when the user interrupts it. */
import {
  type JobHangError,
  type ProgressEvent,
  type ProgressJob,
  type ProgressReporter,
  startProgress,
} from '@holdfast/client';
import { CliError } from '../cli-error.ts';
import { JsonView } from './json-view.ts';
import { LineView } from './line-view.ts';
import { chooseView } from './progress-view.ts';
import { StallView } from './stall-view.ts';
import type { ViewOutput } from './view.ts';

export interface JobFlags {
  readonly json?: true;
  readonly quiet?: true;
}

export interface JobContext {
  readonly progress: ProgressReporter;
  /** Fires on Ctrl-C or SIGTERM; the job then rejects with its reason. */
  readonly signal: AbortSignal;
}

export interface JobOptions {
  readonly job: ProgressJob;
  /** what it works on, for people */
  readonly subject: string;
  readonly flags: JobFlags;
  /** How an interrupted job is taken up again, as the end of a sentence. */
  readonly toContinue: string;
  /** Where the view is shown; stderr when left out. */
  readonly output?: ViewOutput | undefined;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** After the second Ctrl-C nothing is waited for. The contract knows 1 for all that was not done. */
const EXIT_INTERRUPTED = 1;

/** `resultOf` names the hash the job came to, for its last event. Throws what `work` throws, CliError when interrupted. */
export async function runJob<T>(
  { job, subject, flags, toContinue, output = stderrOutput() }: JobOptions,
  work: (context: JobContext) => Promise<T>,
  resultOf: (value: T) => string | undefined = () => undefined,
): Promise<T> {
  const view = chooseView({
    isJson: flags.json === true,
    isQuiet: flags.quiet === true,
    output,
    environment: process.env,
  });
  const interrupting = new AbortController();
  const onSignal = (): void => {
    if (interrupting.signal.aborted) {
      view.close();
      process.exit(EXIT_INTERRUPTED);
    }
    interrupting.abort(new CliError(`interrupted; ${toContinue}`));
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const hanging = Promise.withResolvers<never>();
  const onHang = ({ message }: JobHangError): void => {
    hanging.reject(
      new CliError(`${message}; please report this with the command you ran, and ${toContinue}`),
    );
  };
  const progress = startProgress({ job, subject, onEvent: (event) => view.take(event), onHang });
  try {
    const value = await Promise.race([work({ progress, signal: interrupting.signal }), hanging.promise]);
    progress.done(resultOf(value));
    return value;
  } catch (error) {
    progress.fail(error instanceof Error ? error.message : String(error));
    throw error;
  } finally {
    view.close();
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

/** Does `work`, which should be short: what it waits for is said only once it stands still. */
export async function runShortJob<T>(
  flags: Pick<JobFlags, 'json'>,
  work: (progress: ProgressReporter) => Promise<T>,
): Promise<T> {
  const output = stderrOutput();
  const view = new StallView(flags.json ? new JsonView(output, false) : new LineView(output, false));
  const onEvent = (event: ProgressEvent): void => view.take(event);
  const progress = startProgress({ job: 'read', subject: '', onEvent, stallsOnWaitsOnly: true });
  try {
    const value = await work(progress);
    progress.done();
    return value;
  } catch (error) {
    progress.fail(error instanceof Error ? error.message : String(error));
    throw error;
  }
}

function stderrOutput(): ViewOutput {
  return {
    isTTY: process.stderr.isTTY === true,
    get columns() {
      // A terminal that does not know its width says 0.
      return process.stderr.columns || 80;
    },
    write: (text) => void process.stderr.write(text),
  };
}
