/** GET and HEAD of a file, whole or in part. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  type Hash,
  Semaphore,
  type TreeItem,
  type TreeReader,
} from '@holdfast/client/internal';
import { DoorError } from './door.ts';
import { SILENCE_MS_MAX } from './received-body.ts';

/** Bytes on their way to all clients, so that memory stays bounded however many there are. */
const sending = new Semaphore(16 * 1024 * 1024);
/** Bytes of them on their way from the server. They are held several times until they are verified. */
const reading = new Semaphore(8 * 1024 * 1024);

export interface SentFile {
  readonly tree: TreeReader;
  readonly item: TreeItem;
  /** beside those of every file */
  readonly headers?: Readonly<Record<string, string>>;
  /** the whole file, where it is in memory */
  readonly kept?: Uint8Array;
  /** bytes at the beginning that nobody gets */
  readonly skipped?: number;
}

/** A file of a stranger is no page of the gateway's. */
export const SAFE_FILE = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
};

export function tagOf(hash: Hash): string {
  return `"${Buffer.from(hash, 'hex').toString('base64url')}"`;
}

export function listTags(header: string | undefined): readonly string[] | undefined {
  return header?.split(',').map((tag) => tag.trim());
}

/** Throws DoorError 412, 416. */
export async function sendFile(
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  { tree, item, kept, headers: given = {}, skipped = 0 }: SentFile,
): Promise<void> {
  const tag = tagOf(item.hash);
  const bytes = item.bytes - skipped;
  const type = 'application/octet-stream';
  const headers = { ...SAFE_FILE, etag: tag, 'accept-ranges': 'bytes', 'content-type': type, ...given };
  const { 'if-match': match, 'if-none-match': noneMatch } = request.headers;
  const fits = (header: string | undefined) => listTags(header)?.some((each) => each === '*' || each === tag);
  if (fits(match) === false) throw new DoorError(412, 'what is there is not what the request says');
  // A proxy that packs answers weakens their tags.
  if (fits(noneMatch?.replaceAll('W/', ''))) return void response.writeHead(304, headers).end();
  const wanted = request.headers['if-range'];
  const isSame = wanted === undefined || wanted === tag || wanted === given['last-modified'];
  const range = isSame ? parseRange(request.headers.range, bytes) : undefined;
  const { start, end } = range ?? { start: 0, end: bytes };
  const rangeHeaders = range === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${bytes}` };
  const writeHead = (): void => {
    const length = { 'content-length': end - start };
    response.writeHead(range === undefined ? 200 : 206, { ...headers, ...rangeHeaders, ...length });
  };
  if (request.method === 'HEAD' || start === end) {
    writeHead();
    return void response.end();
  }
  const shown = { start: start + skipped, end: end + skipped };
  if (kept !== undefined) {
    writeHead();
    return void response.end(kept.subarray(shown.start, shown.end));
  }
  // A piece is its whole chunk in memory; only a reader that is alone reads ahead.
  const weight = item.bytes <= CHUNK_BYTES_MIN ? 0 : Math.min(item.bytes, CHUNK_BYTES_MAX);
  const readAheadNodes = sendingCount === 0 ? undefined : 0;
  const pieces = tree.readFile(item, { range: shown, readAheadNodes });
  sendingCount += 1;
  try {
    for (let isFirst = true; ; isFirst = false) {
      const release = await take(sending, weight);
      try {
        const { done, value } = await readPiece(pieces, weight);
        // Only now it is known that the server answers.
        if (isFirst) writeHead();
        if (done) break;
        if (!response.write(value)) await drained(response);
      } finally {
        release();
      }
    }
    response.end();
  } finally {
    sendingCount -= 1;
    await pieces.return();
  }
}

let sendingCount = 0;

/** A small file waits for no large one. */
async function take(semaphore: Semaphore, weight: number): Promise<() => void> {
  return weight === 0 ? () => undefined : semaphore.take(weight);
}

async function readPiece(
  pieces: AsyncGenerator<Uint8Array, void, undefined>,
  weight: number,
): Promise<IteratorResult<Uint8Array, void>> {
  const release = await take(reading, weight);
  try {
    return await pieces.next();
  } finally {
    release();
  }
}

/** Rejects with DoorError when the client goes, or takes nothing for too long. */
async function drained(response: ServerResponse): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (): void => reject(new DoorError(408, 'the client takes nothing more'));
  const late = setTimeout(fail, SILENCE_MS_MAX);
  if (response.destroyed || response.closed) fail();
  response.once('drain', resolve).once('close', fail);
  try {
    await promise;
  } finally {
    clearTimeout(late);
    response.off('drain', resolve).off('close', fail);
  }
}

/** One range; what is none is passed over. Throws DoorError 416. */
function parseRange(header: string | undefined, bytes: number): { start: number; end: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  if (start < end) return { start, end };
  throw new DoorError(416, 'the range is not in the file', { 'content-range': `bytes */${bytes}` });
}
