/**
 * A large range as a stream. The store is read as fast as the reader reads. A connection that breaks is taken up again where
 * it broke, for the same ETag; a reader that pauses gives its place up, so that slow readers cannot hold all of them.
 */
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/ports.ts';
import { type AnswerBody, wrongLength } from './answer-body.ts';
import { AttemptFailed, RecordContradicted } from './failure.ts';
import type { S3Limits } from './limits.ts';
import { type RecordedObject, readRange } from './object-range.ts';
import type { S3Client } from './s3-client.ts';

/** Breaks of one stream, and those in a row between which it got no further. */
const BREAKS_MAX = 64;
const VAIN_BREAKS_MAX = 5;
const PROGRESS_BYTES = 64 * 1024;

interface ObjectStreamOptions {
  readonly client: S3Client;
  readonly recorded: RecordedObject;
  readonly start: number;
  readonly end: number;
  readonly limits: S3Limits;
  /** resolves with the proof, or rejects when nothing is proven */
  readonly prove: (contradiction: RecordContradicted) => Promise<ContentDamaged | ContentLost>;
}

export class ObjectStream {
  readonly #options: ObjectStreamOptions;
  #position: number;
  #body: AnswerBody | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #breaks = 0;
  #vainBreaks = 0;
  #brokeAt = 0;
  #isCancelled = false;

  constructor(options: ObjectStreamOptions) {
    this.#options = options;
    this.#position = options.start;
    this.#brokeAt = options.start;
  }

  /** The next piece; `undefined` at the end of the range. Rejects with ContentDamaged, ContentLost or StoreUnavailable. */
  async next(): Promise<Uint8Array | undefined> {
    clearTimeout(this.#idleTimer);
    const { end } = this.#options;
    for (;;) {
      if (this.#isCancelled) return undefined;
      if (this.#position === end) return this.#finish();
      try {
        const piece =
          this.#body === undefined ? await this.#reopen() : await readPiece(this.#body, end - this.#position);
        this.#position += piece.length;
        this.#watchReader();
        return piece;
      } catch (error) {
        this.#drop();
        if (error instanceof RecordContradicted) throw await this.#options.prove(error);
        if (!(error instanceof AttemptFailed)) throw error;
        if (!this.#mayGoOn()) throw brokenOff(error);
      }
    }
  }

  cancel(): void {
    this.#isCancelled = true;
    clearTimeout(this.#idleTimer);
    this.#drop();
  }

  #mayGoOn(): boolean {
    if (this.#position - this.#brokeAt >= PROGRESS_BYTES) this.#vainBreaks = 0;
    this.#brokeAt = this.#position;
    this.#vainBreaks += 1;
    this.#breaks += 1;
    return this.#vainBreaks <= VAIN_BREAKS_MAX && this.#breaks <= BREAKS_MAX;
  }

  async #reopen(): Promise<Uint8Array> {
    const { client, recorded, end } = this.#options;
    const start = this.#position;
    const [body, piece] = await readRange(client, recorded, { start, end }, async (opened) => {
      const first = await readPiece(opened, end - start);
      return [opened.keep(), first] as const;
    });
    if (this.#isCancelled) body.cancel();
    else this.#body = body;
    return piece;
  }

  /** The range is complete; the store must think so too. */
  async #finish(): Promise<undefined> {
    const body = this.#body;
    this.#body = undefined;
    const extra = await body?.read();
    if (extra === undefined) return;
    body?.cancel();
    const { start, end } = this.#options;
    throw brokenOff(wrongLength(end - start, end - start + extra.length));
  }

  #watchReader(): void {
    if (this.#isCancelled || this.#body === undefined) return;
    this.#idleTimer = setTimeout(() => this.#drop(), this.#options.limits.idleReaderMs);
  }

  #drop(): void {
    this.#body?.cancel();
    this.#body = undefined;
  }
}

const brokenOff = (cause: AttemptFailed): StoreUnavailable =>
  new StoreUnavailable(`reading content broke off: ${cause.message}`, { cause });

async function readPiece(body: AnswerBody, leftBytes: number): Promise<Uint8Array> {
  const piece = await body.read();
  if (piece === undefined)
    throw new AttemptFailed(`the object store broke off ${leftBytes} bytes before the end`);
  if (piece.length > leftBytes) throw wrongLength(leftBytes, piece.length);
  return piece;
}

/** `first` was read already: the stream exists only once that is proven. */
export function toReadable(
  stream: ObjectStream,
  first: Uint8Array,
  onBroken: (proof: ContentDamaged | ContentLost) => void,
): ReadableStream<Uint8Array> {
  let pending: Uint8Array | undefined = first;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const piece = pending ?? (await stream.next());
          pending = undefined;
          if (piece === undefined) controller.close();
          else controller.enqueue(piece);
        } catch (error) {
          if (error instanceof ContentDamaged || error instanceof ContentLost) onBroken(error);
          throw error;
        }
      },
      cancel() {
        stream.cancel();
      },
    },
    { highWaterMark: 0 },
  );
}
