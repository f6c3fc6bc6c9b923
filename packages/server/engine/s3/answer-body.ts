/** One answer's body, read in timed pieces and counted, so a wrong length never looks complete. It holds its request's slot. */
import { AttemptFailed, causeOf } from './failure.ts';

interface AnswerBodyOptions {
  readonly response: Response;
  /** false: no body follows, whatever the head says. Reading `response.body` instead would make a stream, which is slower. */
  readonly hasBody: boolean;
  readonly controller: AbortController;
  readonly stallMsMax: number;
  /** called once, when the body has ended */
  readonly onEnd: () => void;
}

export class AnswerBody {
  readonly #options: AnswerBodyOptions;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #isEnded = false;

  constructor(options: AnswerBodyOptions) {
    this.#options = options;
    if (!options.hasBody) this.#end();
  }

  /** The next piece; `undefined` at the end. Rejects with AttemptFailed. */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#isEnded) return undefined;
    this.#reader ??= this.#options.response.body?.getReader();
    const reader = this.#reader;
    const piece = reader === undefined ? undefined : await this.#inTime(() => reader.read());
    if (piece?.value === undefined) this.#end();
    return piece?.value;
  }

  /** The whole body, which must be `length` bytes. Rejects with AttemptFailed. */
  async readAll(length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(length);
    await this.readInto(bytes, length);
    return bytes;
  }

  /** All `length` bytes in one read: half the work. `undefined`: it came too slowly, broke off or did not say its length. */
  async findAll(length: number): Promise<Uint8Array | undefined> {
    const { response, stallMsMax } = this.#options;
    try {
      if (response.headers.get('content-length') !== String(length)) return undefined;
      // A slower body is read in pieces, because each piece shows that the store is still sending.
      const bytes = await this.#inTime(() => response.bytes(), stallMsMax + length / 512);
      this.#end();
      return bytes.length === length ? bytes : undefined;
    } catch (error) {
      if (error instanceof AttemptFailed) return undefined;
      throw error;
    } finally {
      this.cancel();
    }
  }

  /** Fills `bytes`; resolves with how many came. Rejects with AttemptFailed if it breaks off before `progressMin`, or is longer. */
  async readInto(bytes: Uint8Array, progressMin: number): Promise<number> {
    let filled = 0;
    for (;;) {
      const piece = await this.#findPiece(filled >= progressMin);
      if (piece === undefined) break;
      if (piece.length > bytes.length - filled) {
        this.cancel();
        throw wrongLength(bytes.length, filled + piece.length);
      }
      bytes.set(piece, filled);
      filled += piece.length;
    }
    if (filled < bytes.length && filled < progressMin) throw wrongLength(bytes.length, filled);
    return filled;
  }

  /** The body as text, at most `bytesMax` of it. Rejects with AttemptFailed. */
  async readText(bytesMax: number): Promise<string> {
    const pieces: Uint8Array[] = [];
    let length = 0;
    for (let piece = await this.read(); piece !== undefined; piece = await this.read()) {
      length += piece.length;
      if (length > bytesMax) {
        this.cancel();
        throw new AttemptFailed(`an answer of the object store is longer than ${bytesMax} bytes`);
      }
      pieces.push(piece);
    }
    return new TextDecoder().decode(Buffer.concat(pieces));
  }

  /** Ends the request; the connection is cut if bytes are still to come. */
  cancel(): void {
    if (this.#isEnded) return;
    this.#end();
    this.#options.controller.abort();
    this.#reader?.cancel().catch(() => undefined);
  }

  /** A break counts as the end where that is good enough. */
  async #findPiece(isBreakEnd: boolean): Promise<Uint8Array | undefined> {
    try {
      return await this.read();
    } catch (error) {
      if (isBreakEnd && error instanceof AttemptFailed) return undefined;
      throw error;
    }
  }

  async #inTime<T>(read: () => Promise<T>, msMax = this.#options.stallMsMax): Promise<T> {
    const { controller } = this.#options;
    const timer = setTimeout(() => {
      controller.abort(new AttemptFailed(`the object store sent too little for ${msMax} ms`));
    }, msMax);
    try {
      return await read();
    } catch (error) {
      this.#end();
      if (error instanceof AttemptFailed) throw error;
      throw new AttemptFailed('the object store broke off its answer', { cause: causeOf(error) });
    } finally {
      clearTimeout(timer);
    }
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#options.onEnd();
  }
}

export function wrongLength(expected: number, got: number): AttemptFailed {
  return new AttemptFailed(`the object store sent ${got} bytes where ${expected} were due`);
}
