/** The live views of a job that a shell stops: the lines they leave, and the lines they draw when it goes on. */
import { describe, expect, test } from 'bun:test';
import type { ProgressEvent } from '@holdfast/client';
import type { JobControl } from '../terminal/job-control.ts';
import { screenAfter } from '../test/screen-fixture.ts';
import { chooseView, type ViewOptions } from './progress-view.ts';
import { TransferView } from './transfer-view.ts';

const AT = 1_800_000_000_000;
const counters = {
  files: 40,
  bytes: 3_000_000,
  deduplicatedBytes: 1_500_000,
  transferredNodes: 10,
  transferredBytes: 1_600_000,
  requests: 31,
};
const totals = { files: 100, bytes: 6_000_000 };
const START = { type: 'start', at: AT, job: 'push', subject: './tree' } as const;
const FIRST = { type: 'progress', at: AT + 200, phase: 'transfer', counters, totals, item: 'a' } as const;
const SECOND = { ...FIRST, at: AT + 6_000, counters: { ...counters, bytes: 4_000_000 } } as const;
const WARNING = { type: 'warning', at: AT + 7_000, message: 'odd' } as const;
const STALL = { type: 'stall', at: AT + 20_000, sinceAt: AT + 6_000, cause: 'away' } as const;
const DONE = { type: 'done', at: AT + 22_000, elapsedMs: 22_000, counters, result: undefined } as const;

describe('the live view', () => {
  function open(...events: readonly ProgressEvent[]) {
    const shell = new Shell();
    const view = chooseView(shell.options);
    const take = (...more: readonly ProgressEvent[]): void => {
      for (const event of more) view.take(event);
    };
    take(...events);
    return { shell, take };
  }

  test('that was stopped leaves the terminal to the shell, and begins anew below what that wrote', () => {
    const { shell, take } = open(START, FIRST);
    const before = shell.screen();
    expect(before).toHaveLength(3);
    expect(shell.isCursorShown()).toBe(false);
    shell.stop('[1]+  Stopped');
    expect(shell.isCursorShown()).toBe(true);
    shell.goOn();
    expect(shell.isCursorShown()).toBe(false);
    take(SECOND);
    expect(shell.screen().slice(0, 4)).toEqual([...before, '[1]+  Stopped']);
    expect(shell.screen()).toHaveLength(8);
    take(WARNING, DONE);
    expect(shell.screen().slice(3)).toEqual([
      '[1]+  Stopped',
      'warning: odd',
      expect.stringContaining('push done'),
    ]);
    expect(shell.isCursorShown()).toBe(true);
    expect(shell.isWatched()).toBe(false);
  });

  test('draws nothing in the background, where only warnings and the end are said', () => {
    const { shell, take } = open(START, FIRST);
    shell.isInBackground = true;
    shell.stop('$ bg');
    shell.goOn();
    const stopped = shell.screen();
    take(SECOND);
    expect(shell.screen()).toEqual(stopped);
    take(WARNING);
    expect(shell.screen()).toEqual([...stopped, 'warning: odd']);
    expect(shell.isCursorShown()).toBe(true);
    // `fg` of bash sends no signal to what runs.
    shell.isInBackground = false;
    take(STALL);
    expect(shell.isCursorShown()).toBe(false);
    expect(shell.screen().at(-1)).toContain('stalled for 14 s');
    shell.isInBackground = true;
    shell.stop('$ bg');
    shell.goOn();
    take(DONE);
    expect(shell.screen().at(-1)).toContain('push done');
    expect(shell.isCursorShown()).toBe(true);
  });

  test('gives the cursor back in the background after a stop that it could not see', () => {
    const { shell } = open(START, FIRST);
    shell.isInBackground = true;
    shell.goOn();
    expect(shell.isCursorShown()).toBe(true);
  });
});

test('a copy of a deployment ends its line for the shell, and has another one below', () => {
  const shell = new Shell();
  const view = new TransferView(shell.options);
  const amounts = { apps: 1, spaces: 1, nodes: 9, bytes: 900 };
  const copied = (nodes: number): void => {
    const counts = { ...amounts, nodes };
    view.take({ type: 'progress', at: AT + nodes * 1_000, phase: 'copy', counts, totals: amounts });
  };
  copied(1);
  shell.stop('[1]+  Stopped');
  shell.goOn();
  copied(2);
  const stopped = shell.screen();
  expect(stopped).toEqual([
    expect.stringContaining('1 of 9 nodes'),
    '[1]+  Stopped',
    expect.stringContaining('2 of 9 nodes'),
  ]);
  shell.isInBackground = true;
  shell.stop('$ bg');
  shell.goOn();
  copied(3);
  expect(shell.screen()).toEqual([...stopped, '$ bg']);
  shell.isInBackground = false;
  copied(4);
  expect(shell.screen().at(-1)).toContain('4 of 9 nodes');
  view.close();
  expect(shell.isWatched()).toBe(false);
});

/** A terminal, and a shell that stops the job on it. */
class Shell {
  isInBackground = false;
  #text = '';
  #listener: Parameters<JobControl['watch']>[0] | undefined;
  readonly options: ViewOptions = {
    isJson: false,
    isQuiet: false,
    environment: { NO_COLOR: '1' },
    output: {
      isTTY: true,
      columns: 80,
      write: (text) => this.#show(text),
      jobControl: {
        watch: (listener) => {
          this.#listener = listener;
          return () => {
            this.#listener = undefined;
          };
        },
        isInBackground: () => this.isInBackground,
      },
    },
  };

  stop(said: string): void {
    this.#listener?.onStop();
    this.#show(`${said}\n`);
  }

  goOn(): void {
    this.#listener?.onContinue();
  }

  isWatched(): boolean {
    return this.#listener !== undefined;
  }

  isCursorShown(): boolean {
    return this.#text.lastIndexOf('\u001b[?25h') >= this.#text.lastIndexOf('\u001b[?25l');
  }

  screen(): string[] {
    return screenAfter(this.#text);
  }

  #show(text: string): void {
    this.#text += text;
  }
}
