/** One page of a bucket's keys. */
import { AttemptFailed } from './failure.ts';
import { LIST_BYTES_MAX, type S3Limits } from './limits.ts';
import type { S3Client } from './s3-client.ts';
import { parseKeyPage, XmlInvalid } from './xml-answers.ts';

/** `next`: where the page before it said that more is; undefined: the first page. */
export function listKeys(
  client: S3Client,
  { listKeysMax, batchHeadMsMax }: S3Limits,
  prefix: string,
  next: string | undefined,
): Promise<ReturnType<typeof parseKeyPage>> {
  const query = {
    'list-type': '2',
    'encoding-type': 'url',
    prefix,
    'max-keys': String(listKeysMax),
    ...(next === undefined ? {} : { 'continuation-token': next }),
  };
  const call = { method: 'GET', query, doing: 'listing the bucket', headMsMax: batchHeadMsMax } as const;
  return client.send(call, async (answer) => {
    if (answer.status !== 200) throw new AttemptFailed(`a listing was answered ${answer.status}`);
    const text = await answer.body.readText(LIST_BYTES_MAX);
    try {
      return parseKeyPage(text);
    } catch (error) {
      if (!(error instanceof XmlInvalid)) throw error;
      throw new AttemptFailed(`the answer to a listing is not in the form of S3: ${error.message}`);
    }
  });
}
