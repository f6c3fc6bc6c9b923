/** leases of Bulk: one result for each hash, and a pack for what is absent. */
import { MINUTE_MS } from '@holdfast/protocol';
import { BulkClient } from '../bulk-client.ts';
import type { BulkLease } from '../bulk-wire.ts';
import { expectAlreadyThere, expectEqual, expectError, expectStatus, expectThat } from '../expect.ts';
import { makeNode, NODE_REFS_MAX, randomHash } from '../node-bytes.ts';
import { encodePack, PACK_BYTES_MAX, PACK_MEDIA_TYPE, PACK_RECORDS_MAX, plainRecord } from '../pack-bytes.ts';
import { NO_USAGE } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const RESULTS = 'Lease many nodes: one result for each hash, in order';
const PACK = 'Lease many nodes: with pack: true, and only if a node is absent, an instruction for one pack';
const KEPT = 'Lease many nodes: what is ready is leased until 60 s after expiresAt at least';
const SAME = 'Lease many nodes: the same hashes again, while nothing has arrived, give the same pack';
const CHILD_HASHES =
  'Lease many nodes: once an answer has 16,384 childHashes, later waiting results show only their first';
const LIMIT = 'Lease many nodes: an open pack is one active upload of the Space';
const BODY = 'Lease many nodes: 1 to 4,096 distinct hashes; pack may be left out';
const HASHES_MAX = 4096;
const CHILD_HASHES_MAX = 16_384;
/** Retries of a lease of this kind leave the Space with fewer slots than leases. */
const SLOTS_LEFT = 2;

const statesOf = ({ results }: BulkLease): string[] => results.map(({ state }) => state);

const resultChecks: readonly Check[] = [
  check(
    'bulk-leases.absent',
    RESULTS,
    'unknown nodes are absent, and nothing is opened',
    'bulk',
    async ({ client }) => {
      const hashes = Array.from({ length: 5 }, randomHash);
      const lease = await new BulkClient(client).leases(hashes);
      expectEqual(
        statesOf(lease),
        hashes.map(() => 'absent'),
        'states of unknown nodes',
      );
      expectEqual(lease.pack, undefined, 'a pack that nobody asked for');
      expectEqual(await client.usage(), NO_USAGE, 'usage afterwards');
    },
  ),
  check(
    'bulk-leases.states',
    RESULTS,
    'nodes of every state in one request',
    'bulk',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const child = makeNode();
      const [ready, waiting, uploaded, refused] = [
        await client.published(),
        makeNode({ refs: [child.hash] }),
        makeNode(),
        makeNode(),
      ];
      await client.uploadAlone(waiting);
      expectStatus(await client.put(await client.instruction(uploaded.hash), uploaded.bytes), 200);
      expectStatus(await client.put(await client.instruction(refused.hash), makeNode().bytes), 200);
      await client.expectRejected(refused.hash);
      const hashes = [uploaded, waiting, ready, refused, child].map(({ hash }) => hash);
      const lease = await bulk.leases(hashes);
      const states = ['absent', 'validated_awaiting_children', 'ready', 'absent', 'absent'];
      expectEqual(
        statesOf(lease),
        states,
        'states of a v1 upload, a waiting parent, a ready node, a rejected upload, an unknown node',
      );
      expectEqual(
        lease.results[1],
        { state: states[1], hash: waiting.hash, childHashes: [child.hash] },
        'the waiting result',
      );
      const [, , { leaseExpiresAt }] = lease.results as [unknown, unknown, { leaseExpiresAt: number }];
      expectThat(leaseExpiresAt > target.now(), 'the ready node is leased', leaseExpiresAt);
      await client.expectRejected(refused.hash, 'the rejection of a v1 upload after leases');
      await client.expectLease(uploaded.hash, 'ready', 'state of the v1 upload once it is leased');
    },
  ),
  check(
    'bulk-leases.renewal',
    'leaseNode: renewal: expiry = max(old expiry, now + clamped duration)',
    'many leases are renewed as a single one is',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const first = await client.publish(node, 3_600_000);
      for (const durationMs of [1, MINUTE_MS, 1_800_000]) {
        const { results } = await bulk.leases([node.hash], false, durationMs);
        expectEqual(
          results[0],
          { ...first, hash: node.hash },
          `a lease of ${durationMs} ms is shorter and changes nothing`,
        );
      }
      const [longer] = (await bulk.leases([node.hash], false, Number.MAX_SAFE_INTEGER)).results;
      expectThat(
        longer?.state === 'ready' && longer.leaseExpiresAt > first.leaseExpiresAt,
        'a longer lease',
        longer,
      );
      expectEqual(longer.leaseStartedAt, first.leaseStartedAt, 'leaseStartedAt is kept');
      const { state } = await client.describe(node.hash);
      expectEqual(state.leaseExpiresAt, longer.leaseExpiresAt, 'leaseExpiresAt in the metadata');
    },
  ),
  check(
    'bulk-leases.children-first',
    'Lease the pack: children are judged before parents, wherever they stand',
    'a chain of waiting parents, in any order',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const leaf = makeNode();
      const middle = makeNode({ refs: [leaf.hash] });
      const top = makeNode({ refs: [middle.hash, leaf.hash] });
      for (const parent of [top, middle]) await client.uploadAlone(parent);
      await client.uploadAlone(leaf);
      const hashes = [top, middle, leaf].map(({ hash }) => hash);
      expectEqual(
        statesOf(await bulk.leases(hashes)),
        ['ready', 'ready', 'ready'],
        'states, the parents before their child',
      );
    },
  ),
  check(
    'bulk-leases.child-hashes',
    CHILD_HASHES,
    '66 parents that wait for 256 children each',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const parents = Array.from({ length: CHILD_HASHES_MAX / NODE_REFS_MAX + 2 }, () =>
        makeNode({ refs: Array.from({ length: NODE_REFS_MAX }, randomHash) }),
      );
      const lists = [
        (await bulk.send(parents)).results,
        (await bulk.leases(parents.map(({ hash }) => hash))).results,
      ];
      for (const results of lists) {
        const counts = results.map((result) => ('childHashes' in result ? result.childHashes.length : 0));
        expectEqual(
          counts,
          parents.map((_, index) => (index < parents.length - 2 ? NODE_REFS_MAX : 1)),
          'childHashes of each result',
        );
        const last = results.at(-1);
        expectEqual(
          last?.state === 'validated_awaiting_children' && last.childHashes,
          parents.at(-1)?.refs.slice(0, 1),
          'childHashes of the last result',
        );
      }
    },
  ),
];

const packChecks: readonly Check[] = [
  check('bulk-leases.pack', PACK, 'the instruction', 'bulk', async ({ client, target }) => {
    const bulk = new BulkClient(client);
    const ready = await client.published();
    expectEqual((await bulk.leases([ready.hash], true)).pack, undefined, 'a pack although nothing is absent');
    const waiting = makeNode({ refs: [randomHash()] });
    await client.uploadAlone(waiting);
    expectEqual((await bulk.leases([waiting.hash], true)).pack, undefined, 'a pack for what waits');
    const hash = randomHash();
    const explicit = await bulk.call('leaseNodes', {
      json: { leaseDurationMs: 1, hashes: [hash], pack: false },
    });
    expectEqual(
      Object.keys(JSON.parse(new TextDecoder().decode(explicit.bytes))),
      ['results'],
      'fields with pack: false',
      explicit,
    );
    const pack = await bulk.open([ready.hash, hash]);
    expectEqual(pack.headers['content-type'], PACK_MEDIA_TYPE, 'pack.headers content-type');
    expectEqual(pack.headers['if-none-match'], '*', 'pack.headers if-none-match');
    expectEqual(
      [pack.bytesMax, pack.recordsMax],
      [PACK_BYTES_MAX, PACK_RECORDS_MAX],
      'bytesMax and recordsMax',
    );
    expectThat(pack.expiresAt > target.now(), 'pack.expiresAt in the future', pack.expiresAt);
  }),
  check('bulk-leases.kept', KEPT, 'ready nodes outlive the URL by a minute', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const [one, two] = [await client.published(), await client.published()];
    const { results, pack } = await bulk.leases([one.hash, randomHash(), two.hash], true, 1);
    const until = (pack?.expiresAt ?? Number.NaN) + MINUTE_MS;
    for (const result of [results[0], results[2]]) {
      expectThat(
        result?.state === 'ready' && result.leaseExpiresAt >= until,
        `leaseExpiresAt of a ready result ≥ ${until}`,
        result,
      );
    }
    for (const { hash } of [one, two]) {
      const { state } = await client.describe(hash);
      expectThat(
        state.leaseExpiresAt >= until,
        `leaseExpiresAt in the metadata ≥ ${until}`,
        state.leaseExpiresAt,
      );
    }
  }),
  check('bulk-leases.same-pack', SAME, 'one pack until bytes arrive', 'bulk', async ({ client, target }) => {
    const bulk = new BulkClient(client);
    const [one, two] = [makeNode(), makeNode()];
    const hashes = [one.hash, two.hash];
    const first = await bulk.open(hashes);
    const second = await bulk.open(hashes);
    expectEqual(second.id, first.id, 'pack.id of the second answer');
    const other = await bulk.open([two.hash, randomHash()]);
    expectThat(other.id !== first.id, 'another pack for other hashes', 'the same id');
    const bytes = encodePack([one, two].map(plainRecord));
    await bulk.put(first, bytes);
    expectAlreadyThere(
      target.uploadKind,
      await client.put(second, bytes),
      'the PUT to the second URL of one pack',
    );
    const later = await bulk.open(hashes);
    expectThat(later.id !== first.id, 'a pack of its own once bytes have arrived', 'the same id');
    expectEqual(
      (await bulk.leasePack(first.id)).results.map(({ state }) => state),
      ['ready', 'ready'],
      'states of the pack',
    );
  }),
  check(
    'bulk-leases.expired-pack',
    SAME,
    'an expired pack is not opened again',
    'bulk',
    'upload-expiry',
    async ({ client, target, elapse }) => {
      const bulk = new BulkClient(client);
      const hashes = [randomHash()];
      const first = await bulk.open(hashes);
      await elapse(target.uploadTtlMs + 2_000);
      const second = await bulk.open(hashes);
      expectThat(second.id !== first.id, 'a new pack once the URL has expired', 'the same id');
    },
  ),
];

async function expectNoRoom(bulk: BulkClient, hashes: readonly string[], why: string): Promise<void> {
  const answer = await bulk.call('leaseNodes', { json: { leaseDurationMs: 3_600_000, hashes, pack: true } });
  expectError(answer, 429, 'CAS_UPLOAD_LIMIT', why);
  const wait = answer.headers.get('retry-after') ?? '';
  expectThat(/^[1-9]\d*$/.test(wait), 'Retry-After in seconds', wait || '(absent)', answer);
}

const limitChecks: readonly Check[] = [
  check(
    'bulk-leases.limit',
    LIMIT,
    'what takes a slot and what frees it',
    'bulk',
    'upload-limit',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const ready = await client.published();
      const before = await client.describe(ready.hash);
      const node = makeNode();
      const pack = await bulk.open([node.hash]);
      for (let count = 1; count < target.activeUploadsMax; count += 1) await client.instruction(randomHash());
      await expectNoRoom(bulk, [ready.hash, randomHash()], 'a pack too many');
      expectEqual(
        (await client.describe(ready.hash)).state,
        before.state,
        'the lease of a ready node after 429',
      );
      expectError(await client.lease(randomHash()), 429, 'CAS_UPLOAD_LIMIT', 'a pack counts as an upload');
      expectEqual(
        statesOf(await bulk.leases([ready.hash, randomHash()])),
        ['ready', 'absent'],
        'states without a pack when the Space is full',
      );
      expectEqual(
        (await bulk.open([node.hash])).id,
        pack.id,
        'pack.id of the open pack when the Space is full',
      );
      await bulk.put(pack, encodePack([plainRecord(node)]));
      await expectNoRoom(bulk, [randomHash()], 'the PUT alone frees no slot');
      await bulk.leasePack(pack.id);
      await bulk.open([randomHash()]);
      await expectNoRoom(bulk, [randomHash()], 'the freed slot is taken again');
    },
  ),
  check(
    'bulk-leases.limit-expiry',
    LIMIT,
    'an expired pack frees its slot',
    'bulk',
    'upload-limit',
    'upload-expiry',
    async ({ client, target, elapse }) => {
      const bulk = new BulkClient(client);
      for (let count = SLOTS_LEFT; count < target.activeUploadsMax; count += 1)
        await client.instruction(randomHash());
      for (let count = 0; count < SLOTS_LEFT; count += 1) await bulk.open([randomHash()]);
      await expectNoRoom(bulk, [randomHash()], 'full');
      await elapse(target.uploadTtlMs + 2_000);
      await bulk.open([randomHash()]);
    },
  ),
];

const [a, b] = [randomHash(), randomHash()];
const wrongBodies: readonly (readonly [string, unknown])[] = [
  ['no hashes', { leaseDurationMs: 1 }],
  ['an empty list', { leaseDurationMs: 1, hashes: [] }],
  ['a hash twice', { leaseDurationMs: 1, hashes: [a, b, a] }],
  ['a hash in capitals', { leaseDurationMs: 1, hashes: ['A'.repeat(64)] }],
  ['a short hash', { leaseDurationMs: 1, hashes: [a.slice(1)] }],
  ['no string', { leaseDurationMs: 1, hashes: [1] }],
  ['no array', { leaseDurationMs: 1, hashes: a }],
  ['no duration', { hashes: [a] }],
  ['a duration of 0', { leaseDurationMs: 0, hashes: [a] }],
  ['a duration of 1.5', { leaseDurationMs: 1.5, hashes: [a] }],
  ['pack as a number', { leaseDurationMs: 1, hashes: [a], pack: 1 }],
  ['pack as null', { leaseDurationMs: 1, hashes: [a], pack: null }],
  ['an unknown field', { leaseDurationMs: 1, hashes: [a], more: 1 }],
  ['an array', [a]],
];

const bodyChecks: readonly Check[] = [
  check('bulk-leases.bodies', BODY, 'bodies that are refused', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    for (const [what, json] of wrongBodies) {
      expectError(await bulk.call('leaseNodes', { json }), 400, 'INVALID_REQUEST', what);
    }
    const twice = `{"leaseDurationMs":1,"hashes":["${a}"],"pack":true,"pa\\u0063k":true}`;
    expectError(await bulk.call('leaseNodes', { body: twice }), 400, 'INVALID_REQUEST', 'a field twice');
    const json = { leaseDurationMs: 1, hashes: [a] };
    expectError(
      await bulk.call('leaseNodes', { json, query: 'pack=true' }),
      400,
      'INVALID_REQUEST',
      'a query',
    );
    const typed = await bulk.call('leaseNodes', { json, headers: { 'content-type': 'text/plain' } });
    expectError(typed, 400, 'INVALID_REQUEST', 'another media type');
    const long = await bulk.call('leaseNodes', { body: JSON.stringify(json) + ' '.repeat(1_048_576) });
    expectError(long, 413, 'PAYLOAD_TOO_LARGE', 'over 1 MiB');
  }),
  check('bulk-leases.hashes-max', BODY, '4,096 hashes, and one more', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const hashes = Array.from({ length: HASHES_MAX + 1 }, randomHash);
    const most = await bulk.leases(hashes.slice(1));
    expectEqual(most.results.length, HASHES_MAX, 'results');
    expectError(
      await bulk.call('leaseNodes', { json: { leaseDurationMs: 1, hashes } }),
      400,
      'INVALID_REQUEST',
      '4,097 hashes',
    );
  }),
];

export const bulkLeaseChecks: readonly Check[] = [
  ...resultChecks,
  ...packChecks,
  ...limitChecks,
  ...bodyChecks,
];
