/** Turns a contradiction into proof: the object is read again in a bucket that its marker proves healthy. Only that makes a row rotten. */
import { ContentDamaged, ContentLost, StoreUnavailable } from '../../core/store-failure.ts';
import { findStrongEtag } from './etag.ts';
import { AttemptFailed, RecordContradicted } from './failure.ts';
import type { StoreMarker } from './marker.ts';
import { hasRecordedLength, type RecordedObject } from './object-range.ts';
import type { S3Client } from './s3-client.ts';

interface ProofParts {
  readonly client: S3Client;
  readonly marker: StoreMarker;
}

/** The result of `read`. If it contradicts the record, rejects with ContentLost, ContentDamaged, or StoreUnavailable (no proof). */
export async function readProven<T>(
  parts: ProofParts,
  recorded: RecordedObject,
  read: () => Promise<T>,
): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof RecordContradicted)) throw error;
    throw await proveBroken(parts, recorded, error);
  }
}

/** Resolves with ContentLost or ContentDamaged, or rejects with StoreUnavailable if nothing is proven. */
async function proveBroken(
  { client, marker }: ProofParts,
  recorded: RecordedObject,
  contradiction: RecordContradicted,
): Promise<ContentLost | ContentDamaged> {
  const { generation, space, key, etag } = recorded;
  await marker.assertHealthy();
  const seen = await client.send(
    { method: 'HEAD', key, space, doing: 'looking at an object' },
    async (answer) => {
      if (answer.status === 404) return undefined;
      const length = answer.headers.get('content-length');
      if (answer.status !== 200 || length === null) {
        throw new AttemptFailed(`the object store answered ${answer.status} about an object`);
      }
      return { etag: findStrongEtag(answer.headers), length };
    },
  );
  const options = { cause: contradiction };
  if (seen === undefined)
    return new ContentLost(`the object of generation ${generation} is not there`, options);
  if (seen.etag !== undefined && seen.etag !== etag) {
    return new ContentDamaged(`the object of generation ${generation} was replaced`, options);
  }
  if (!hasRecordedLength(recorded, Number(seen.length))) {
    return new ContentDamaged(`the object of generation ${generation} has ${seen.length} bytes`, options);
  }
  throw new StoreUnavailable(`the object store contradicts itself: ${contradiction.message}`, options);
}
