/** Content answers: which bytes were asked for, which came, and a body that is never silently short. */
import type { Answer } from './transport.ts';

/**
 * Which bytes of the content, as HTTP counts them: from `first` up to and including `last` (or the end), or the final
 * `suffix` bytes.
 */
export type ContentRange = { readonly first: number; readonly last?: number } | { readonly suffix: number };

/** The node's own content, whole or a part. Not verified: see `getNode`, `openNode`. */
export interface NodeContent {
  readonly contentType: string;
  /** bytes of the whole content */
  readonly size: number;
  /** first byte of `body` in the content */
  readonly start: number;
  /** the byte after the last */
  readonly end: number;
  /** Exactly `end - start` bytes, or an error. Cancel it to stop early. */
  readonly body: ReadableStream<Uint8Array>;
}

/** The `Range` header for `range`. Throws RangeError when no byte could be meant. */
export function encodeRange(range: ContentRange): string {
  if ('suffix' in range) {
    if (!Number.isSafeInteger(range.suffix) || range.suffix < 1) {
      throw new RangeError('range.suffix must be an integer of 1 or more');
    }
    return `bytes=-${range.suffix}`;
  }
  const { first, last } = range;
  if (!Number.isSafeInteger(first) || first < 0)
    throw new RangeError('range.first must be an integer of 0 or more');
  if (last === undefined) return `bytes=${first}-`;
  if (!Number.isSafeInteger(last) || last < first) {
    throw new RangeError('range.last must be an integer not below range.first');
  }
  return `bytes=${first}-${last}`;
}

/** The bounds `range` has in content of `size` bytes; an end beyond it is clamped. */
function boundsOf(range: ContentRange, size: number): { start: number; end: number } {
  if ('suffix' in range) return { start: Math.max(0, size - range.suffix), end: size };
  return { start: range.first, end: Math.min(size, (range.last ?? size - 1) + 1) };
}

/** Reads the headers of a content answer; the body stays a stream. Throws CasError MALFORMED_RESPONSE. */
export function openContent(answer: Answer, range: ContentRange | undefined, idleMs: number): NodeContent {
  const { size, start, end } = range === undefined ? readWholeBounds(answer) : readPartBounds(answer, range);
  const contentType = answer.headers.get('content-type') ?? '';
  answer.detach();
  return { contentType, size, start, end, body: streamExactly(answer, end - start, idleMs) };
}

function readWholeBounds(answer: Answer): { size: number; start: number; end: number } {
  const header = answer.headers.get('content-length') ?? '';
  const size = /^\d{1,16}$/.test(header) ? Number(header) : Number.NaN;
  if (answer.status !== 200 || !Number.isSafeInteger(size)) {
    throw answer.brokenOnTheWay('the content came without its length');
  }
  return { size, start: 0, end: size };
}

function readPartBounds(answer: Answer, range: ContentRange): { size: number; start: number; end: number } {
  const match = /^bytes (\d{1,16})-(\d{1,16})\/(\d{1,16})$/.exec(answer.headers.get('content-range') ?? '');
  if (answer.status === 206 && match !== null) {
    const [start, last, size] = match.slice(1).map(Number) as [number, number, number];
    const expected = boundsOf(range, size);
    if (start === expected.start && last + 1 === expected.end && start <= last)
      return { size, start, end: last + 1 };
  }
  throw answer.brokenOnTheWay('other bytes came than the range that was asked for');
}

/** The body, chunk by chunk as the consumer asks. Ends well only after exactly `length` bytes. */
function streamExactly(answer: Answer, length: number, idleMs: number): ReadableStream<Uint8Array> {
  let received = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = await answer.readDetachedChunk(idleMs);
        received += chunk?.length ?? 0;
        if (received > length) {
          answer.cancel();
          throw answer.brokenOnTheWay(`more than the announced ${length} bytes of content came`);
        }
        if (chunk !== undefined) return controller.enqueue(chunk);
        if (received < length) {
          throw answer.error(
            'CONNECTION_FAILED',
            `the content broke off after ${received} of ${length} bytes`,
          );
        }
        controller.close();
      },
      cancel: () => answer.cancel(),
    },
    // Nothing is read ahead of the consumer: the network's own buffers do that.
    { highWaterMark: 0 },
  );
}
