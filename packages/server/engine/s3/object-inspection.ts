/** Looks for the object of a generation and validates it, streaming it once (docs/api.md, leaseNode). */
import type { Hash } from '@holdfast/protocol';
import { tooLarge, UploadJudge } from '../../core/lease/upload-judge.ts';
import type { Space } from '../../core/model.ts';
import type { InspectedObject } from '../../core/ports.ts';
import type { NodeLimits } from '../../core/upload-ports.ts';
import { askCollector } from '../../runtime/release-bytes.ts';
import { type AnswerBody, wrongLength } from './answer-body.ts';
import { etagToIntegrity, findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import type { StoreMarker } from './marker.ts';
import type { S3Answer, S3Client } from './s3-client.ts';

export async function inspectObject(
  { client, marker }: { readonly client: S3Client; readonly marker: StoreMarker },
  { key, space }: { readonly key: string; readonly space: Space },
  hash: Hash,
  limits: NodeLimits,
): Promise<InspectedObject> {
  const inspected = await client.send(
    { method: 'GET', key, space, doing: 'looking at an object' },
    (answer) => inspectAnswer(answer, hash, limits.nodeBytesMax),
  );
  // Absence counts only in our own bucket.
  if (!inspected.found) await marker.assertRecentlyHealthy();
  return inspected;
}

/** The length of an object; `undefined`: there is none. */
export function findBytes(
  client: S3Client,
  { key, space }: { readonly key: string; readonly space: Space },
): Promise<number | undefined> {
  return client.send({ method: 'HEAD', key, space, doing: 'looking at an object' }, async (answer) => {
    if (answer.status === 404) return undefined;
    if (answer.status === 200) return parseLength(answer.headers.get('content-length'));
    throw new AttemptFailed(`the object store answered ${answer.status} about an object`);
  });
}

async function inspectAnswer(answer: S3Answer, hash: Hash, nodeBytesMax: number): Promise<InspectedObject> {
  const opened = openObject(answer);
  if (opened === undefined) return { found: false };
  if (opened.bytes > nodeBytesMax) return { found: true, evidence: tooLarge(nodeBytesMax) };
  const judge = new UploadJudge(hash);
  for await (const piece of opened.read()) judge.push(piece);
  return { found: true, evidence: judge.judge(() => etagToIntegrity(opened.etag), false) };
}

interface OpenedObject {
  readonly bytes: number;
  readonly etag: string;
  /** All pieces, in order, once. Rejects with AttemptFailed if they are not `bytes` together. */
  read(): AsyncGenerator<Uint8Array>;
}

/** The whole object that an answer brings; `undefined`: there is none. Throws AttemptFailed. */
export function openObject({ status, code, headers, body }: S3Answer): OpenedObject | undefined {
  if (status === 404 && code === 'NoSuchKey') return undefined;
  if (status !== 200) throw new AttemptFailed(`the object store answered ${status} to a read of an upload`);
  const bytes = parseLength(headers.get('content-length'));
  const etag = findStrongEtag(headers);
  if (etag === undefined) throw new AttemptFailed('the object store sent an object without a strong ETag');
  return { bytes, etag, read: () => readWhole(body, bytes) };
}

async function* readWhole(body: AnswerBody, length: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
    bytes += piece.length;
    if (bytes > length) throw wrongLength(length, bytes);
    yield piece;
    askCollector(piece.length);
  }
  if (bytes !== length) throw wrongLength(length, bytes);
}

function parseLength(text: string | null): number {
  if (text === null || !/^\d{1,15}$/.test(text)) {
    throw new AttemptFailed('the object store sent an object without its length');
  }
  return Number(text);
}
