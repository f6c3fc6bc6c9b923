/** Tries out at every start what a bucket must do: take uploads only as signed, let one writer win a key, return validated bytes. */

import { HOUR_MS } from '@holdfast/protocol';
import { EngineRefused } from '../refused.ts';
import { deleteKeys } from './batch-delete.ts';
import { findStrongEtag } from './etag.ts';
import { type ProbeParts, ProbeRequests, withoutQuery } from './probe-requests.ts';

const RACERS = 32;
const EVERYONE = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"';

/**
 * Some stores obey headers of a presigned PUT that are not signed: `x-amz-copy-source` makes it a copy of any object that these
 * credentials may read, past `if-none-match`, and an ACL publishes the result. If these values are signed, ACLs stay private and
 * a copy becomes a conditional write of one byte (Ceph). They are used only where needed: other stores refuse unsigned headers.
 */
const GUARDS: Readonly<Record<string, string>> = {
  'x-amz-acl': 'private',
  'x-amz-copy-source-range': 'bytes=0-0',
};

/** Rejects with EngineRefused, or the failure of a request. Afterwards upload URLs have the guards that this bucket needs. */
export async function probeStore(parts: ProbeParts & { readonly bucket: string }): Promise<void> {
  const probe = new ProbeRequests(parts);
  try {
    await checkSignatures(probe);
    await chooseGuards(probe, parts);
    await checkWriteOnce(probe);
    await checkReads(probe, parts);
  } finally {
    // If a key cannot be deleted now, the walk over strays deletes it later.
    await deleteKeys(parts.client, parts.limits, probe.keysUsed);
  }
}

async function checkSignatures(probe: ProbeRequests): Promise<void> {
  const key = probe.newKey();
  const { url, headers } = await probe.sign(key);
  const forged = url.replace(/(X-Amz-Signature=)(.)/, (_, name, digit) => name + (digit === '0' ? '1' : '0'));
  const { 'if-none-match': _, ...unconditional } = headers;
  const expired = await probe.sign(key, HOUR_MS);
  const attempts = [
    ['without a signature', { url: withoutQuery(url), headers }],
    ['with a wrong signature', { url: forged, headers }],
    ['without the signed header if-none-match', { url, headers: unconditional }],
    [
      'with another content-type than was signed',
      { url, headers: { ...headers, 'content-type': 'text/html' } },
    ],
    ['by a URL that has expired', expired],
  ] as const;
  for (const [how, target] of attempts) {
    const status = await probe.put(target, probe.newBytes());
    if (status < 400 || (await probe.find(key)) !== undefined) {
      throw new EngineRefused(
        `the object store takes uploads ${how}; use a store that enforces AWS signatures, and let nobody write anonymously`,
      );
    }
  }
}

async function chooseGuards(probe: ProbeRequests, { uploadUrls, bucket }: ProbeParts & { bucket: string }) {
  let hole: string | undefined;
  for (const guards of [{}, GUARDS]) {
    uploadUrls.guardWith(guards);
    hole = await findHole(probe, bucket);
    if (hole === undefined) return;
  }
  throw new EngineRefused(
    `whoever holds an upload URL of this object store can ${hole}; deny the headers x-amz-copy-source and x-amz-acl by a bucket policy`,
  );
}

/** Finds what an upload URL allows besides its upload, through headers that are not signed. */
async function findHole(probe: ProbeRequests, bucket: string): Promise<string | undefined> {
  const [source, copy, taken] = [probe.newKey(), probe.newKey(), probe.newKey()];
  const [secret, own] = [probe.newBytes(), probe.newBytes()];
  for (const [key, bytes] of [
    [source, secret],
    [taken, own],
  ] as const) {
    await probe.upload(key, bytes);
  }
  const copying = { 'x-amz-copy-source': `/${bucket}/${source}` };
  for (const key of [copy, taken]) {
    const { url, headers } = await probe.sign(key);
    await probe.put({ url, headers: { ...headers, ...copying } }, new Uint8Array(0));
  }
  if (isSame((await probe.find(copy))?.bytes, secret)) return 'copy other objects';
  if (!isSame((await probe.find(taken))?.bytes, own)) return 'overwrite what was uploaded';
  for (const publishing of [{ 'x-amz-acl': 'public-read' }, { 'x-amz-grant-read': EVERYONE }]) {
    const key = probe.newKey();
    const { url, headers } = await probe.sign(key);
    const status = await probe.put({ url, headers: { ...headers, ...publishing } }, own);
    if (status < 300 && (await probe.readAsStranger(key)) < 300) return 'publish objects';
  }
  return undefined;
}

/** Checks that exactly one of several racing writers wins a key, and none after it: some stores let two succeed. */
async function checkWriteOnce(probe: ProbeRequests): Promise<void> {
  for (let race = 1; ; race += 1) {
    const key = probe.newKey();
    const target = await probe.sign(key);
    const bodies = Array.from({ length: RACERS }, () => probe.newBytes());
    const run = async (body: Uint8Array<ArrayBuffer>): Promise<number> => probe.put(target, body);
    const finished = await Promise.allSettled(bodies.map(run));
    const winners = bodies.filter((_, index) => {
      const outcome = finished[index];
      return outcome?.status === 'fulfilled' && outcome.value < 300;
    });
    if (winners.length > 1)
      throw notWriteOnce(`let ${winners.length} of ${RACERS} writers that raced for one key win`);
    const [winner] = winners;
    if (winner === undefined) {
      if (race < 3) continue;
      throw notWriteOnce(`let none of ${RACERS} writers that raced for one key win`);
    }
    await checkTaken(probe, key, winner);
    return;
  }
}

async function checkTaken(probe: ProbeRequests, key: string, winner: Uint8Array): Promise<void> {
  const before = await probe.find(key);
  if (!isSame(before?.bytes, winner))
    throw notWriteOnce('kept other bytes than those of the writer it let win');
  const status = await probe.put(await probe.sign(key), probe.newBytes());
  const after = await probe.find(key);
  if (status < 300) throw notWriteOnce('took a second write of one key');
  if (!isSame(after?.bytes, winner) || after?.etag !== before?.etag) {
    throw notWriteOnce('changed an object by a write that it refused');
  }
}

async function checkReads(probe: ProbeRequests, { client, keys, limits }: ProbeParts): Promise<void> {
  const key = probe.newKey();
  const bytes = probe.newBytes();
  await probe.upload(key, bytes);
  if ((await probe.readAsStranger(key)) < 400) {
    throw new EngineRefused('everybody can read this bucket; make it private');
  }
  const etag = (await probe.find(key))?.etag ?? '';
  if (findStrongEtag(new Headers({ etag })) === undefined) {
    throw new EngineRefused('the object store gives objects no strong ETag; use one that does');
  }
  const range = { range: 'bytes=100-199', 'if-match': etag };
  const doing = 'probing the bucket';
  const part = await client.send({ method: 'GET', key, headers: range, doing }, async (answer) => {
    const isAsked = answer.headers.get('content-range') === `bytes 100-199/${bytes.length}`;
    return answer.status === 206 && isAsked ? answer.body.readAll(100) : undefined;
  });
  if (!isSame(part, bytes.slice(100, 200))) {
    throw new EngineRefused('the object store does not serve ranges as asked; use one that does');
  }
  const other = { ...range, 'if-match': '"00000000000000000000000000000000"' };
  const refused = await client.send(
    { method: 'GET', key, headers: other, doing },
    async (answer) => answer.status,
  );
  if (refused !== 412) {
    throw new EngineRefused(
      `the object store answers ${refused} to a read whose If-Match does not fit, where 412 is due; use one that honours it`,
    );
  }
  await checkDelete(probe, { client, keys, limits }, key);
}

async function checkDelete(
  probe: ProbeRequests,
  { client, limits }: Pick<ProbeParts, 'client' | 'keys' | 'limits'>,
  key: string,
): Promise<void> {
  const { refused, failure = refused } = await deleteKeys(client, limits, [key]);
  if (failure !== undefined) throw failure;
  if ((await probe.find(key)) !== undefined) {
    throw new EngineRefused(
      'the object store still serves a deleted object; use one that reads what was written last',
    );
  }
}

const notWriteOnce = (what: string): EngineRefused =>
  new EngineRefused(
    `the object store ${what}: it does not enforce If-None-Match on uploads; use one that does`,
  );

function isSame(one: Uint8Array | undefined, other: Uint8Array): boolean {
  return one !== undefined && Buffer.compare(one, other) === 0;
}
