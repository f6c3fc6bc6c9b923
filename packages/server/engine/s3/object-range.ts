/** Ranges of an object as its record has it, with every claim of an answer checked before a byte is used. */
import type { Generation, Space } from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import type { AnswerBody } from './answer-body.ts';
import { findStrongEtag } from './etag.ts';
import { AttemptFailed, RecordContradicted } from './failure.ts';
import type { S3Answer, S3Client } from './s3-client.ts';

interface Range {
  readonly start: number;
  /** exclusive */
  readonly end: number;
}

export interface RecordedObject {
  readonly space: Space;
  readonly generation: Generation;
  readonly key: string;
  readonly etag: string;
  /** The object has no fewer bytes, and no more than `bytesMax`. */
  readonly bytesMin: number;
  readonly bytesMax: number;
}

/** Bytes [start, end). `take` is given a body of that length. Rejects with RecordContradicted, or StoreUnavailable. */
export function readRange<T>(
  client: S3Client,
  recorded: RecordedObject,
  range: Range,
  take: (body: AnswerBody) => Promise<T>,
): Promise<T> {
  const { key, etag, space } = recorded;
  const { start, end } = range;
  const headers = { range: `bytes=${start}-${end - 1}`, 'if-match': etag };
  return client.send({ method: 'GET', key, headers, space, doing: 'reading content' }, async (answer) => {
    checkAnswer(answer, recorded, start, end);
    return take(answer.body);
  });
}

/** Bytes [start, end) in memory, read piece by piece if need be; a broken connection costs only the rest. Rejects as `readRange`. */
export async function gatherRange(
  client: S3Client,
  recorded: RecordedObject,
  { start, end }: Range,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const ask = <T>(range: Range, take: (body: AnswerBody) => Promise<T>): Promise<T> => {
    if (signal?.aborted === true) throw nobodyWaits();
    return readRange(client, recorded, range, (body) => whileWaitedFor(body, signal, take));
  };
  const whole = await ask({ start, end }, (body) => body.findAll(end - start));
  if (whole !== undefined) return whole;
  const bytes = new Uint8Array(end - start);
  let filled = 0;
  while (filled < bytes.length) {
    const rest = bytes.subarray(filled);
    const left = { start: start + filled, end };
    // A break before this is a failed attempt, and they are counted.
    filled += await ask(left, (body) => body.readInto(rest, 64 * 1024));
  }
  return bytes;
}

/** Ends the request when no caller waits any more, and prevents a retry. */
async function whileWaitedFor<T>(
  body: AnswerBody,
  signal: AbortSignal | undefined,
  take: (body: AnswerBody) => Promise<T>,
): Promise<T> {
  const cancel = (): void => body.cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  try {
    if (signal?.aborted === true) throw nobodyWaits();
    return await take(body);
  } catch (error) {
    throw signal?.aborted === true ? nobodyWaits() : error;
  } finally {
    signal?.removeEventListener('abort', cancel);
  }
}

const nobodyWaits = (): StoreUnavailable => new StoreUnavailable('nobody waits for this content any more');

export function hasRecordedLength({ bytesMin, bytesMax }: RecordedObject, bytes: number): boolean {
  return bytes >= bytesMin && bytes <= bytesMax;
}

function checkAnswer(answer: S3Answer, recorded: RecordedObject, start: number, end: number): void {
  const { status, code, headers } = answer;
  if (status === 404 && code === 'NoSuchKey') throw new RecordContradicted('the object is not there');
  if (status === 412) throw new RecordContradicted('the object has another ETag');
  if (status === 416) throw new RecordContradicted('the object is too short for the range');
  if (status !== 206) throw new AttemptFailed(`the object store answered ${status} to a range`);
  const seen = findStrongEtag(headers);
  if (seen === undefined) throw new AttemptFailed('the object store sent a range without an ETag');
  if (seen !== recorded.etag) throw new RecordContradicted('the object has another ETag');
  const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get('content-range') ?? '') ?? [];
  if (total !== undefined && !hasRecordedLength(recorded, Number(total))) {
    throw new RecordContradicted(`the object has ${total} bytes where its record has ${recorded.bytesMin}`);
  }
  const length = headers.get('content-length');
  const isAsked = first === String(start) && last === String(end - 1) && total !== undefined;
  if (!isAsked || (length !== null && length !== String(end - start))) {
    throw new AttemptFailed('the object store sent another range than it was asked for');
  }
}
