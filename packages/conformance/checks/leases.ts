/** The lease of a single node: states, renewal, clamps, rejections. */
import { expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import {
  encodeEnvelope,
  makeNode,
  makeNodeOfCanonicalSize,
  NODE_MEDIA_TYPE,
  randomContent,
  type SampleNode,
  sha256Hex,
} from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import { type Lease, readLease } from '../wire.ts';

const MACHINE = 'contract 5: lease and upload machine';
const RENEWAL = 'contract 5: renewal';
const CLAMP = 'spec leaseNode: durations are clamped to 60 seconds through 24 hours';
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Real clocks tick between two requests; a movable one stands still. */
const TICK_MS_MAX = 30_000;

async function firstLease({ client, target }: CheckContext): Promise<void> {
  const lease = await client.leased(makeNode().hash);
  expectThat(lease.state === 'awaiting_upload', 'state awaiting_upload', lease.state);
  expectEqual(lease.upload.headers['content-type'], NODE_MEDIA_TYPE, 'upload.headers content-type');
  expectEqual(lease.upload.headers['if-none-match'], '*', 'upload.headers if-none-match');
  expectThat(lease.upload.expiresAt > target.now(), 'upload.expiresAt in the future', lease.upload.expiresAt);
}

async function notANodeBeforeItsLease({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const expectAbsent = async (when: string) => {
    for (const operation of ['readContent', 'readMetadata'] as const) {
      expectError(await client.call(operation, { hash: node.hash }), 404, 'NOT_FOUND', when);
    }
    expectEqual((await client.usage()).nodeCount, 0, `nodeCount ${when}`);
  };
  await expectAbsent('before any lease');
  const upload = await client.instruction(node.hash);
  await expectAbsent('after the first lease');
  expectStatus(await client.put(upload, node.bytes), 200);
  await expectAbsent('between PUT and lease');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state after the PUT');
  expectStatus(await client.call('readMetadata', { hash: node.hash }), 200);
}

async function sameGeneration({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const first = await client.instruction(node.hash);
  const second = await client.instruction(node.hash);
  expectStatus(await client.put(first, node.bytes), 200);
  expectStatus(await client.put(second, node.bytes), 412, 'both URLs are of one generation');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

async function concurrentFirstLeases({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const uploads = await Promise.all(Array.from({ length: 8 }, () => client.instruction(node.hash)));
  const answers = await Promise.all(uploads.map((upload) => client.put(upload, node.bytes)));
  const statuses = answers.map((answer) => answer.status).sort();
  expectEqual(
    statuses,
    [200, ...Array<number>(7).fill(412)],
    'statuses of PUTs to the URLs of eight concurrent first leases',
  );
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
}

async function concurrentPublish({ client }: CheckContext): Promise<void> {
  const child = makeNode();
  await client.publish(child);
  const node = makeNode({ refs: [child.hash, child.hash] });
  expectStatus(await client.put(await client.instruction(node.hash), node.bytes), 200);
  const durations = [60_000, 120_000, 3_600_000, 60_000, 7_200_000, 90_000, 600_000, 61_000];
  const leases = await Promise.all(durations.map((duration) => client.leased(node.hash, duration)));
  const starts = leases.map((lease, i) => {
    expectThat(lease.state === 'ready', 'every concurrent lease answers ready', lease.state);
    const length = lease.leaseExpiresAt - lease.leaseStartedAt;
    expectThat(length >= (durations[i] ?? 0), 'each lease with its own duration', length);
    return lease.leaseStartedAt;
  });
  expectEqual(new Set(starts).size, 1, 'number of lease periods');
  const { state } = await client.describe(node.hash);
  const longest = state.leaseExpiresAt - state.leaseStartedAt;
  expectThat(
    longest >= 7_200_000 && longest < 7_200_000 + TICK_MS_MAX,
    'the longest duration stands',
    longest,
  );
  expectEqual(
    (await client.describe(child.hash)).state.childRefCount,
    2,
    'childRefCount after one publication',
  );
  expectEqual((await client.usage()).nodeCount, 2, 'nodeCount');
}

async function readyNeedsNoUpload({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const first = await client.publish(node);
  const again = await client.leased(node.hash);
  expectThat(again.state === 'ready', 'ready again, without an upload', again.state);
  expectEqual(again.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt of the running lease');
  const { state } = await client.describe(node.hash);
  expectEqual(
    [state.leaseStartedAt, state.leaseExpiresAt],
    [again.leaseStartedAt, again.leaseExpiresAt],
    'the lease in the metadata',
  );
}

async function clamps({ client }: CheckContext): Promise<void> {
  const cases = [
    [1, MINUTE_MS],
    [59_999, MINUTE_MS],
    [MINUTE_MS, MINUTE_MS],
    [60_001, 60_001],
    [DAY_MS - 1, DAY_MS - 1],
    [DAY_MS, DAY_MS],
    [DAY_MS + 1, DAY_MS],
    [Number.MAX_SAFE_INTEGER, DAY_MS],
  ] as const;
  for (const [asked, given] of cases) {
    const lease = await client.publish(makeNode(), asked);
    expectEqual(lease.leaseExpiresAt - lease.leaseStartedAt, given, `length of a first lease of ${asked} ms`);
  }
}

function expectReady(lease: Lease): Extract<Lease, { state: 'ready' }> {
  expectThat(lease.state === 'ready', 'state ready', lease.state);
  return lease;
}

async function neverShortened({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const first = await client.publish(node, 3_600_000);
  for (const duration of [1, MINUTE_MS, 1_800_000]) {
    const renewed = expectReady(await client.leased(node.hash, duration));
    expectEqual(
      renewed.leaseExpiresAt,
      first.leaseExpiresAt,
      `leaseExpiresAt after a shorter renewal of ${duration} ms`,
    );
    expectEqual(renewed.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt is kept');
  }
  const longer = expectReady(await client.leased(node.hash, DAY_MS * 2));
  const length = longer.leaseExpiresAt - first.leaseStartedAt;
  expectThat(
    length >= DAY_MS && length < DAY_MS + TICK_MS_MAX,
    'expiry = now + 24 h after a longer renewal',
    length,
  );
  expectEqual(longer.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt is kept');
}

async function concurrentRenewals({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  await client.publish(node);
  const durations = Array.from({ length: 16 }, (_, i) => 60_000 + i * 100_000);
  await Promise.all(durations.map((duration) => client.leased(node.hash, duration)));
  const { state } = await client.describe(node.hash);
  const length = state.leaseExpiresAt - state.leaseStartedAt;
  expectThat(
    length >= 1_560_000 && length < 1_560_000 + TICK_MS_MAX,
    'the longest of concurrent renewals stands',
    length,
  );
}

async function expiredLeaseStartsAnew({ client, elapse }: CheckContext): Promise<void> {
  const node = makeNode();
  const first = await client.publish(node);
  await elapse(61_500);
  const { state } = await client.describe(node.hash);
  expectEqual(state.leaseExpiresAt, first.leaseExpiresAt, 'leaseExpiresAt of the lease that ran out');
  const second = expectReady(await client.leased(node.hash));
  expectThat(
    second.leaseStartedAt >= first.leaseExpiresAt,
    'start = now once the lease has expired',
    second.leaseStartedAt,
  );
  expectEqual(second.leaseExpiresAt - second.leaseStartedAt, MINUTE_MS, 'length of the new lease');
}

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
  const lease = await client.leased(hash);
  expectThat(lease.state === 'awaiting_replacement_upload', `a rejection with ${code}`, lease.state);
  expectEqual(lease.rejection.code, code, 'rejection.code');
  return lease;
}

async function digestMismatch({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const lease = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
  expectError(await client.call('readMetadata', { hash: node.hash }), 404, 'NOT_FOUND', 'rejected');
  expectStatus(await client.put(lease.upload, node.bytes), 200, 'the replacement upload');
  expectReady(await client.leased(node.hash));
}

async function rejectionSurvives({ client }: CheckContext): Promise<void> {
  const node = makeNode();
  const first = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
  const again = await client.leased(node.hash);
  expectThat(
    again.state === 'awaiting_replacement_upload',
    'the rejection stays until a good upload',
    again.state,
  );
  expectEqual(again.rejection, first.rejection, 'rejection');
  await reject(client, node.hash, encodeEnvelope('a', [], node.content), 'NODE_DIGEST_MISMATCH');
  expectReady(await client.upload(node));
  expectReady(await client.leased(node.hash));
}

async function rejectionOutlivesTheUrl({ client, elapse, target }: CheckContext): Promise<void> {
  const node = makeNode();
  const lease = await reject(client, node.hash, makeNode().bytes, 'NODE_DIGEST_MISMATCH');
  await elapse(lease.upload.expiresAt - target.now() + 1_500);
  const later = await client.leased(node.hash);
  expectThat(later.state === 'awaiting_replacement_upload', 'the rejection survives the URL', later.state);
  expectEqual(later.rejection, lease.rejection, 'rejection');
  expectStatus(await client.put(lease.upload, node.bytes), 403, 'the old URL has expired');
  expectStatus(await client.put(later.upload, node.bytes), 200, 'the new URL');
  expectReady(await client.leased(node.hash));
}

async function digestBeforeFormat({ client }: CheckContext): Promise<void> {
  await reject(client, makeNode().hash, randomContent(100), 'NODE_DIGEST_MISMATCH');
  await reject(client, makeNode().hash, new Uint8Array(), 'NODE_DIGEST_MISMATCH');
}

async function declaredSizeIsNotLength({ client, target }: CheckContext): Promise<void> {
  const lying = encodeEnvelope('text/plain', [], randomContent(10), {
    size: BigInt(target.nodeBytesMax) * 2n,
  });
  await reject(client, sha256Hex(lying), lying, 'INVALID_CANONICAL_NODE');
}

async function rejectedNodeWithChildren({ client }: CheckContext): Promise<void> {
  const child = makeNode();
  await client.publish(child);
  const parent = makeNode({ refs: [child.hash] });
  await reject(client, parent.hash, makeNode({ refs: [child.hash] }).bytes, 'NODE_DIGEST_MISMATCH');
  expectEqual(
    (await client.describe(child.hash)).state.childRefCount,
    0,
    'childRefCount after a rejected parent',
  );
}

async function exactLimit({ client, target }: CheckContext): Promise<void> {
  const node: SampleNode = makeNodeOfCanonicalSize(target.nodeBytesMax);
  expectReady(await client.upload(node));
  const usage = await client.usage();
  expectEqual(usage.readyStoredBytes, target.nodeBytesMax, 'readyStoredBytes of a node of exactly the limit');
}

async function overLimit(context: CheckContext): Promise<void> {
  const { client, target } = context;
  const node = makeNodeOfCanonicalSize(target.nodeBytesMax + 1);
  const upload = await client.instruction(node.hash);
  const answer = await client.put(upload, node.bytes);
  if (target.uploadKind === 'embedded')
    expectError(answer, 413, 'PAYLOAD_TOO_LARGE', 'one byte over the limit');
  const lease = await client.leased(node.hash);
  expectThat(
    lease.state === 'awaiting_replacement_upload',
    'a rejection of a node over the limit',
    lease.state,
  );
  expectEqual(lease.rejection.code, 'NODE_TOO_LARGE', 'rejection.code');
  const wrong = makeNode();
  const second = await client.put(await client.instruction(wrong.hash), node.bytes);
  if (target.uploadKind === 'embedded') expectStatus(second, 413);
  const judged = readLease(await client.lease(wrong.hash), wrong.hash);
  expectThat(
    judged.state === 'awaiting_replacement_upload',
    'length is judged before the digest',
    judged.state,
  );
  expectEqual(judged.rejection.code, 'NODE_TOO_LARGE', 'rejection.code: length before digest');
}

export const leaseChecks: readonly Check[] = [
  check(
    'lease.first',
    'spec leaseNode: awaiting_upload with its instruction',
    'the first lease asks for the bytes',
    firstLease,
  ),
  check(
    'lease.publishes',
    `${MACHINE}: validation happens in the lease`,
    'a node exists from its own ready lease on',
    notANodeBeforeItsLease,
  ),
  check(
    'lease.same-generation',
    'contract 5: later leases before the PUT return the same generation',
    'two URLs, one generation',
    sameGeneration,
  ),
  check(
    'lease.concurrent-first',
    'contract 5: upload generation',
    'concurrent first leases share one generation',
    concurrentFirstLeases,
  ),
  check(
    'lease.concurrent-publish',
    'contract 5: concurrent leases of one hash publish once, each with its own duration',
    'eight leases at once after the PUT',
    concurrentPublish,
  ),
  check(
    'lease.ready',
    'spec States: ready → ready, no re-upload',
    'a ready node is leased without an upload',
    readyNeedsNoUpload,
  ),
  check('lease.clamp', CLAMP, 'the clamp, to the millisecond', clamps),
  check(
    'lease.never-shortened',
    `${RENEWAL}: expiry = max(old expiry, now + clamped duration)`,
    'never shortened, start kept',
    neverShortened,
  ),
  check(
    'lease.concurrent-renewals',
    `${RENEWAL}: expiry = max(old expiry, now + clamped duration)`,
    'the longest of concurrent renewals stands',
    concurrentRenewals,
  ),
  check(
    'lease.expired',
    `${RENEWAL}: else start = now`,
    'an expired lease starts anew',
    expiredLeaseStartsAnew,
    'minute',
  ),
  check(
    'lease.digest-mismatch',
    'contract 5: digest → NODE_DIGEST_MISMATCH',
    'other bytes than the hash names',
    digestMismatch,
  ),
  check(
    'lease.rejection-survives',
    'contract 5: a rejection reason survives until a good upload',
    'repeated leases tell the reason again',
    rejectionSurvives,
  ),
  check(
    'lease.rejection-outlives-url',
    'contract 5: expired without an object: a new generation; the rejection survives',
    'the reason after the URL has expired',
    rejectionOutlivesTheUrl,
    'upload-expiry',
    'embedded-upload',
  ),
  check(
    'lease.digest-before-format',
    'contract 5: validation order length, digest, format',
    'wrong bytes of no format are a digest mismatch',
    digestBeforeFormat,
  ),
  check(
    'lease.declared-size',
    'contract 5: length of the uploaded bytes, not the declared size',
    'a huge declared size is a format error',
    declaredSizeIsNotLength,
  ),
  check(
    'lease.rejected-edges',
    'contract 5: edges count for waiting, ready, rotten and claimed parents only',
    'a rejected parent adds no edge',
    rejectedNodeWithChildren,
  ),
  check(
    'lease.exact-limit',
    'contract 2: exactly the limit is accepted',
    'a node of exactly the limit',
    exactLimit,
    'node-limit',
  ),
  check(
    'lease.over-limit',
    'contract 5: over the limit → 413, the next lease says NODE_TOO_LARGE',
    'one byte over the limit',
    overLimit,
    'node-limit',
  ),
];
