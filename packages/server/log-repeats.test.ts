import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { LogRepeats } from './log-repeats.ts';

const WINDOW_MS = 1000;

function openRepeats() {
  const written: string[] = [];
  const timers: { readonly at: number; readonly callback: () => void }[] = [];
  let now = 0;
  const world = {
    now: () => now,
    schedule: (callback: () => void, delayMs: number) => void timers.push({ at: now + delayMs, callback }),
  };
  const repeats = new LogRepeats(WINDOW_MS, world);
  return {
    written,
    repeats,
    timers,
    say: (kind: string, text = kind, family?: string) =>
      repeats.take(
        kind,
        (count) => void written.push(count === undefined ? text : `${text} x${count}`),
        family,
      ),
    advance(ms: number) {
      for (const until = now + ms; ; ) {
        const next = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        now = next?.at ?? until;
        if (next === undefined) return;
        timers.splice(timers.indexOf(next), 1);
        next.callback();
      }
    },
  };
}

test('the first line of a kind is written at once, the others once per window with their number', () => {
  const { say, advance, written } = openRepeats();
  for (let count = 1; count <= 2796; count += 1) {
    say('disk', `disk ${count}`);
    if (count % 31 === 0) advance(100);
  }
  expect(written[0]).toBe('disk 1');
  expect(written.length).toBeLessThanOrEqual(1 + Math.ceil(2796 / 31 / 10));
  advance(WINDOW_MS);
  const counted = written.slice(1).map((line) => Number(line.split(' x')[1]));
  expect(1 + counted.reduce((sum, count) => sum + count, 0)).toBe(2796);
});

test('kinds of lines do not wait for each other, and a line after a quiet time is written as it is', () => {
  const { say, advance, written, timers } = openRepeats();
  say('disk');
  say('network');
  say('disk');
  expect(written).toEqual(['disk', 'network']);
  advance(WINDOW_MS);
  expect(written).toEqual(['disk', 'network', 'disk x1']);
  advance(3 * WINDOW_MS);
  expect(timers).toEqual([]);
  say('disk');
  expect(written.at(-1)).toBe('disk');
});

test('a family with any number of kinds writes a few of them in each window, and counts every line', () => {
  const { say, advance, written } = openRepeats();
  const windows = 50;
  for (let window = 0; window < windows; window += 1) {
    for (let node = 0; node < 32; node += 1) say(`node ${window}.${node}`, 'node', 'nodes');
    advance(WINDOW_MS);
  }
  advance(2 * WINDOW_MS);
  expect(written.length).toBeLessThanOrEqual(windows * 21 + 1);
  expect(written.length).toBeGreaterThanOrEqual(windows * 20);
  const counts = written.map((line) => Number(line.split(' x')[1] ?? 1));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(windows * 32);
  say('network');
  say('a node of another family', 'other', 'others');
  expect(written.slice(-2)).toEqual(['network', 'other']);
});

test('counted lines are written when the process ends', () => {
  const { say, repeats, written } = openRepeats();
  for (const kind of ['disk', 'disk', 'network', 'disk']) say(kind);
  repeats.flush();
  expect(written).toEqual(['disk', 'network', 'disk x2']);
});

test('any number of kinds takes bounded memory, and loses no line', () => {
  const { say, written, repeats } = openRepeats();
  for (let kind = 0; kind < 5000; kind += 1) {
    say(`kind ${kind}`);
    say(`kind ${kind}`);
  }
  repeats.flush();
  expect(written.length).toBe(10_000);
});

test('equal failures are one kind whatever their requests, but each damaged node is its own', async () => {
  const script = `
    import { openLog } from ${JSON.stringify(join(import.meta.dir, 'log.ts'))};
    const log = openLog('info', { worker: 1 });
    for (let n = 0; n < 500; n += 1) {
      const reasons = ['storing failed', "ENOSPC: no space left on device, open '/data/incoming/" + n + "'"];
      log.warn({ requestId: 'request-' + n, reasons }, 'a request failed');
      log.error({ hash: 'hash-' + n % 3 }, 'damaged');
      log.error({ app: 'app', hash: 'hash-' + n, reason: 'EIO' }, 'unread');
    }
    log.error({ err: new Error('block 7') }, 'background work failed');
    log.error({ err: new Error('block 8') }, 'background work failed');
    log.error({ err: new Error('other') }, 'background work failed');
    log.info('plain');
    log.info('plain');
  `;
  const child = Bun.spawn([process.execPath, '-e', script], { stderr: 'pipe' });
  const lines = (await new Response(child.stderr).text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(await child.exited).toBe(0);
  const of = (msg: string) => lines.filter((line) => line.msg === msg);
  expect(of('a request failed')).toMatchObject([
    { requestId: 'request-0', worker: 1 },
    { requestId: 'request-499', repeated: 499, level: 'warn' },
  ]);
  expect(of('damaged').map(({ hash, repeated }) => [hash, repeated])).toEqual([
    ['hash-0', undefined],
    ['hash-1', undefined],
    ['hash-2', undefined],
    ['hash-0', 166],
    ['hash-1', 166],
    ['hash-2', 165],
  ]);
  expect(of('unread').map(({ hash, repeated }) => [hash, repeated])).toEqual([
    ...Array.from({ length: 20 }, (_, index) => [`hash-${index}`, undefined]),
    ['hash-20', undefined],
    ['hash-499', 479],
  ]);
  expect(of('background work failed').map(({ err, repeated }) => [err.message, repeated])).toEqual([
    ['block 7', undefined],
    ['other', undefined],
    ['block 8', 1],
  ]);
  expect(of('plain').map(({ repeated }) => repeated)).toEqual([undefined, 1]);
});
