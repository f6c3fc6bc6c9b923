/** The views of a job: what a person, a log and a program are told, and that a terminal is left as it was found. */

import { describe, expect, test } from 'bun:test';
import type { ProgressEvent, ProgressJob, ProgressSnapshot } from '@holdfast/client/internal';
import { countOf, formatBytes } from '@holdfast/protocol';
import fc from 'fast-check';
import { screenAfter } from '../test/screen-fixture.ts';
import { describeEnd, formatTime, shareDone } from './format-progress.ts';
import { JobRates } from './job-rates.ts';
import { chooseView, type ViewOptions } from './progress-view.ts';

const AT = 1_800_000_000_000;
const counters = {
  files: 40,
  bytes: 3_000_000,
  deduplicatedBytes: 1_500_000,
  transferredNodes: 10,
  transferredBytes: 1_600_000,
  requests: 31,
};
const snapshot: ProgressSnapshot = {
  phase: 'transfer',
  counters,
  totals: { files: 100, bytes: 6_000_000 },
  item: 'src/\u001b[31mred',
};

const JOB: readonly ProgressEvent[] = [
  { type: 'start', at: AT, job: 'push', subject: './tree' },
  { type: 'progress', at: AT + 200, ...snapshot },
  { type: 'progress', at: AT + 6_000, ...snapshot, counters: { ...counters, files: 50, bytes: 4_000_000 } },
  { type: 'warning', at: AT + 7_000, message: 'odd' },
  { type: 'stall', at: AT + 20_000, sinceAt: AT + 6_000, cause: 'the server is away' },
  { type: 'resumed', at: AT + 21_000, stalledMs: 15_000 },
  { type: 'done', at: AT + 22_000, elapsedMs: 22_000, counters, result: 'f'.repeat(64) },
];

function show(
  options: Partial<ViewOptions> = {},
  events: readonly ProgressEvent[] = JOB,
  columns = 80,
  isTTY = true,
  isClosed = true,
): string {
  let text = '';
  const output = {
    isTTY,
    columns,
    write: (more: string): void => {
      text += more;
    },
  };
  const view = chooseView({ isJson: false, isQuiet: false, output, environment: {}, ...options });
  for (const event of events) view.take(event);
  if (isClosed) {
    view.close();
    view.close();
  }
  return text;
}

const showPiped = (options: Partial<ViewOptions> = {}, events = JOB): string =>
  show(options, events, 80, false);

describe('the live view', () => {
  test('shows amounts, share, time left, the item, and why nothing moves', () => {
    const text = show();
    for (const part of [
      '40 of 100 entries',
      '2.9 MiB of 5.7 MiB',
      '50 % there already',
      'left',
      'stalled for 14 s: the server is away',
      'warning: odd',
      'push done',
    ]) {
      expect(text).toContain(part);
    }
  });

  test('shows the bar and the percentage at any width, whatever the subject is', () => {
    for (let columns = 40; columns <= 200; columns += 1) {
      for (const subject of ['f'.repeat(64), '/a/very/long/path'.repeat(12)]) {
        const start = { type: 'start', at: AT, job: 'pull', subject } as const;
        const [title = ''] = screenAfter(
          show({ environment: { NO_COLOR: '1' } }, [start, JOB[1] as ProgressEvent], columns, true, false),
        );
        expect(title).toMatch(/^pull .*█░* 49 %$/);
        expect([...title].length).toBeLessThan(columns);
      }
    }
    const start = { type: 'start', at: AT, job: 'pull', subject: 'f'.repeat(64) } as const;
    expect(show({ environment: { NO_COLOR: '1' } }, [start, JOB[1] as ProgressEvent])).toContain(
      'pull ffffffffffff…: downloading █',
    );
  });

  test('that stands still shows all of the cause, and no rate', () => {
    const cause = `reading ${'e'.repeat(64)}: the server has no space left on the disk of its data folder; trying again`;
    const stall = { type: 'stall', at: AT + 20_000, sinceAt: AT + 6_000, cause } as const;
    const lines = screenAfter(
      show({ environment: { NO_COLOR: '1' } }, [...JOB.slice(0, 3), stall], 40, true, false),
    );
    expect(lines.slice(2).join('').replaceAll(/\s/g, '')).toBe(
      `stalledfor14s:${cause}`.replaceAll(/\s/g, ''),
    );
    expect(lines.join('\n')).not.toMatch(/left$|\/s/m);
  });

  test('shows how much of a tree is read once all of it was looked at, though it has grown since', () => {
    const start = JOB[0] as ProgressEvent;
    const reading = (read: ProgressSnapshot['totals'], at = AT): ProgressEvent => {
      return { type: 'progress', at, ...snapshot, phase: 'scan', totals: read };
    };
    const shown = (...events: ProgressEvent[]): string[] =>
      screenAfter(show({ environment: { NO_COLOR: '1' } }, [start, ...events], 80, true, false));
    const [title, amounts] = shown(reading({ files: 3, bytes: 3_000_000 }));
    expect(title).not.toContain('%');
    expect(amounts).toBe('  3 entries, 2.9 MiB so far, 1.4 MiB there already');
    const all = { surveyedFiles: 10, surveyedBytes: 12_000_000 };
    const known = shown(
      reading({ files: 3, bytes: 3_000_000, ...all }),
      reading({ files: 5, bytes: 6_000_000, ...all }, AT + 2_000),
    );
    // Read are 50 %, sent or found 25 %.
    expect(known[0]).toMatch(/^push .*reading .* 37 %$/);
    expect(known[1]).toBe('  5 of 10 entries, 5.7 MiB of 11.4 MiB, 1.4 MiB there already');
    expect(known[2]).toBe('  1.4 MiB/s, 5 s left');
    const read = { files: 10, bytes: 12_000_000, ...all };
    const sending = shown(reading({ files: 5, bytes: 6_000_000, ...all }), reading(read, AT + 2_000));
    expect(sending[0]).toMatch(/^push .*: sending the rest /);
    expect(sending.join()).not.toMatch(/\/s|left/);
    const grown = shown(reading({ files: 12, bytes: 13_000_000, ...all }));
    // All of it is read, and most is still to be sent.
    expect(grown[0]).toMatch(/ 6[12] %$/);
    expect(grown[1]).toContain('12 of 12 entries, 12.4 MiB of 12.4 MiB');
  });

  test('hides the cursor and always gives it back', () => {
    for (let length = 1; length <= JOB.length; length += 1) {
      const text = show({}, JOB.slice(0, length));
      expect(text.split('\u001b[?25l').length).toBe(2);
      expect(text.split('\u001b[?25h').length).toBe(2);
      expect(text.lastIndexOf('\u001b[?25h')).toBeGreaterThan(text.lastIndexOf('\u001b[?25l'));
    }
  });

  test('erases exactly what it drew, and leaves one line at the end', () => {
    expect(screenAfter(show())).toEqual(['warning: odd', expect.stringContaining('push done')]);
    expect(screenAfter(show({}, JOB.slice(0, 3)))).toEqual([]);
  });

  test('never writes a line that would wrap, nor what a name would do to the terminal', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.string({ unit: 'binary' }), (columns, item) => {
        const text = show(
          {},
          [JOB[0] as ProgressEvent, { type: 'progress', at: AT, ...snapshot, item }],
          columns,
        );
        // biome-ignore lint/suspicious/noControlCharactersInRegex: what the view itself writes is taken out
        const plain = text.replace(/\u001b\[[0-9;?]*[A-Za-z]|\r/g, '');
        // biome-ignore lint/suspicious/noControlCharactersInRegex: nothing else of the kind may be left
        expect(plain).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f]/);
        const widest = Math.max(...plain.split('\n').map((line) => [...line].length));
        expect(widest).toBeLessThan(Math.max(20, columns));
      }),
    );
  });

  test('has colours unless NO_COLOR says otherwise', () => {
    expect(show()).toContain('\u001b[32m');
    expect(show({ environment: { NO_COLOR: '' } })).toContain('\u001b[32m');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are what is looked for
    expect(show({ environment: { NO_COLOR: '1' } })).not.toMatch(/\u001b\[[0-9]*m/);
  });
});

describe('plain lines', () => {
  test('are said where there is no terminal, or a dumb one', () => {
    const lines = showPiped().trimEnd().split('\n');
    expect(lines).toEqual([
      'push ./tree',
      expect.stringMatching(
        /^uploading: 50 of 100 entries, 3\.8 MiB of 5\.7 MiB, 1\.4 MiB there already, .*left, src\/\\u001b\[31mred$/,
      ),
      'warning: odd',
      'stalled for 14 s: the server is away',
      'going on after 15 s',
      expect.stringMatching(
        /^done: 40 entries, 2\.9 MiB, 50 % there already; 1\.5 MiB sent or received in 31 requests, 22 s$/,
      ),
    ]);
    expect(show({ environment: { TERM: 'dumb' } })).not.toContain('\u001b');
  });

  test('show the end of a path that is too long for a line', () => {
    const item = `${'deep/'.repeat(1_000)}bottom`;
    const text = showPiped({}, [
      JOB[0] as ProgressEvent,
      { type: 'progress', at: AT + 6_000, ...snapshot, item },
    ]);
    expect(text).toMatch(/, …[^,]{193}bottom\n$/);
  });

  test('of bundles count nodes, and of jobs that bring nothing no share', () => {
    const endOf = (job: ProgressJob, requests: number): string =>
      describeEnd(job, { ...counters, requests }, 3_000);
    expect(endOf('bundle-import', 0)).toBe(
      '40 nodes, 2.9 MiB, 50 % there already; 1.5 MiB sent or received, 3 s',
    );
    expect(endOf('bundle-create', 0)).toBe('40 nodes, 2.9 MiB; 1.5 MiB sent or received, 3 s');
    expect(endOf('verify', 1)).toBe('40 entries, 2.9 MiB; 1.5 MiB sent or received in 1 request, 3 s');
  });

  test('are none for a job that fails at once', () => {
    const failed = { type: 'failed', at: AT + 10, elapsedMs: 10, counters, message: 'no' } as const;
    expect(showPiped({}, [JOB[0] as ProgressEvent, failed])).toBe('');
  });

  test('say a stall of a minute even when quiet', () => {
    const stall = (ms: number): ProgressEvent => ({ type: 'stall', at: AT + ms, sinceAt: AT, cause: 'away' });
    expect(showPiped({ isQuiet: true }, [stall(59_000), stall(60_000)])).toBe(
      'stalled for 1 min 0 s: away\n',
    );
    expect(showPiped({ isQuiet: true, isJson: true }, [stall(59_000), stall(60_000)])).toContain('"stall"');
    expect(showPiped({ isQuiet: true, isJson: true }, [stall(59_000)])).toBe('');
  });

  test('say a cause once, and again when another has come between', () => {
    const stall = (ms: number, cause: string, sinceAt = AT): ProgressEvent => ({
      type: 'stall',
      at: sinceAt + ms,
      sinceAt,
      cause,
    });
    const events = [
      ...[stall(60_000, 'away'), stall(68_000, 'away'), stall(76_000, 'full'), stall(84_000, 'away')],
      ...[stall(60_000, 'away', AT + 90_000), stall(68_000, 'away', AT + 90_000)],
    ];
    const lines = [
      ...['stalled for 1 min 0 s: away', 'stalled for 1 min 8 s', 'stalled for 1 min 16 s: full'],
      ...['stalled for 1 min 24 s: away', 'stalled for 1 min 0 s: away', 'stalled for 1 min 8 s'],
    ];
    for (const isQuiet of [false, true]) {
      expect(showPiped({ isQuiet }, events).trimEnd().split('\n')).toEqual(lines);
    }
  });

  test('are warnings alone when quiet', () => {
    expect(showPiped({ isQuiet: true })).toBe('warning: odd\n');
  });
});

test('events are one line of JSON each', () => {
  const lines = show({ isJson: true }).trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual(JSON.parse(JSON.stringify(JOB)));
  expect(show({ isJson: true, isQuiet: true })).toContain('"warning"');
});

test('rates and times are those of the last seconds', () => {
  const rates = new JobRates();
  const at = (ms: number, files: number, bytes: number) =>
    rates.add(AT + ms, {
      ...snapshot,
      counters: { ...counters, files, bytes, deduplicatedBytes: 0 },
      totals: { files: 100, bytes: 10_000 },
    });
  expect(at(0, 0, 0).remainingMs).toBeUndefined();
  expect(at(2_000, 10, 2_000)).toEqual({ bytesPerSecond: 1_000, remainingMs: 18_000 });
  expect(at(4_000, 100, 10_000).remainingMs).toBe(0);
  expect(rates.add(AT + 5_000, { ...snapshot, phase: 'commit' })).toEqual({
    bytesPerSecond: 0,
    remainingMs: undefined,
  });
});

test('the time left counts down, and follows a slow moment slowly', () => {
  const rates = new JobRates();
  const at = (ms: number, bytes: number) =>
    rates.add(AT + ms, {
      ...snapshot,
      counters: { ...counters, files: 0, bytes, deduplicatedBytes: 0 },
      totals: { bytes: 100_000 },
    }).remainingMs as number;
  at(0, 0);
  let last = at(1_000, 1_000);
  expect(last).toBe(99_000);
  // Nothing comes for three seconds: by the rate of the window four times as much is left.
  for (let ms = 1_100; ms <= 4_000; ms += 100) {
    const next = at(ms, 1_000);
    expect(Math.abs(next - last)).toBeLessThan(10_000);
    last = next;
  }
});

test('a few small files before a large one do not say that it takes years', () => {
  const rates = new JobRates();
  const at = (ms: number, bytes: number) =>
    rates.add(AT + ms, {
      ...snapshot,
      counters: { ...counters, files: 99, bytes, deduplicatedBytes: 0 },
      totals: { files: 99, bytes: 3_000_000_000 },
    });
  at(0, 0);
  expect(at(7_000, 70).remainingMs).toBeUndefined();
  expect(at(8_000, 3_000_000).remainingMs).toBeLessThan(99 * 3_600_000);
});

test('where only the bytes are known in advance, they alone say how far a job is', () => {
  const rates = new JobRates();
  const at = (bytes: number): ProgressSnapshot => ({
    ...snapshot,
    counters: { ...counters, files: 7, bytes, deduplicatedBytes: 0 },
    totals: { bytes: 10_000 },
  });
  expect([0, 2_500, 10_000].map((bytes) => shareDone(at(bytes)))).toEqual([0, 0.25, 1]);
  rates.add(AT, at(0));
  expect(rates.add(AT + 2_000, at(2_500)).remainingMs).toBe(6_000);
});

test('one is one', () => {
  expect([0, 1, 2_000].map((count) => countOf(count, 'file'))).toEqual(['0 files', '1 file', '2,000 files']);
  expect([1, 2].map((count) => countOf(count, 'entry', 'entries'))).toEqual(['1 entry', '2 entries']);
});

test('numbers are those a person reads', () => {
  expect([0, 1_023, 1_024, 150 * 1_024, 3.5 * 2 ** 30].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '150 KiB',
    '3.5 GiB',
  ]);
  expect([0, 59_400, 61_000, 7_260_000].map(formatTime)).toEqual(['0 s', '59 s', '1 min 1 s', '2 h 1 min']);
});
