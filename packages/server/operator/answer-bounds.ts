/** Bounds on answers of the operator API, because another program at the address must not fill a client's memory or block it. */

import { isHeavyJson, MIB_BYTES } from '@holdfast/protocol';

/** Room for a list of 200,000 Spaces, or one line with as many findings. */
export const ANSWER_BYTES_MAX = 64 * MIB_BYTES;
/** Bytes alone are no bound of memory: ten for each of 200,000 Spaces. */
const ANSWER_PARTS_MAX = 2_000_000;

/** An answer that no Holdfast server sends. `message` is one line without the address. */
export class AnswerRefused extends Error {
  override readonly name = 'AnswerRefused';
}

/** Ends a request after too much silence, or time. It counts ticks, so time in which the process was stopped does not count. */
export class Silence {
  /** Aborts with the caller's signal, after too much silence, or after `wholeMsMax`. */
  readonly signal: AbortSignal;
  readonly #ending = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;
  #ticks = 0;
  #heardAtTick = 0;
  #refusal: AnswerRefused | undefined;

  constructor(
    caller: AbortSignal,
    silenceMsMax: number,
    wholeMsMax: number,
    tickMs = Math.min(5_000, silenceMsMax / 4),
  ) {
    this.signal = AbortSignal.any([caller, this.#ending.signal]);
    this.#timer = setInterval(() => {
      this.#ticks += 1;
      if ((this.#ticks - this.#heardAtTick) * tickMs >= silenceMsMax) {
        this.#refuse(`nothing whole came for ${Math.round(silenceMsMax / 1_000)} s`);
      } else if (this.#ticks * tickMs >= wholeMsMax) {
        this.#refuse(`the answer did not end within ${Math.round(wholeMsMax / 1_000)} s`);
      }
    }, tickMs);
  }

  /** The reason why it aborted the request, because runtimes then throw errors of their own. */
  get refusal(): AnswerRefused | undefined {
    return this.#refusal;
  }

  heard(): void {
    this.#heardAtTick = this.#ticks;
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #refuse(reason: string): void {
    this.end();
    this.#refusal = new AnswerRefused(reason);
    this.#ending.abort(this.#refusal);
  }
}

/** @throws AnswerRefused if the answer is compressed, because the client never asks for that */
export function refusePacked(headers: Headers): void {
  const encoding = headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    throw new AnswerRefused('the answer has a Content-Encoding, although none was asked for');
  }
}

/** The whole body. Rejects with AnswerRefused beyond ANSWER_BYTES_MAX. */
export async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > ANSWER_BYTES_MAX) throw tooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** The non-empty lines of the body, up to the last line end. Rejects with AnswerRefused for one longer than ANSWER_BYTES_MAX. */
export async function* readLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let begun: string[] = [];
  let length = 0;
  for await (const piece of body) {
    const [first = '', ...others] = decoder.decode(piece, { stream: true }).split('\n');
    begun.push(first);
    length += first.length;
    if (length > ANSWER_BYTES_MAX) throw tooLarge();
    const last = others.pop();
    if (last === undefined) continue;
    for (const line of [begun.join(''), ...others]) if (line !== '') yield line;
    begun = [last];
    length = last.length;
  }
}

/**
 * The value of such a text.
 * @throws AnswerRefused if it would take many times the memory of its text
 * @throws SyntaxError if it is no JSON
 */
export function parseAnswer(text: string): unknown {
  if (isHeavyJson(text, ANSWER_PARTS_MAX))
    throw new AnswerRefused('the answer has more levels or parts than any of this API');
  return JSON.parse(text);
}

function tooLarge(): AnswerRefused {
  return new AnswerRefused(`the answer is larger than ${ANSWER_BYTES_MAX / MIB_BYTES} MiB`);
}
