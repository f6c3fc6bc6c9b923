/** A copy of a deployment on stderr: one line that moves on a terminal, lines where it is piped, events with `--json`. */
import { countOf, formatBytes, formatCount } from '@holdfast/protocol';
import type { TransferEvent } from '@holdfast/server';
import { printable } from '../terminal/output.ts';
import { describeRates, formatTime } from './format-progress.ts';
import { JobRates } from './job-rates.ts';
import type { ViewOptions } from './progress-view.ts';
import { COLUMNS_MIN, LINE_INTERVAL_MS, type ViewOutput } from './view.ts';

type Progress = Extract<TransferEvent, { type: 'progress' }>;

const ERASE_LINE = '\r\u001b[K';

const PHASES: Readonly<Record<Progress['phase'], string>> = { copy: 'copying', verify: 'verifying' };
const OUTCOMES = {
  rotten: 'it arrives as damaged; lease it and upload its bytes again to heal it',
  waiting: 'it is copied without them, and a read will find it damaged',
  'upload-again': 'its upload has to be repeated',
} as const;

export class TransferView {
  readonly #output: ViewOutput;
  readonly #isJson: boolean;
  readonly #isQuiet: boolean;
  readonly #isLive: boolean;
  #rates = new JobRates();
  #phase: Progress['phase'] | undefined;
  #saidAt = 0;
  #isLineOpen = false;
  /** Continued in the background: the line where the cursor stands is the shell's. */
  #isBehind = false;
  #forgetStops: (() => void) | undefined;

  constructor({ isJson, isQuiet, output, environment }: ViewOptions) {
    this.#output = output;
    this.#isJson = isJson;
    this.#isQuiet = isQuiet;
    this.#isLive = output.isTTY && environment.TERM !== 'dumb' && !isQuiet;
  }

  take(event: TransferEvent): void {
    const isNews = event.type === 'damaged' || event.type === 'retry';
    if (this.#isQuiet && !isNews) return;
    if (this.#isJson) this.#output.write(`${JSON.stringify(event)}\n`);
    else if (event.type === 'progress') this.#takeProgress(event);
    else {
      const line = describeEvent(event);
      if (line !== undefined) this.#say(line);
    }
  }

  /** Leaves the terminal on a line of its own. */
  close(): void {
    this.#leaveLine();
    this.#forgetStops?.();
    this.#forgetStops = undefined;
  }

  #leaveLine(): void {
    if (this.#isLineOpen) this.#output.write('\n');
    this.#isLineOpen = false;
  }

  #onContinue(): void {
    this.#isLineOpen = false;
    this.#isBehind = this.#output.jobControl?.isInBackground() === true;
  }

  /** A shell may bring a job that runs to the front without a signal, so it is asked at each drawing. */
  #draw(line: string): void {
    this.#forgetStops ??= this.#output.jobControl?.watch({
      onStop: () => this.#leaveLine(),
      onContinue: () => this.#onContinue(),
    });
    if (this.#isBehind) this.#isBehind = this.#output.jobControl?.isInBackground() === true;
    if (this.#isBehind) return;
    const columns = Math.max(COLUMNS_MIN, this.#output.columns) - 1;
    this.#output.write(`${ERASE_LINE}${printable(line).slice(0, columns)}`);
    this.#isLineOpen = true;
  }

  #takeProgress(event: Progress): void {
    const isNewPhase = event.phase !== this.#phase;
    if (isNewPhase) this.#rates = new JobRates();
    this.#phase = event.phase;
    const rates = describeRates(this.#rates.add(event.at, toSnapshot(event)));
    const interval = this.#isLive ? 100 : LINE_INTERVAL_MS;
    if (!isNewPhase && event.at - this.#saidAt < interval) return;
    this.#saidAt = event.at;
    const amounts = [describeAmounts(event), rates].filter((part) => part !== '').join(', ');
    const line = `${PHASES[event.phase]}: ${amounts}`;
    if (this.#isLive) this.#draw(line);
    else this.#say(line);
  }

  #say(line: string): void {
    this.#output.write(`${this.#isLineOpen ? ERASE_LINE : ''}${printable(line)}\n`);
    this.#isLineOpen = false;
  }
}

function describeEvent(event: Exclude<TransferEvent, Progress>): string | undefined {
  switch (event.type) {
    case 'start': {
      const what = describeDeployment(event.totals);
      return `${event.isResumed ? 'going on with' : 'copying'} ${what}`;
    }
    case 'damaged': {
      const { space, hash, reason, outcome } = event;
      const where = `Space ${JSON.stringify(space.spaceId)} of App ${JSON.stringify(space.appId)}`;
      return `warning: node ${hash} in ${where}: the source's bytes are bad (${reason}); ${OUTCOMES[outcome]}`;
    }
    case 'retry':
      return `trying again in ${formatTime(event.pauseMs)}: ${event.message}`;
    case 'done':
      // The command's own result says it.
      return undefined;
  }
}

interface DeploymentAmounts {
  readonly apps: number;
  readonly spaces: number;
  readonly nodes: number;
  readonly bytes: number;
}

export function describeDeployment({ apps, spaces, nodes, bytes }: DeploymentAmounts): string {
  return `${countOf(apps, 'App')}, ${countOf(spaces, 'Space')}, ${countOf(nodes, 'node')}, ${formatBytes(bytes)}`;
}

function describeAmounts({ phase, counts, totals }: Progress): string {
  const nodes = `${formatCount(counts.nodes)} of ${formatCount(totals.nodes)} nodes`;
  if (phase === 'verify') return nodes;
  return `${nodes}, ${formatBytes(counts.bytes)} of ${formatBytes(totals.bytes)}`;
}

/** Verifying reads no bytes, so only its nodes say how far it is. */
function toSnapshot({ phase, counts, totals }: Progress): Parameters<JobRates['add']>[1] {
  const isCopy = phase === 'copy';
  const none = { deduplicatedBytes: 0, transferredNodes: 0, transferredBytes: 0, requests: 0 };
  return {
    phase: isCopy ? 'transfer' : 'check',
    counters: { files: counts.nodes, bytes: isCopy ? counts.bytes : 0, ...none },
    totals: { files: totals.nodes, bytes: isCopy ? totals.bytes : 0 },
    item: undefined,
  };
}
