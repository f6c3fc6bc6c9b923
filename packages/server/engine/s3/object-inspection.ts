/** Looks for the object of a generation and validates it, streaming it once (docs/api.md, leaseNode). */
import type { Hash } from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import type { InspectedObject, NodeLimits } from '../../core/ports.ts';
import { tooLarge, UploadJudge } from '../../core/upload-judge.ts';
import { wrongLength } from './answer-body.ts';
import { etagToIntegrity, findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import type { StoreMarker } from './marker.ts';
import type { S3Answer, S3Client } from './s3-client.ts';

/**
 * After this many bytes, over all inspections, the garbage collector is called: by itself it lets pieces from sockets pile up.
 */
const COLLECT_BYTES = 32 * 1024 * 1024;
let uncollectedBytes = 0;

export async function inspectObject(
  { client, marker }: { readonly client: S3Client; readonly marker: StoreMarker },
  { key, space }: { readonly key: string; readonly space: Space },
  hash: Hash,
  limits: NodeLimits,
): Promise<InspectedObject> {
  const inspected = await client.send(
    { method: 'GET', key, space, doing: 'validating an upload' },
    (answer) => inspectAnswer(answer, hash, limits.nodeBytesMax),
  );
  // Absence counts only in our own bucket.
  if (!inspected.found) await marker.assertRecentlyHealthy();
  return inspected;
}

async function inspectAnswer(answer: S3Answer, hash: Hash, nodeBytesMax: number): Promise<InspectedObject> {
  const { status, code, headers, body } = answer;
  if (status === 404 && code === 'NoSuchKey') return { found: false };
  if (status !== 200) throw new AttemptFailed(`the object store answered ${status} to a read of an upload`);
  const length = parseLength(headers.get('content-length'));
  if (length > nodeBytesMax) return { found: true, evidence: tooLarge(nodeBytesMax) };
  const etag = findStrongEtag(headers);
  if (etag === undefined) throw new AttemptFailed('the object store sent an object without a strong ETag');
  const judge = new UploadJudge(hash);
  let bytes = 0;
  for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
    bytes += piece.length;
    if (bytes > length) throw wrongLength(length, bytes);
    judge.push(piece);
    askCollector(piece.length);
  }
  if (bytes !== length) throw wrongLength(length, bytes);
  return { found: true, evidence: judge.judge(() => etagToIntegrity(etag), false) };
}

function parseLength(text: string | null): number {
  if (text === null || !/^\d{1,15}$/.test(text)) {
    throw new AttemptFailed('the object store sent an object without its length');
  }
  return Number(text);
}

function askCollector(bytes: number): void {
  uncollectedBytes += bytes;
  if (uncollectedBytes < COLLECT_BYTES) return;
  uncollectedBytes = 0;
  Bun.gc(false);
}
