/** Content answers: which bytes were asked for, which came, and a body that is never silently short. */
import type { Answer } from './transport.ts';

/**
 * A range of the content, as HTTP counts it: from `first` up to and including `last` (or the end), or the final
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
  /**
   * The same at once, for a caller that does not read `body`, and calls this once: cheaper than its pieces. `memory`, where given, has
   * room for it, and takes back the pieces that it came in.
   */
  readonly bytes: (memory?: ContentMemory) => Promise<Uint8Array>;
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
export function openContent(
  answer: Answer,
  range: ContentRange | undefined,
  { idleMs, bytesMax }: { readonly idleMs: number; readonly bytesMax: number },
): NodeContent {
  const { size, start, end } = range === undefined ? readWholeBounds(answer) : readPartBounds(answer, range);
  const contentType = answer.headers.get('content-type') ?? '';
  answer.detach();
  const body = new ExactBody(answer, end - start, idleMs);
  const bytes = (memory?: ContentMemory) => body.readAll(memory, bytesMax);
  return { contentType, size, start, end, body: body.stream(), bytes };
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

/** The body of an answer. It ends well only after exactly `length` bytes. */
class ExactBody {
  readonly #answer: Answer;
  readonly #length: number;
  readonly #idleMs: number;
  #received = 0;
  /** Two readers would each get a part. */
  #reader: 'body' | 'bytes' | undefined;

  constructor(answer: Answer, length: number, idleMs: number) {
    this.#answer = answer;
    this.#length = length;
    this.#idleMs = idleMs;
  }

  /** Chunk by chunk as the consumer asks. */
  stream(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          this.#claim('body');
          const chunk = await this.#next();
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        },
        cancel: () => this.#answer.cancel(),
      },
      // Nothing is read ahead of the consumer: the network's own buffers do that.
      { highWaterMark: 0 },
    );
  }

  /** Rejects with RESPONSE_TOO_LARGE before any memory is taken for what the answer only says that it has. */
  async readAll(memory: ContentMemory | undefined, bytesMax: number): Promise<Uint8Array> {
    this.#claim('bytes');
    if (this.#length > bytesMax) {
      this.#answer.cancel();
      const message = `the content has ${this.#length} bytes, the limit is ${bytesMax}; stream it by body`;
      throw this.#answer.error('RESPONSE_TOO_LARGE', message);
    }
    if (this.#answer.comesWhole(this.#length, this.#idleMs)) {
      const whole = await this.#answer.readDetachedWhole(this.#idleMs);
      this.#take(whole.length);
      this.#checkEnd();
      return whole;
    }
    const whole = memory?.take(this.#length) ?? new Uint8Array(this.#length);
    const endPace = this.#answer.startPace();
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) {
      whole.set(chunk, this.#received - chunk.length);
      memory?.give(chunk);
    }
    endPace(this.#length);
    return whole;
  }

  #claim(reader: 'body' | 'bytes'): void {
    // The body is read on, piece by piece.
    const isReadOn = reader === 'body' && this.#reader === 'body';
    if (this.#reader !== undefined && !isReadOn)
      throw new TypeError('this content is being read already, by body or by bytes(): read it once');
    this.#reader = reader;
  }

  async #next(): Promise<Uint8Array | undefined> {
    const chunk = await this.#answer.readDetachedChunk(this.#idleMs);
    if (chunk === undefined) this.#checkEnd();
    else this.#take(chunk.length);
    return chunk;
  }

  #take(bytes: number): void {
    this.#received += bytes;
    if (this.#received <= this.#length) return;
    this.#answer.cancel();
    throw this.#answer.brokenOnTheWay(`more than the announced ${this.#length} bytes of content came`);
  }

  #checkEnd(): void {
    if (this.#received === this.#length) return;
    const message = `the content broke off after ${this.#received} of ${this.#length} bytes`;
    throw this.#answer.error('CONNECTION_FAILED', message);
  }
}

/** Memory that is given back as soon as it can be. If the garbage collector did that, making new pages would cost as much as the copying. */
export interface ContentMemory {
  /** `length` bytes of any content */
  take(length: number): Uint8Array;
  /** Takes back memory of `take`, or a piece of a body, that nobody looks at any more. */
  give(bytes: Uint8Array): void;
}
