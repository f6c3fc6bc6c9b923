/** The lease of a single node: states, renewal, clamps, rejections. */
import { DAY_MS, MINUTE_MS } from '@holdfast/protocol';
import { expectAlreadyThere, expectEqual, expectStatus, expectThat } from '../expect.ts';
import { makeNode, NODE_MEDIA_TYPE } from '../node-bytes.ts';
import { type Check, check } from '../suite.ts';
import type { Description } from '../wire.ts';

const MACHINE = 'leaseNode: lease and upload machine';
const RENEWAL = 'leaseNode: renewal';
const CLAMP = 'leaseNode: durations are clamped to 60 seconds through 24 hours';
/** Real clocks tick between two requests; a movable one stands still. */
const TICK_MS_MAX = 30_000;

/** `ms`, or what a real clock adds to it between two requests. */
function expectLength(
  { leaseStartedAt, leaseExpiresAt }: Pick<Description['state'], 'leaseStartedAt' | 'leaseExpiresAt'>,
  ms: number,
  what: string,
): void {
  const length = leaseExpiresAt - leaseStartedAt;
  expectThat(length >= ms && length < ms + TICK_MS_MAX, what, length);
}

export const leaseChecks: readonly Check[] = [
  check(
    'lease.first',
    'leaseNode: awaiting_upload with its instruction',
    'the first lease asks for the bytes',
    async ({ client, target }) => {
      const lease = await client.expectLease(makeNode().hash, 'awaiting_upload', 'state awaiting_upload');
      expectEqual(lease.upload.headers['content-type'], NODE_MEDIA_TYPE, 'upload.headers content-type');
      expectEqual(lease.upload.headers['if-none-match'], '*', 'upload.headers if-none-match');
      expectThat(
        lease.upload.expiresAt > target.now(),
        'upload.expiresAt in the future',
        lease.upload.expiresAt,
      );
    },
  ),
  check(
    'lease.publishes',
    `${MACHINE}: validation happens in the lease`,
    'a node exists from its own ready lease on',
    async ({ client }) => {
      const node = makeNode();
      const expectAbsent = async (when: string) => {
        await client.expectAbsent(node.hash, when);
        expectEqual((await client.usage()).nodeCount, 0, `nodeCount ${when}`);
      };
      await expectAbsent('before any lease');
      const upload = await client.instruction(node.hash);
      await expectAbsent('after the first lease');
      expectStatus(await client.put(upload, node.bytes), 200);
      await expectAbsent('between PUT and lease');
      await client.expectLease(node.hash, 'ready', 'state after the PUT');
      expectStatus(await client.call('readMetadata', { hash: node.hash }), 200);
    },
  ),
  check(
    'lease.same-generation',
    'leaseNode: later leases before the PUT return the same generation',
    'two URLs, one generation',
    async ({ client, target }) => {
      const { node, upload: first } = await client.startUpload();
      const second = await client.instruction(node.hash);
      expectStatus(await client.put(first, node.bytes), 200);
      expectAlreadyThere(
        target.uploadKind,
        await client.put(second, node.bytes),
        'both URLs are of one generation',
      );
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'lease.concurrent-first',
    'leaseNode: upload generation',
    'concurrent first leases share one generation',
    async ({ client, target }) => {
      const node = makeNode();
      const uploads = await Promise.all(Array.from({ length: 8 }, () => client.instruction(node.hash)));
      const answers = await Promise.all(uploads.map((upload) => client.put(upload, node.bytes)));
      expectEqual(
        answers.filter(({ status }) => status === 200).length,
        1,
        'PUTs of eight that were accepted',
      );
      for (const answer of answers.filter(({ status }) => status !== 200)) {
        expectAlreadyThere(target.uploadKind, answer, 'the others refused: one generation');
      }
      await client.expectLease(node.hash, 'ready');
    },
  ),
  check(
    'lease.concurrent-publish',
    'leaseNode: concurrent leases of one hash publish once, each with its own duration',
    'eight leases at once after the PUT',
    async ({ client }) => {
      const child = await client.published();
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
      expectLength(state, 7_200_000, 'the longest duration stands');
      await client.expectChildRefCount(child.hash, 2, 'childRefCount after one publication');
      expectEqual((await client.usage()).nodeCount, 2, 'nodeCount');
    },
  ),
  check(
    'lease.ready',
    'leaseNode: ready → ready, no re-upload',
    'a ready node is leased without an upload',
    async ({ client }) => {
      const node = makeNode();
      const first = await client.publish(node);
      const again = await client.expectLease(node.hash, 'ready', 'ready again, without an upload');
      expectEqual(again.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt of the running lease');
      const { state } = await client.describe(node.hash);
      expectEqual(
        [state.leaseStartedAt, state.leaseExpiresAt],
        [again.leaseStartedAt, again.leaseExpiresAt],
        'the lease in the metadata',
      );
    },
  ),
  check('lease.clamp', CLAMP, 'the clamp, to the millisecond', async ({ client }) => {
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
      expectEqual(
        lease.leaseExpiresAt - lease.leaseStartedAt,
        given,
        `length of a first lease of ${asked} ms`,
      );
    }
  }),
  check(
    'lease.never-shortened',
    `${RENEWAL}: expiry = max(old expiry, now + clamped duration)`,
    'never shortened, start kept',
    async ({ client }) => {
      const node = makeNode();
      const first = await client.publish(node, 3_600_000);
      for (const duration of [1, MINUTE_MS, 1_800_000]) {
        const renewed = await client.expectLease(node.hash, 'ready', 'state', duration);
        expectEqual(
          renewed.leaseExpiresAt,
          first.leaseExpiresAt,
          `leaseExpiresAt after a shorter renewal of ${duration} ms`,
        );
        expectEqual(renewed.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt is kept');
      }
      const longer = await client.expectLease(node.hash, 'ready', 'state', DAY_MS * 2);
      expectEqual(longer.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt is kept');
      expectLength(longer, DAY_MS, 'expiry = now + 24 h after a longer renewal');
    },
  ),
  check(
    'lease.concurrent-renewals',
    `${RENEWAL}: expiry = max(old expiry, now + clamped duration)`,
    'the longest of concurrent renewals stands',
    async ({ client }) => {
      const node = await client.published();
      const durations = Array.from({ length: 16 }, (_, i) => 60_000 + i * 100_000);
      await Promise.all(durations.map((duration) => client.leased(node.hash, duration)));
      const { state } = await client.describe(node.hash);
      expectLength(state, 1_560_000, 'the longest of concurrent renewals stands');
    },
  ),
  check(
    'lease.expired',
    `${RENEWAL}: else start = now`,
    'an expired lease starts anew',
    'minute',
    async ({ client, elapse }) => {
      const node = makeNode();
      const first = await client.publish(node);
      await elapse(61_500);
      const { state } = await client.describe(node.hash);
      expectEqual(state.leaseExpiresAt, first.leaseExpiresAt, 'leaseExpiresAt of the lease that ran out');
      const second = await client.expectLease(node.hash, 'ready');
      expectThat(
        second.leaseStartedAt >= first.leaseExpiresAt,
        'start = now once the lease has expired',
        second.leaseStartedAt,
      );
      expectEqual(second.leaseExpiresAt - second.leaseStartedAt, MINUTE_MS, 'length of the new lease');
    },
  ),
];
