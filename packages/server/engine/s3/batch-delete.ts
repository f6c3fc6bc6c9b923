/** Deletes with DeleteObjects, a thousand keys per request. An absent key counts as deleted. */
import { groupsOf } from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { AttemptFailed } from './failure.ts';
import { DELETE_BATCH_MAX, LIST_BYTES_MAX, type S3Limits } from './limits.ts';
import type { S3Client } from './s3-client.ts';
import { formatDeleteBatch, parseBatchOutcome, XmlInvalid } from './xml-answers.ts';

/** The code of stores that report an absent key. */
const ABSENT_CODE = 'NoSuchKey';

export interface DeletedKeys {
  /** keys that are certainly gone */
  readonly deleted: ReadonlySet<string>;
  /** the first refusal to delete a key; the others were deleted all the same */
  readonly refused: StoreUnavailable | undefined;
  /** the failure of a request; no further request was sent */
  readonly failure: unknown;
}

export async function deleteKeys(
  client: S3Client,
  limits: S3Limits,
  keys: readonly string[],
  space?: Space,
): Promise<DeletedKeys> {
  const deleted = new Set<string>();
  let refused: StoreUnavailable | undefined;
  for (const batch of groupsOf(keys, DELETE_BATCH_MAX)) {
    let codes: ReadonlyMap<string, string>;
    try {
      const outcome = await deleteBatch(client, limits, batch, space);
      for (const key of outcome.deleted) deleted.add(key);
      codes = outcome.codes;
    } catch (error) {
      return { deleted, refused, failure: error ?? new Error('deleting failed') };
    }
    const left = batch.find((key) => !deleted.has(key));
    if (left !== undefined) refused ??= notDeleted(left, codes.get(left));
  }
  return { deleted, refused, failure: undefined };
}

interface DeletedBatch {
  readonly deleted: readonly string[];
  /** by key, why the store did not delete it */
  readonly codes: ReadonlyMap<string, string>;
}

async function deleteBatch(
  client: S3Client,
  limits: S3Limits,
  keys: readonly string[],
  space: Space | undefined,
): Promise<DeletedBatch> {
  const body = formatDeleteBatch(keys);
  const call = {
    method: 'POST',
    query: { delete: '' },
    headers: {
      'content-md5': new Bun.CryptoHasher('md5').update(body).digest('base64'),
      'content-type': 'application/xml',
    },
    body,
    doing: 'deleting content',
    space,
    headMsMax: limits.batchHeadMsMax,
  } as const;
  return client.send(call, async (answer) => {
    if (answer.status !== 200) throw new AttemptFailed(`a batch of deletes was answered ${answer.status}`);
    const outcome = parse(await answer.body.readText(LIST_BYTES_MAX));
    const absent = outcome.failed.filter(({ code }) => code === ABSENT_CODE).map(({ key }) => key);
    const failed = new Set(outcome.failed.map(({ key }) => key));
    for (const key of absent) failed.delete(key);
    const asked = new Set(keys);
    const deleted = [...outcome.deleted, ...absent].filter((key) => asked.has(key) && !failed.has(key));
    return { deleted, codes: new Map(outcome.failed.map(({ key, code }) => [key, code])) };
  });
}

function parse(text: string): ReturnType<typeof parseBatchOutcome> {
  try {
    return parseBatchOutcome(text);
  } catch (error) {
    if (!(error instanceof XmlInvalid)) throw error;
    throw new AttemptFailed(`the answer to a batch of deletes is not in the form of S3: ${error.message}`);
  }
}

/** A store may write anything as a code; only what looks like one is shown. */
const CODE = /^[A-Za-z0-9.]{1,64}$/;

function notDeleted(key: string, code: string | undefined): StoreUnavailable {
  const why = code !== undefined && CODE.test(code) ? ` (${code})` : '';
  return new StoreUnavailable(`the object store did not delete ${key}${why}; it will be tried again`);
}
