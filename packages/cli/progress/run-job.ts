/** Runs one long job with its view, and ends it well when the user interrupts it. */
import {
  type JobHangError,
  type ProgressEvent,
  type ProgressJob,
  type ProgressReporter,
  startProgress,
} from '@holdfast/client/progress';
import { CliError } from '../cli-error.ts';
import { beforeInterruptionLine, interruption, sayWhenInterrupted } from '../terminal/interruption.ts';
import { jobControl } from '../terminal/job-control.ts';
import { LineView } from './line-view.ts';
import { chooseView } from './progress-view.ts';
import type { ViewOutput } from './view.ts';
import { JsonView } from './view.ts';

export interface JobFlags {
  readonly json?: true;
  readonly quiet?: true;
}

export interface JobContext {
  readonly progress: ProgressReporter;
  /** Fires on Ctrl-C or SIGTERM: the job then has a moment to tidy up. */
  readonly signal: AbortSignal;
}

export interface JobOptions {
  readonly job: ProgressJob;
  /** what it works on, for people */
  readonly subject: string;
  readonly flags: JobFlags;
  /** Completes "interrupted; …": what is kept of the job and how to resume it. */
  readonly whenInterrupted: string;
  /** The output of the view; stderr when left out. */
  readonly output?: ViewOutput | undefined;
}

/** `resultOf` names the hash the job came to, for its last event. Throws what `work` throws. */
export async function runJob<T>(
  { job, subject, flags, whenInterrupted, output = stderrOutput() }: JobOptions,
  work: (context: JobContext) => Promise<T>,
  resultOf: (value: T) => string | undefined = () => undefined,
): Promise<T> {
  const view = chooseView({
    isJson: flags.json === true,
    isQuiet: flags.quiet === true,
    output,
    environment: process.env,
  });
  sayWhenInterrupted(whenInterrupted);
  const hanging = Promise.withResolvers<never>();
  const onHang = ({ message }: JobHangError): void => {
    hanging.reject(
      new CliError(`${message}; please report this with the command you ran; ${whenInterrupted}`),
    );
  };
  const progress = startProgress({ job, subject, onEvent: (event) => view.take(event), onHang });
  // After the signal the job tells nothing more: its view has given the terminal back.
  const forget = beforeInterruptionLine(() => {
    progress.fail(`interrupted; ${whenInterrupted}`);
    view.close();
  });
  try {
    const value = await Promise.race([work({ progress, signal: interruption }), hanging.promise]);
    if (!interruption.aborted) progress.done(resultOf(value));
    return value;
  } catch (error) {
    if (!interruption.aborted) progress.fail(error instanceof Error ? error.message : String(error));
    throw error;
  } finally {
    forget();
    view.close();
  }
}

/** Does `work`, which should be short: waits are shown only when it stalls. */
export async function runShortJob<T>(
  { json, quiet }: JobFlags,
  work: (progress: ProgressReporter) => Promise<T>,
  output = stderrOutput(),
): Promise<T> {
  const isQuiet = quiet === true;
  const view = json ? new JsonView(output, isQuiet) : new LineView(output, isQuiet);
  const onEvent = (event: ProgressEvent): void => {
    if (event.type === 'stall' || event.type === 'resumed' || event.type === 'warning') view.take(event);
  };
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

export function stderrOutput(): ViewOutput {
  return {
    isTTY: process.stderr.isTTY === true,
    get columns() {
      // A terminal that does not know its width says 0.
      return process.stderr.columns || 80;
    },
    jobControl,
    write: (text) => void process.stderr.write(text),
  };
}
