/** Reads bodies into memory: reserved before they are read, bounded and watched while they arrive (docs/api.md, Errors). */
import { ApiError, JSON_BODY_BYTES_MAX } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import type { Space } from '../core/model.ts';
import { askCollector, releaseBytes, releasePiece } from '../runtime/release-bytes.ts';
import type { Hold } from '../shares/fair-shares.ts';
import type { WatchedBody } from './body-watch.ts';
import type { Exchange } from './exchange.ts';
import { BODY_BYTES_PER_SECOND_MIN, BODY_PACE_SECONDS, SMALL_BODY_BYTES_MAX } from './http-limits.ts';
import type { TenantShares } from './tenant-shares.ts';

/** The request whose body is read, and the record that gets its length. */
type ReadBody = Pick<Exchange, 'request' | 'record' | 'body'>;

export interface BodyOwner {
  readonly shares: TenantShares;
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
    exchange.record.receivedBytes = bytes.length;
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
  const { request, record } = exchange;
  let hold: Hold | undefined;
  let bytes: Uint8Array = NO_BYTES;
  try {
    hold = await orDropped(request, claim);
    bytes = await readWhole(request, body, JSON_BODY_BYTES_MAX, tooLarge);
    record.receivedBytes = bytes.length;
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
