/** A view of a job, what it writes on, and the view that only passes events on. */
import type { ProgressEvent } from '@holdfast/client';
import type { JobControl } from '../terminal/job-control.ts';

export interface ProgressView {
  take(event: ProgressEvent): void;
  /** Leaves the terminal as it was found. Safe to call more than once, also from a handler of a signal. */
  close(): void;
}

/** The output of a view: stderr, or a test's memory. */
export interface ViewOutput {
  readonly isTTY: boolean;
  /** of the terminal */
  readonly columns: number;
  /** Left out where no shell stops the process. */
  readonly jobControl?: JobControl | undefined;
  write(text: string): void;
}

/** The view with `--quiet`. */
export function isSaidWhenQuiet(event: ProgressEvent): boolean {
  // A short stall is not said where the user asked for quiet.
  if (event.type === 'stall') return event.at - event.sinceAt >= 60_000;
  return event.type === 'warning';
}

/** Between two lines that say how far a job is. */
export const LINE_INTERVAL_MS = 5_000;
/** A narrower terminal gets lines of this width. */
export const COLUMNS_MIN = 20;

export class JsonView implements ProgressView {
  readonly #output: ViewOutput;
  readonly #isQuiet: boolean;

  constructor(output: ViewOutput, isQuiet: boolean) {
    this.#output = output;
    this.#isQuiet = isQuiet;
  }

  take(event: ProgressEvent): void {
    if (this.#isQuiet && !isSaidWhenQuiet(event)) return;
    this.#output.write(`${JSON.stringify(event)}\n`);
  }

  close(): void {
    // Nothing was changed.
  }
}
