import { describe, expect, test } from 'bun:test';
import { until } from '../../../test/support/until.ts';
import { TRACE_SPANS_DROPPED } from '../metrics/server-metrics.ts';
import { isKept, parseTraceParent, type Sampler } from './trace-context.ts';
import { type OtlpSpan, type Sent, SpanQueue } from './tracer.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

describe('traceparent', () => {
  test('is accepted only in the form of the standard', () => {
    expect(parseTraceParent(`00-${TRACE}-${SPAN}-01`)).toEqual({
      ...{ traceId: TRACE, spanId: SPAN, isSampled: true },
    });
    expect(parseTraceParent(`00-${TRACE}-${SPAN}-02`)?.isSampled).toBe(false);
    expect(parseTraceParent(`01-${TRACE}-${SPAN}-01-more`)?.traceId).toBe(TRACE);
    for (const header of [
      ...[null, '', `00-${TRACE}-${SPAN}-01-more`, `01-${TRACE}-${SPAN}-01more`, `ff-${TRACE}-${SPAN}-01`],
      ...[`00-${TRACE.toUpperCase()}-${SPAN}-01`, `00-${TRACE}-${SPAN}-1`, ` 00-${TRACE}-${SPAN}-01`],
      ...[`00-${'0'.repeat(32)}-${SPAN}-01`, `00-${TRACE}-${'0'.repeat(16)}-01`],
      `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
    ])
      expect([header, parseTraceParent(header)]).toEqual([header, undefined]);
  });

  test('decides together with the sampler', () => {
    const kept = (kind: Sampler['kind'], flags?: string, ratio = 1): boolean =>
      isKept({ kind, ratio }, TRACE, parseTraceParent(`00-${TRACE}-${SPAN}-${flags}`));
    expect([kept('always_on', '00'), kept('always_off', '01')]).toEqual([true, false]);
    expect([kept('parentbased_always_on', '00'), kept('parentbased_always_on')]).toEqual([false, true]);
    expect([kept('parentbased_always_off', '01'), kept('parentbased_always_off')]).toEqual([true, false]);
    // The end of the trace id is 0xce929d0e0e4736 of 2^56: 0.807.
    expect([0, 0.8, 0.81, 1].map((ratio) => kept('traceidratio', '01', ratio))).toEqual([
      ...[false, false, true, true],
    ]);
  });
});

describe('the queue', () => {
  const dropped = (reason: string): number => TRACE_SPANS_DROPPED.with({ reason }).value;
  const spans = (count: number): OtlpSpan[] =>
    Array.from({ length: count }, (_, index) => ({ name: String(index) }) as OtlpSpan);

  test('is bounded, sends the same spans again, and counts what it drops', async () => {
    const before = ['no_room', 'ended', 'refused'].map(dropped);
    const told: string[] = [];
    const batches: number[] = [];
    const answers: Sent[] = [
      { kind: 'again', reason: 'HTTP 503' },
      { kind: 'refused', reason: 'HTTP 400' },
      { kind: 'refused', reason: 'spans were refused', spans: 3 },
      { kind: 'sent' },
      { kind: 'again', reason: 'HTTP 429' },
    ];
    const queue = new SpanQueue({
      batchMs: 1_000_000,
      reportFailure: (reason) => told.push(reason),
      send: async (batch) => {
        batches.push(batch.length);
        return answers.shift() as Sent;
      },
    });
    queue.add(spans(8000));
    queue.add(spans(193));
    queue.add(spans(192));
    await Promise.resolve();
    expect(batches).toEqual([512]);
    await until(() => told.length === 1);
    await queue.close();
    expect(batches).toEqual([512, 512, 512, 512, 512]);
    expect(told).toEqual(['HTTP 503', 'HTTP 400', 'spans were refused', 'HTTP 429']);
    queue.add(spans(1));
    const after = ['no_room', 'ended', 'refused'].map(dropped);
    expect(after.map((count, index) => count - (before[index] ?? 0))).toEqual([
      ...[193 + 1, 8192 - 3 * 512, 512 + 3],
    ]);
  });

  test('ends within its bound, even if the receiver never answers', async () => {
    const queue = new SpanQueue({
      batchMs: 1,
      reportFailure: () => undefined,
      send: (_, signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve({ kind: 'again', reason: 'AbortError' }));
        }),
    });
    queue.add(spans(1));
    await queue.close();
  });
});
