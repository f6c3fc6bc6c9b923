/** One place on the terminal that always shows where the job is: a bar, amounts, the current item, why it stalls. */
import type { ProgressEvent, ProgressJob } from '@holdfast/client/internal';
import { printable } from '../terminal/output.ts';
import {
  describeAmounts,
  describeEnd,
  describePhase,
  describeRates,
  describeStall,
  shareDone,
  shortenHashes,
} from './format-progress.ts';
import { JobRates } from './job-rates.ts';
import { COLUMNS_MIN, type ProgressView, type ViewOutput } from './view.ts';

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const CLEAR_BELOW = '\u001b[J';
const RESET = '\u001b[0m';
const STYLES = { bold: '\u001b[1m', dim: '\u001b[2m', green: '\u001b[32m', yellow: '\u001b[33m' } as const;

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
  #isCursorHidden = false;
  /** Continued in the background: the place where the cursor stands is the shell's, and what is drawn would go over its lines. */
  #isBehind = false;
  #forgetStops: (() => void) | undefined;

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
        this.#hideCursor();
        this.#forgetStops = this.#output.jobControl?.watch({
          onStop: () => this.#onStop(),
          onContinue: () => this.#onContinue(),
        });
        break;
      case 'progress':
        this.#last = event;
        this.#rateText = describeRates(this.#rates.add(event.at, event));
        this.#draw();
        break;
      case 'stall':
        this.#stall = describeStall(event);
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
    this.#forgetStops?.();
    this.#output.write(this.#erase());
    this.#showCursor();
  }

  /** The last block stays: it stands among the shell's lines from now on. */
  #onStop(): void {
    this.#shownLines = 0;
    this.#showCursor();
  }

  #onContinue(): void {
    this.#shownLines = 0;
    this.#isBehind = this.#output.jobControl?.isInBackground() === true;
    // After `kill -STOP` the shell has it hidden still.
    if (this.#isBehind) this.#showCursor();
    else this.#hideCursor();
    this.#draw();
  }

  #hideCursor(): void {
    this.#isCursorHidden = true;
    this.#output.write(HIDE_CURSOR);
  }

  #showCursor(): void {
    if (this.#isCursorHidden) this.#output.write(SHOW_CURSOR);
    this.#isCursorHidden = false;
  }

  /** A shell may bring a job that runs to the front without a signal, so it is asked at each drawing. */
  #isDrawable(): boolean {
    if (!this.#isBehind) return true;
    this.#isBehind = this.#output.jobControl?.isInBackground() === true;
    if (!this.#isBehind) this.#hideCursor();
    return !this.#isBehind;
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
    if (!this.#isOpen || this.#last === undefined || !this.#isDrawable()) return;
    const lines = this.#lines(this.#last);
    const text = `${this.#erase()}${lines.map((line) => `${line}\n`).join('')}`;
    this.#shownLines = lines.length;
    this.#output.write(text);
  }

  #lines(last: Extract<ProgressEvent, { type: 'progress' }>): string[] {
    const progress = [
      this.#style('bold', this.#title(last)),
      this.#fit(`  ${describeAmounts(this.#job, last)}`),
    ];
    // A stalled job has neither a rate nor a time left; the cause is worth all the lines it takes.
    if (this.#stall !== undefined) {
      return [...progress, ...this.#wrap(this.#stall).map((line) => this.#style('yellow', `  ${line}`))];
    }
    return [
      ...progress,
      ...(this.#rateText === '' ? [] : [this.#fit(`  ${this.#rateText}`)]),
      ...(last.item === undefined ? [] : [this.#style('dim', this.#fit(`  ${last.item}`))]),
    ];
  }

  /** Job, phase and bar; only the subject is shortened where a line is short. */
  #title(last: Extract<ProgressEvent, { type: 'progress' }>): string {
    const columns = this.#columns();
    const share = shareDone(last);
    const cells = columns < 60 ? 10 : 24;
    const bar = share === undefined ? '' : ` ${drawBar(share, cells)} ${Math.floor(share * 100)} %`;
    const phase = `: ${describePhase(this.#job, last)}`;
    const subject = shortenHashes(this.#subject);
    const room = columns - widthOf(bar);
    // The job and its subject keep 12 columns. The phase is left out if they would have fewer.
    const shownPhase = widthOf(phase) + 12 <= room ? phase : '';
    return this.#fit(`${cut(`${this.#job} ${subject}`, room - widthOf(shownPhase))}${shownPhase}${bar}`);
  }

  #erase(): string {
    const text = this.#shownLines === 0 ? '' : `\u001b[${this.#shownLines}A\r${CLEAR_BELOW}`;
    this.#shownLines = 0;
    return text;
  }

  /** A line that wrapped could not be erased. */
  #columns(): number {
    return Math.max(COLUMNS_MIN, this.#output.columns) - 1;
  }

  #fit(line: string): string {
    return cut(printable(line), this.#columns());
  }

  /** All of `text`, in lines that fit when they are indented. */
  #wrap(text: string): string[] {
    const room = this.#columns() - 2;
    const lines: string[] = [];
    let line = '';
    for (const word of printable(text).split(' ')) {
      const longer = line === '' ? word : `${line} ${word}`;
      if (widthOf(longer) <= room) {
        line = longer;
        continue;
      }
      if (line !== '') lines.push(line);
      line = word;
      while (widthOf(line) > room) {
        const part = takeWidth(line, room);
        lines.push(part);
        line = line.slice(part.length);
      }
    }
    return [...lines, line];
  }

  #style(style: keyof typeof STYLES, text: string): string {
    return this.#hasColours ? `${STYLES[style]}${text}${RESET}` : text;
  }
}

function drawBar(share: number, cells: number): string {
  const full = Math.floor(share * cells);
  return `${'█'.repeat(full)}${'░'.repeat(cells - full)}`;
}

/** `text` within `columns`, its end left out where it is longer. */
function cut(text: string, columns: number): string {
  return widthOf(text) <= columns ? text : `${takeWidth(text, columns - 1)}…`;
}

/** As much of the beginning as `columns` hold. */
function takeWidth(text: string, columns: number): string {
  let width = 0;
  let taken = '';
  for (const character of text) {
    width += widthOfCharacter(character);
    if (width > columns) break;
    taken += character;
  }
  return taken;
}

function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** A wide character may fill two cells: which do, terminals do not agree on. */
function widthOfCharacter(character: string): number {
  return (character.codePointAt(0) ?? 0) < 0x300 || '█░…'.includes(character) ? 1 : 2;
}
