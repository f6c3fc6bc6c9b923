/** How many upload generations a Space may have open. */
import { expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, randomHash } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const LIMIT =
  'leaseNode: too many active upload generations in the Space → 429 CAS_UPLOAD_LIMIT, Retry-After';
const SLOTS =
  'leaseNode: active from creation until its last signed URL has expired or a lease has judged its object';
const LEASES_AT_ONCE = 16;

async function fill(client: SpaceClient, count: number): Promise<string[]> {
  const hashes = Array.from({ length: count }, randomHash);
  for (let at = 0; at < count; at += LEASES_AT_ONCE) {
    await Promise.all(hashes.slice(at, at + LEASES_AT_ONCE).map((hash) => client.instruction(hash)));
  }
  return hashes;
}

async function expectFull(client: SpaceClient, why: string): Promise<void> {
  const answer = await client.lease(randomHash());
  expectError(answer, 429, 'CAS_UPLOAD_LIMIT', why);
  const wait = answer.headers.get('retry-after') ?? '';
  expectThat(/^[1-9]\d*$/.test(wait), 'Retry-After in seconds', wait || '(absent)', answer);
}

export const uploadLimitChecks: readonly Check[] = [
  check(
    'upload-limit.reached',
    LIMIT,
    'one generation too many',
    'upload-limit',
    async ({ client, target, newSpace }) => {
      const ready = await client.published();
      const hashes = await fill(client, target.activeUploadsMax);
      await expectFull(client, `generation ${target.activeUploadsMax + 1}`);
      await client.expectLease(
        hashes[0] ?? '',
        'awaiting_upload',
        'state of a lease on an open generation when the Space is full',
      );
      await client.expectLease(
        ready.hash,
        'ready',
        'state of a lease on a ready node when the Space is full',
      );
      await newSpace().expectLease(randomHash(), 'awaiting_upload', 'state in another Space');
    },
  ),
  check(
    'upload-limit.slots',
    SLOTS,
    'what frees a slot and what does not',
    'upload-limit',
    async ({ client, target }) => {
      const [good, bad] = [makeNode(), makeNode()];
      const uploads = [await client.instruction(good.hash), await client.instruction(bad.hash)] as const;
      await fill(client, target.activeUploadsMax - 2);
      await expectFull(client, 'full');
      expectStatus(await client.put(uploads[0], good.bytes), 200);
      await expectFull(client, 'the PUT alone frees no slot');
      await client.expectLease(good.hash, 'ready');
      await client.instruction(randomHash());
      await expectFull(client, 'the freed slot is taken again');
      expectStatus(await client.put(uploads[1], makeNode().bytes), 200);
      await client.expectRejected(bad.hash, 'state: a judged generation makes room for its replacement');
      await expectFull(client, 'the replacement holds the slot');
    },
  ),
  check(
    'upload-limit.race',
    LIMIT,
    'twelve leases for three slots',
    'upload-limit',
    async ({ client, target }) => {
      await fill(client, target.activeUploadsMax - 3);
      const answers = await Promise.all(Array.from({ length: 12 }, () => client.lease(randomHash())));
      expectEqual(
        answers.filter((answer) => answer.status === 200).length,
        3,
        'generations created for the last three slots',
      );
      for (const answer of answers.filter((each) => each.status !== 200))
        expectError(answer, 429, 'CAS_UPLOAD_LIMIT');
    },
  ),
  check(
    'upload-limit.expiry',
    SLOTS,
    'expired URLs free their slots',
    'upload-limit',
    'upload-expiry',
    async ({ client, target, elapse }) => {
      await fill(client, target.activeUploadsMax);
      await expectFull(client, 'full');
      await elapse(target.uploadTtlMs + 2_000);
      await client.expectLease(randomHash(), 'awaiting_upload', 'state once the URLs have expired');
    },
  ),
];
