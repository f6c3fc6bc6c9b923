/** Plain lines for logs and pipes: one every few seconds, and when something begins or ends. A failure is left to the command's line. */
import type { ProgressEvent, ProgressJob, ProgressPhase } from '@holdfast/client/internal';
import { printable } from '../terminal/output.ts';
import {
  describeAmounts,
  describeEnd,
  describePhase,
  describeRates,
  describeStall,
  describeStallTime,
  formatTime,
  type Stall,
} from './format-progress.ts';
import { JobRates } from './job-rates.ts';
import { isSaidWhenQuiet, LINE_INTERVAL_MS, type ProgressView, type ViewOutput } from './view.ts';

export class LineView implements ProgressView {
  readonly #output: ViewOutput;
  /** only what is said with `--quiet` */
  readonly #isQuiet: boolean;
  readonly #rates = new JobRates();
  #job: ProgressJob = 'push';
  #phase: ProgressPhase | undefined;
  #saidAt = 0;
  /** the last that was said */
  #stall: Stall | undefined;
  /** said before the first line there is */
  #title: string | undefined;

  constructor(output: ViewOutput, isQuiet: boolean) {
    this.#output = output;
    this.#isQuiet = isQuiet;
  }

  take(event: ProgressEvent): void {
    switch (event.type) {
      case 'warning':
        this.#write(`warning: ${event.message}`);
        break;
      case 'start':
        this.#job = event.job;
        this.#saidAt = event.at;
        this.#title = `${event.job} ${event.subject}`;
        break;
      case 'progress':
        this.#takeProgress(event);
        break;
      case 'stall':
        if (!this.#isQuiet) this.#say(this.#describeStall(event));
        else if (isSaidWhenQuiet(event)) this.#write(this.#describeStall(event));
        break;
      case 'resumed':
        this.#say(`going on after ${formatTime(event.stalledMs)}`);
        break;
      case 'done':
        this.#say(`done: ${describeEnd(this.#job, event.counters, event.elapsedMs)}`);
        break;
      case 'failed':
        // The command's own last line says what failed.
        if (this.#title === undefined)
          this.#say(`stopped: ${describeEnd(this.#job, event.counters, event.elapsedMs)}`);
        break;
    }
  }

  close(): void {
    // Nothing was changed.
  }

  #takeProgress(event: Extract<ProgressEvent, { type: 'progress' }>): void {
    const rates = this.#rates.add(event.at, event);
    const isNewPhase = event.phase !== this.#phase && this.#phase !== undefined;
    this.#phase = event.phase;
    // A phase that follows so soon is not worth a line.
    if (event.at - this.#saidAt < (isNewPhase ? 1_000 : LINE_INTERVAL_MS)) return;
    this.#saidAt = event.at;
    const parts = [
      describeAmounts(this.#job, event),
      describeRates(rates),
      event.phase === 'commit' ? '' : shortenItem(event.item ?? ''),
    ];
    const known = parts.filter((part) => part !== '').join(', ');
    this.#say(`${describePhase(this.#job, event)}: ${known}`);
  }

  /** A cause is said once: a job may wait for minutes, and a sentence every few seconds would bury the rest of a log. */
  #describeStall(event: Stall): string {
    const isKnown = event.sinceAt === this.#stall?.sinceAt && event.cause === this.#stall.cause;
    this.#stall = event;
    return isKnown ? describeStallTime(event) : describeStall(event);
  }

  #say(line: string): void {
    if (this.#isQuiet) return;
    if (this.#title !== undefined) this.#write(this.#title);
    this.#title = undefined;
    this.#write(line);
  }

  #write(line: string): void {
    this.#output.write(`${printable(line)}\n`);
  }
}

function shortenItem(item: string): string {
  const characters = [...item];
  // A path may have thousands of characters. Its end says where the job is.
  if (characters.length <= 200) return item;
  return `…${characters.slice(-199).join('')}`;
}
