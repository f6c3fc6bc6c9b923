/** One place on the terminal that always shows where the job is: a bar, amounts, the current item, why it stands still. */
import type { ProgressEvent, ProgressJob } from '@holdfast/client';
import { printable } from '../output.ts';
import {
  describeAmounts,
  describeEnd,
  describePhase,
  describeRates,
  formatTime,
  shareDone,
} from './format-progress.ts';
import { JobRates } from './job-rates.ts';
import type { ProgressView, ViewOutput } from './view.ts';

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const CLEAR_BELOW = '\u001b[J';
const RESET = '\u001b[0m';
const STYLES = { bold: '\u001b[1m', dim: '\u001b[2m', green: '\u001b[32m', yellow: '\u001b[33m' } as const;

const BAR_CELLS = 24;
const COLUMNS_MIN = 20;

export class LiveView implements ProgressView {
  readonly #output: ViewOutput;
  readonly #hasColours: boolean;
  readonly #rates = new JobRates();
  #job: ProgressJob = 'push';
  #subject = '';
  #last: Extract<ProgressEvent, { type: 'progress' }> | undefined;
  #rateText = '';
  #stall: string | undefined;
  /** lines of the block on the terminal; the cursor stands below them */
  #shownLines = 0;
  #isOpen = false;

  constructor(output: ViewOutput, hasColours: boolean) {
    this.#output = output;
    this.#hasColours = hasColours;
  }

  take(event: ProgressEvent): void {
    switch (event.type) {
      case 'start':
        this.#job = event.job;
        this.#subject = event.subject;
        this.#isOpen = true;
        this.#output.write(HIDE_CURSOR);
        break;
      case 'progress':
        this.#last = event;
        this.#rateText = describeRates(this.#rates.add(event.at, event));
        this.#draw();
        break;
      case 'stall':
        this.#stall = `stalled for ${formatTime(event.at - event.sinceAt)}: ${event.cause}`;
        this.#draw();
        break;
      case 'resumed':
        this.#stall = undefined;
        this.#draw();
        break;
      case 'warning':
        this.#printAbove(this.#style('yellow', `warning: ${printable(event.message)}`));
        break;
      case 'done':
        this.#end(
          this.#style(
            'green',
            `${this.#job} done: ${describeEnd(this.#job, event.counters, event.elapsedMs)}`,
          ),
        );
        break;
      case 'failed':
        this.#end(`${this.#job} stopped: ${describeEnd(this.#job, event.counters, event.elapsedMs)}`);
        break;
    }
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#output.write(`${this.#erase()}${SHOW_CURSOR}`);
  }

  /** The block gives way to one line that stays. */
  #end(line: string): void {
    const text = `${this.#erase()}${line}\n`;
    this.#output.write(text);
    this.close();
  }

  #printAbove(line: string): void {
    this.#output.write(`${this.#erase()}${line}\n`);
    this.#draw();
  }

  #draw(): void {
    if (!this.#isOpen || this.#last === undefined) return;
    const lines = this.#lines(this.#last);
    const text = `${this.#erase()}${lines.map((line) => `${line}\n`).join('')}`;
    this.#shownLines = lines.length;
    this.#output.write(text);
  }

  #lines(last: Extract<ProgressEvent, { type: 'progress' }>): string[] {
    const share = shareDone(last);
    const phase = describePhase(this.#job, last.phase);
    const bar = share === undefined ? '' : `  ${drawBar(share)} ${Math.floor(share * 100)} %`;
    const title = this.#fit(`${this.#job} ${this.#subject}: ${phase}${bar}`);
    return [
      this.#style('bold', title),
      this.#fit(`  ${describeAmounts(this.#job, last)}`),
      ...(this.#rateText === '' ? [] : [this.#fit(`  ${this.#rateText}`)]),
      ...(last.item === undefined ? [] : [this.#style('dim', this.#fit(`  ${last.item}`))]),
      ...(this.#stall === undefined ? [] : [this.#style('yellow', this.#fit(`  ${this.#stall}`))]),
    ];
  }

  #erase(): string {
    const text = this.#shownLines === 0 ? '' : `\u001b[${this.#shownLines}A\r${CLEAR_BELOW}`;
    this.#shownLines = 0;
    return text;
  }

  /** A line that wrapped could not be erased: cut to the width of the terminal, which a wide character may fill twice. */
  #fit(line: string): string {
    const columns = Math.max(COLUMNS_MIN, this.#output.columns) - 1;
    const safe = printable(line);
    let width = 0;
    let text = '';
    for (const character of safe) {
      width += (character.codePointAt(0) ?? 0) < 0x300 || '█░…'.includes(character) ? 1 : 2;
      if (width > columns - 1) return `${text}…`;
      text += character;
    }
    return text;
  }

  #style(style: keyof typeof STYLES, text: string): string {
    return this.#hasColours ? `${STYLES[style]}${text}${RESET}` : text;
  }
}

function drawBar(share: number): string {
  const full = Math.floor(share * BAR_CELLS);
  return `${'█'.repeat(full)}${'░'.repeat(BAR_CELLS - full)}`;
}
