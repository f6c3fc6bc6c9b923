/**
 * Reads request bodies into memory (docs/api.md, Errors). Memory is reserved before a body is read; its size and pace are checked while it
 * arrives. A body that is too slow, or whose share another caller needs, is cut off.
 */
import { ApiError, JSON_BODY_BYTES_MAX } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import type { Space } from '../core/model.ts';
import { askCollector, releaseBytes, releasePiece } from '../runtime/release-bytes.ts';
import type { FairRounds } from '../shares/fair-queue.ts';
import type { FairShares, Hold } from '../shares/fair-shares.ts';
import { exhausted } from '../shares/share-tree.ts';
import { BODY_BYTES_PER_SECOND_MIN, BODY_PACE_SECONDS, SMALL_BODY_BYTES_MAX } from './http-limits.ts';

/** The request whose body is read, the bytes received so far, and the handle that cuts the body off. */
interface ReadBody {
  readonly request: Request;
  receivedBytes: number;
  body?: { giveWay(): void } | undefined;
}

interface BodyOwner {
  readonly shares: {
    readonly bodies: FairShares;
    readonly bodyTurns: FairRounds;
    readonly pace: BodyWatch;
  };
  readonly space: Space;
}

const NO_BYTES = new Uint8Array(0);
const DIGITS = /^[0-9]{1,15}$/;

/** The declared length of a body in bytes; undefined when the body is chunked or there is none. */
export function declaredLengthOf(request: Request): number | undefined {
  const header = request.headers.get('content-length');
  return header !== null && DIGITS.test(header) ? Number(header) : undefined;
}

/** A JSON body, used while its memory is held. Rejects with INVALID_REQUEST, PAYLOAD_TOO_LARGE or RESOURCE_EXHAUSTED. */
export function withJsonBody<R>(
  exchange: ReadBody,
  owner: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
): Promise<R> {
  checkJsonMediaType(exchange.request);
  return withBounded(exchange, owner, use);
}

/** As `withJsonBody`; an absent or empty body needs no media type. */
export async function withOptionalJsonBody<R>(
  exchange: ReadBody,
  owner: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
): Promise<R> {
  const { request } = exchange;
  if (request.body === null || declaredLengthOf(request) === 0) return use(NO_BYTES);
  return withBounded(exchange, owner, (bytes) => {
    if (bytes.length > 0) checkJsonMediaType(request);
    return use(bytes);
  });
}

/** The most memory that a JSON body may take: without a declared length, the maximum. */
export function jsonBytesAtMost(request: Request): number {
  const bytes = declaredLengthOf(request) ?? (request.body === null ? 0 : JSON_BODY_BYTES_MAX);
  return Math.min(bytes, JSON_BODY_BYTES_MAX);
}

/** The bytes that may still arrive after `receivedBytes`. */
export function unreadBytesAtMost(request: Request, receivedBytes: number): number {
  if (request.method !== 'POST' && request.method !== 'PUT') return 0;
  const declaredLength = declaredLengthOf(request);
  if (declaredLength !== undefined) return declaredLength - receivedBytes;
  return receivedBytes > 0 || request.body === null ? 0 : Number.POSITIVE_INFINITY;
}

function withBounded<R>(
  exchange: ReadBody,
  owner: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
): Promise<R> {
  const declaredLength = declaredLengthOf(exchange.request);
  if (declaredLength === undefined || declaredLength > SMALL_BODY_BYTES_MAX)
    return withCounted(exchange, owner, use, declaredLength);
  return withSmall(exchange, owner, use);
}

/** Most bodies: with a single await, because each step costs a large part of a request. */
function withSmall<R>(
  exchange: ReadBody,
  { shares }: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
): Promise<R> {
  const body = shares.pace.watch();
  exchange.body = body;
  return body.bringWhole(exchange.request.bytes(), (bytes) => {
    exchange.body = undefined;
    exchange.receivedBytes = bytes.length;
    return use(bytes);
  });
}

/** Throws at once if there is no room: repeated refusals must be cheap. */
function withCounted<R>(
  exchange: ReadBody,
  owner: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
  declaredLength: number | undefined,
): Promise<R> {
  if ((declaredLength ?? 0) > JSON_BODY_BYTES_MAX) throw tooLarge();
  const { shares, space } = owner;
  const length = jsonBytesAtMost(exchange.request);
  const body = shares.pace.watch();
  try {
    const onReclaim = (): void => body.giveWay();
    const hold = shares.bodies.acquire(space.appId, space.spaceId, length, { onReclaim });
    exchange.body = body;
    return useCounted(exchange, owner, use, hold, body);
  } catch (error) {
    body.end();
    throw error;
  }
}

/** Resolves as `claim` does. If it fails, the received part is freed at once: the runtime would keep it until collection. */
export async function orDropped<T>(request: Request, claim: Awaitable<T>): Promise<T> {
  try {
    return await claim;
  } catch (error) {
    void request.body?.cancel().catch(() => undefined);
    throw error;
  }
}

async function useCounted<R>(
  exchange: ReadBody,
  { shares, space }: BodyOwner,
  use: (bytes: Uint8Array) => Awaitable<R>,
  claim: Awaitable<Hold>,
  body: WatchedBody,
): Promise<R> {
  const { request } = exchange;
  let hold: Hold | undefined;
  let bytes: Uint8Array = NO_BYTES;
  try {
    hold = await orDropped(request, claim);
    bytes = await readWhole(request, body, JSON_BODY_BYTES_MAX, tooLarge);
    exchange.receivedBytes = bytes.length;
    hold.shrinkTo(bytes.length);
    body.end();
    exchange.body = undefined;
    await shares.bodyTurns.next(space.appId, space.spaceId, bytes.length);
    return await use(bytes);
  } finally {
    body.end();
    if (bytes.length > 0) releaseBytes(bytes);
    // The text is garbage now.
    askCollector(bytes.length);
    hold?.release();
  }
}

/** HTTP framing keeps a body to its declared length, so only a body without a length is counted. */
export async function readWhole(
  request: Request,
  watched: WatchedBody,
  bytesMax: number,
  overflow: () => ApiError,
): Promise<Uint8Array> {
  const declaredLength = declaredLengthOf(request);
  // A body that takes longer is too slow anyway: no need to look at its pieces.
  if (declaredLength !== undefined && declaredLength <= BODY_BYTES_PER_SECOND_MIN * BODY_PACE_SECONDS) {
    const bytes = new Uint8Array(await watched.bring(request.arrayBuffer()));
    if (bytes.length > bytesMax) throw overflow();
    return bytes;
  }
  if (request.body === null) return NO_BYTES;
  const reader = request.body.getReader();
  try {
    return await (declaredLength === undefined
      ? readCounting(reader, watched, bytesMax, overflow)
      : readDeclared(reader, watched, Math.min(declaredLength, bytesMax), overflow));
  } catch (error) {
    // The sender may be gone or slow, so the cancellation is not awaited.
    void reader.cancel().catch(() => undefined);
    throw error;
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Into memory of its own: pieces that wait for the garbage collector took several times as much. */
async function readDeclared(
  reader: Reader,
  watched: WatchedBody,
  bytesMax: number,
  overflow: () => ApiError,
): Promise<Uint8Array> {
  const whole = new Uint8Array(bytesMax);
  let length = 0;
  for (;;) {
    const { done, value: piece } = await watched.bring(reader.read());
    if (done) return whole.subarray(0, length);
    watched.note(piece.length);
    if (length + piece.length > bytesMax) throw overflow();
    whole.set(piece, length);
    length += piece.length;
    releasePiece(piece);
  }
}

async function readCounting(
  reader: Reader,
  watched: WatchedBody,
  bytesMax: number,
  overflow: () => ApiError,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value: piece } = await watched.bring(reader.read());
    if (done) break;
    length += piece.length;
    watched.note(piece.length);
    if (length > bytesMax) throw overflow();
    pieces.push(piece);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
    releasePiece(piece);
  }
  return whole;
}

function checkJsonMediaType(request: Request): void {
  if (isJson(request.headers.get('content-type'))) return;
  throw new ApiError('INVALID_REQUEST', 'send the body as JSON, with content-type: application/json');
}

function isJson(contentType: string | null): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === null) return false;
  const parametersAt = contentType.indexOf(';');
  const essence = parametersAt < 0 ? contentType : contentType.slice(0, parametersAt);
  return essence.trim().toLowerCase() === 'application/json';
}

const tooLarge = (): ApiError =>
  new ApiError('PAYLOAD_TOO_LARGE', `a JSON body may have at most ${JSON_BODY_BYTES_MAX} bytes`);

const LOOK_SECONDS = 5;
const LOOKS = BODY_PACE_SECONDS / LOOK_SECONDS;
const BYTES_OF_LOOK_MIN = BODY_BYTES_PER_SECOND_MIN * LOOK_SECONDS;

/** The connection cannot be reused: the rest of the body would have to be read first. */
const CLOSING = { connection: 'close' };

export class BodyWatch {
  readonly #bodies = new Set<WatchedBody>();
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Watches one body until its `end` is called. */
  watch(): WatchedBody {
    const body = new WatchedBody(this);
    this.#bodies.add(body);
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.look(), LOOK_SECONDS * 1000);
      this.#timer.unref();
    }
    return body;
  }

  /** Called every `LOOK_SECONDS`. The timer stops only after a call that finds no body, because most bodies come and go between two calls. */
  look(): void {
    for (const body of this.#bodies) body.look();
    if (this.#bodies.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  forget(body: WatchedBody): void {
    this.#bodies.delete(body);
  }
}

export class WatchedBody {
  readonly #watch: BodyWatch;
  /** bytes that came between the last looks, the latest last */
  readonly #looks: number[] = [];
  #bytes = 0;
  #isAwaited = false;
  #failure: ApiError | undefined;
  #fail: ((error: ApiError) => void) | undefined;

  constructor(watch: BodyWatch) {
    this.#watch = watch;
  }

  /** Resolves as `reading` does; rejects when the body is cut off. */
  bring<T>(reading: Promise<T>): Promise<T> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#isAwaited = true;
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      reading.then(
        (bytes) => {
          this.#isAwaited = false;
          resolve(bytes);
        },
        (error: unknown) => reject(error),
      );
    });
  }

  /** Resolves with the result of `use` for the whole body. The watch ends before `use` is called. */
  bringWhole<T, R>(reading: Promise<T>, use: (bytes: T) => Awaitable<R>): Promise<R> {
    this.#isAwaited = true;
    return new Promise((resolve, reject) => {
      this.#fail = (failure) => {
        this.end();
        reject(failure);
      };
      reading.then(
        (bytes) => {
          if (this.#failure !== undefined) return;
          this.end();
          try {
            resolve(use(bytes));
          } catch (error) {
            reject(error);
          }
        },
        (error: unknown) => {
          this.end();
          reject(error);
        },
      );
    });
  }

  note(bytes: number): void {
    this.#bytes += bytes;
  }

  end(): void {
    this.#watch.forget(this);
  }

  /** Cuts the body off, because another tenant within its share needs the memory. */
  giveWay(): void {
    this.#cut(exhausted('other callers needed the memory that this body held; try again shortly', CLOSING));
  }

  look(): void {
    // If the server has not read more, the sender may not be to blame.
    this.#looks.push(this.#isAwaited ? this.#bytes : Math.max(this.#bytes, BYTES_OF_LOOK_MIN));
    this.#bytes = 0;
    if (this.#looks.length <= LOOKS) return;
    this.#looks.shift();
    const received = this.#looks.reduce((sum, bytes) => sum + bytes, 0);
    if (received >= BYTES_OF_LOOK_MIN * LOOKS) return;
    this.#cut(
      new ApiError(
        'INVALID_REQUEST',
        `the body came too slowly: less than ${BODY_BYTES_PER_SECOND_MIN} bytes/s over ${BODY_PACE_SECONDS} s; send it again over a better connection`,
        { headers: CLOSING },
      ),
    );
  }

  #cut(failure: ApiError): void {
    this.#failure ??= failure;
    this.#fail?.(this.#failure);
  }
}
