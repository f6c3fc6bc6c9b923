/** Reads JSON bodies, bounded before and while they arrive (docs/api.md, Errors). */
import { ApiError, JSON_BODY_BYTES_MAX } from '@holdfast/protocol';
import type { Exchange } from './exchange.ts';
import type { RequestRecord } from './request-record.ts';

/** The request whose body is read, and the record that is told its length. */
type ReadBody = Pick<Exchange, 'request' | 'record'>;

const NO_BYTES = new Uint8Array(0);
const DIGITS = /^[0-9]{1,15}$/;

/** The declared length of a body in bytes; undefined when the body is chunked or there is none. */
export function declaredLengthOf(request: Request): number | undefined {
  const header = request.headers.get('content-length');
  return header !== null && DIGITS.test(header) ? Number(header) : undefined;
}

/** A body that must be JSON. Throws ApiError INVALID_REQUEST (media type), PAYLOAD_TOO_LARGE. */
export async function readJsonBody({ request, record }: ReadBody): Promise<Uint8Array> {
  checkJsonMediaType(request);
  return counted(await readBounded(request), record);
}

/** As `readJsonBody`; an absent or empty body needs no media type. */
export async function readOptionalJsonBody({ request, record }: ReadBody): Promise<Uint8Array> {
  if (request.body === null || declaredLengthOf(request) === 0) return NO_BYTES;
  if (isJson(request.headers.get('content-type'))) return counted(await readBounded(request), record);
  const bytes = counted(await readBounded(request), record);
  if (bytes.length > 0) checkJsonMediaType(request);
  return bytes;
}

function counted(bytes: Uint8Array, record: RequestRecord): Uint8Array {
  record.receivedBytes = bytes.length;
  return bytes;
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

/** HTTP framing keeps a body to its declared length, so only a body without a length is counted. */
async function readBounded(request: Request): Promise<Uint8Array> {
  const declaredLength = declaredLengthOf(request);
  if (declaredLength !== undefined) {
    if (declaredLength > JSON_BODY_BYTES_MAX) throw tooLarge();
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.length > JSON_BODY_BYTES_MAX) throw tooLarge();
    return bytes;
  }
  return request.body === null ? NO_BYTES : readCounting(request.body);
}

async function readCounting(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    length += next.value.length;
    if (length > JSON_BODY_BYTES_MAX) {
      await reader.cancel();
      throw tooLarge();
    }
    chunks.push(next.value);
  }
  return Buffer.concat(chunks, length);
}

const tooLarge = (): ApiError =>
  new ApiError('PAYLOAD_TOO_LARGE', `a JSON body may have at most ${JSON_BODY_BYTES_MAX} bytes`);
