/** Uploads that a lease turns down, and the largest one that it does not. */
import { expectEqual, expectError, expectNotFound, expectStatus } from '../expect.ts';
import {
  encodeEnvelope,
  makeNode,
  makeNodeOfCanonicalSize,
  randomContent,
  sha256Hex,
} from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import type { Lease } from '../wire.ts';

async function reject(
  client: SpaceClient,
  hash: string,
  bytes: Uint8Array,
  code: string,
): Promise<Extract<Lease, { state: 'awaiting_replacement_upload' }>> {
  expectStatus(
    await client.put(await client.instruction(hash), bytes),
    200,
    'wrong bytes are accepted by the PUT',
  );
  const lease = await client.expectRejected(hash, `a rejection with ${code}`);
  expectEqual(lease.rejection.code, code, 'rejection.code');
  return lease;
}

export const leaseRejectionChecks: readonly Check[] = [
  check(
    'lease.abandoned',
    'leaseNode: unfinished uploads and rejections are kept 24 h, then swept',
    'a rejection nobody came back for',
    'day',
    async ({ client, elapse, settle, target }) => {
      const node = makeNode();
      const first = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
      await elapse(86_400_000 - 60_000);
      const kept = await client.expectRejected(node.hash, 'a rejection kept for 24 h after the last lease');
      expectEqual(kept.rejection, first.rejection, 'rejection');
      await elapse(86_400_000 + target.uploadTtlMs + 60_000);
      // Each lease call keeps the upload for another day, so the sweep has to come before the first look.
      await settle();
      await client.expectLease(node.hash, 'awaiting_upload', 'state: the rejection is swept');
    },
  ),
  check(
    'lease.digest-mismatch',
    'leaseNode: digest → NODE_DIGEST_MISMATCH',
    'other bytes than the hash names',
    async ({ client }) => {
      const node = makeNode();
      const lease = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
      expectNotFound(await client.call('readMetadata', { hash: node.hash }), 'rejected');
      expectStatus(await client.put(lease.upload, node.bytes), 200, 'the replacement upload');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'lease.rejection-survives',
    'leaseNode: a rejection reason survives until a good upload',
    'repeated leases tell the reason again',
    async ({ client }) => {
      const node = makeNode();
      const first = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
      const again = await client.expectRejected(node.hash, 'the rejection stays until a good upload');
      expectEqual(again.rejection, first.rejection, 'rejection');
      await reject(client, node.hash, encodeEnvelope('a', [], node.content), 'NODE_DIGEST_MISMATCH');
      await client.publish(node);
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'lease.rejection-outlives-url',
    'leaseNode: expired without an object: a new generation; the rejection survives',
    'the reason after the URL has expired',
    'upload-expiry',
    'embedded-upload',
    async ({ client, elapse, target }) => {
      const node = makeNode();
      const lease = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
      await elapse(lease.upload.expiresAt - target.now() + 1_500);
      const later = await client.expectRejected(node.hash, 'the rejection survives the URL');
      expectEqual(later.rejection, lease.rejection, 'rejection');
      expectStatus(await client.put(lease.upload, node.bytes), 403, 'the old URL has expired');
      expectStatus(await client.put(later.upload, node.bytes), 200, 'the new URL');
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'lease.digest-before-format',
    'leaseNode: validation order length, digest, format',
    'wrong bytes of no format are a digest mismatch',
    async ({ client }) => {
      await reject(client, makeNode().hash, randomContent(100), 'NODE_DIGEST_MISMATCH');
      await reject(client, makeNode().hash, new Uint8Array(), 'NODE_DIGEST_MISMATCH');
    },
  ),
  check(
    'lease.declared-size',
    'leaseNode: length of the uploaded bytes, not the declared size',
    'a huge declared size is a format error',
    async ({ client, target }) => {
      const lying = encodeEnvelope('text/plain', [], randomContent(10), {
        size: BigInt(target.nodeBytesMax) * 2n,
      });
      await reject(client, sha256Hex(lying), lying, 'INVALID_CANONICAL_NODE');
    },
  ),
  check(
    'lease.rejected-edges',
    'leaseNode: edges count for waiting, ready, rotten and claimed parents only',
    'a rejected parent adds no edge',
    async ({ client }) => {
      const child = await client.published();
      const parent = makeNode({ refs: [child.hash] });
      await reject(client, parent.hash, makeNode({ refs: [child.hash] }).bytes, 'NODE_DIGEST_MISMATCH');
      await client.expectChildRefCount(child.hash, 0, 'childRefCount after a rejected parent');
    },
  ),
  check(
    'lease.exact-limit',
    'Canonical node bytes: exactly the limit is accepted',
    'a node of exactly the limit',
    'node-limit',
    async ({ client, target }) => {
      await client.publish(makeNodeOfCanonicalSize(target.nodeBytesMax));
      const usage = await client.usage();
      expectEqual(
        usage.readyStoredBytes,
        target.nodeBytesMax,
        'readyStoredBytes of a node of exactly the limit',
      );
    },
  ),
  check(
    'lease.over-limit',
    'The upload target: over the limit → 413, the next lease says NODE_TOO_LARGE',
    'one byte over the limit',
    'node-limit',
    async (context) => {
      const { client, target } = context;
      const { node, upload } = await client.startUpload(makeNodeOfCanonicalSize(target.nodeBytesMax + 1));
      const answer = await client.put(upload, node.bytes);
      if (target.uploadKind === 'embedded')
        expectError(answer, 413, 'PAYLOAD_TOO_LARGE', 'one byte over the limit');
      else expectStatus(answer, 200, 'a store that takes the PUT itself accepts a body over the limit');
      const lease = await client.expectRejected(node.hash, 'a rejection of a node over the limit');
      expectEqual(lease.rejection.code, 'NODE_TOO_LARGE', 'rejection.code');
      const wrong = makeNode();
      const second = await client.put(await client.instruction(wrong.hash), node.bytes);
      expectStatus(second, target.uploadKind === 'embedded' ? 413 : 200);
      const judged = await client.expectRejected(wrong.hash, 'length is judged before the digest');
      expectEqual(judged.rejection.code, 'NODE_TOO_LARGE', 'rejection.code: length before digest');
    },
  ),
];
