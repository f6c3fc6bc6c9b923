/** The progress of a copy as a person, a log and a program see it. */
import { describe, expect, test } from 'bun:test';
import type { TransferEvent } from '@holdfast/server';
import type { ViewOptions } from './progress-view.ts';
import { TransferView } from './transfer-view.ts';

const AT = 1_800_000_000_000;
const totals = { spaces: 3, nodes: 2_000, bytes: 4 * 1024 * 1024 };
const space = { appId: 'a\u001b[31m', spaceId: 's' };
const hash = 'ab'.repeat(32);

const progress = (ms: number, phase: 'copy' | 'verify', nodes: number): TransferEvent => ({
  ...{ type: 'progress', at: AT + ms, phase, totals },
  counts: { spaces: 1, nodes, bytes: nodes * 2_048 },
});

const COPY: readonly TransferEvent[] = [
  { type: 'start', at: AT, totals: { ...totals, apps: 2 }, isResumed: false },
  progress(10, 'copy', 10),
  progress(60, 'copy', 20),
  progress(6_000, 'copy', 1_000),
  { type: 'damaged', at: AT + 6_100, space, hash, reason: 'bad\nblock', outcome: 'rotten' },
  { type: 'retry', at: AT + 6_200, message: 'the store is away', pauseMs: 2_000 },
  progress(9_000, 'verify', 5),
  { type: 'done', at: AT + 9_900, apps: 2, counts: totals, damagedNodes: 1, elapsedMs: 9_900 },
];

function show(options: Partial<ViewOptions> = {}, isTTY = false, events = COPY): string {
  let text = '';
  const write = (more: string): void => {
    text += more;
  };
  const output = { isTTY, columns: 60, write };
  const view = new TransferView({ isJson: false, isQuiet: false, output, environment: {}, ...options });
  for (const event of events) view.take(event);
  view.close();
  view.close();
  return text;
}

const NEWS = [
  `warning: node ${hash} in Space "s" of App "a\\u001b[31m": the source's bytes are bad (bad\\u000ablock); it arrives as damaged; lease it and upload its bytes again to heal it`,
  'trying again in 2 s: the store is away',
];

describe('the view of a copy', () => {
  test('is lines where it is piped, some seconds apart', () => {
    expect(show().split('\n')).toEqual([
      'copying 2 Apps, 3 Spaces, 2,000 nodes, 4.0 MiB',
      'copying: 10 of 2,000 nodes, 20.0 KiB of 4.0 MiB',
      'copying: 1,000 of 2,000 nodes, 2.0 MiB of 4.0 MiB, 331 KiB/s, 6 s left',
      ...NEWS,
      'verifying: 5 of 2,000 nodes',
      '',
    ]);
  });

  test('says that a copy goes on', () => {
    const start = { ...(COPY[0] as Extract<TransferEvent, { type: 'start' }>), isResumed: true };
    expect(show({}, false, [start])).toBe('going on with 2 Apps, 3 Spaces, 2,000 nodes, 4.0 MiB\n');
  });

  test('is one line on a terminal, erased before others and never wrapped', () => {
    const text = show({}, true);
    const lines = text.split('\n');
    expect(lines.at(-1)).toBe('');
    expect(text).toContain('\r\u001b[Kcopying: 1,000 of 2,000 nodes');
    expect(text).toContain('\r\u001b[Kwarning: node');
    for (const shown of text.split('\r\u001b[K').filter((each) => each.startsWith('copying: '))) {
      expect(shown.length).toBeLessThan(60);
    }
  });

  test('is events with --json', () => {
    const lines = show({ isJson: true }).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([...COPY]);
  });

  test('with --quiet is only what is wrong', () => {
    expect(show({ isQuiet: true })).toBe(`${NEWS.join('\n')}\n`);
    expect(show({ isQuiet: true }, true)).toBe(`${NEWS.join('\n')}\n`);
    const lines = show({ isQuiet: true, isJson: true }).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).type)).toEqual(['damaged', 'retry']);
  });
});
