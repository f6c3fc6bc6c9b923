/** The lease of a pack: its results, what it publishes, what a repeated one says. */
import { DAY_MS } from '@holdfast/protocol';
import { BulkClient } from '../bulk-client.ts';
import type { PackLease } from '../bulk-wire.ts';
import {
  expectAlreadyThere,
  expectConflict,
  expectEqual,
  expectError,
  expectNotFound,
  expectStatus,
  expectThat,
} from '../expect.ts';
import { makeNode, randomHash } from '../node-bytes.ts';
import { encodePack, PACK_HEADER, plainRecord } from '../pack-bytes.ts';
import { type Check, check } from '../suite.ts';

const RESULTS = 'Lease the pack: one result for each record in the order of the pack';
const CHILDREN = 'Lease the pack: children are judged before parents, wherever they stand';
const UNKNOWN = 'Lease the pack: an id that is unknown, of another App or Space, forgotten or malformed: 404';
const NOTHING = 'Lease the pack: nothing uploaded yet: 409 CONFLICT';
const REPEAT = 'Lease the pack: the same lease again reads nothing';
const SINGLE = 'Lease the pack: a rejected record leaves its hash as it was';
const ASKED = { json: { leaseDurationMs: 60_000 } };

const statesOf = ({ results }: PackLease): string[] => results.map(({ state }) => state);

const resultChecks: readonly Check[] = [
  check(
    'pack-lease.children',
    CHILDREN,
    'parents before children, children before parents',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      for (const turn of [(nodes: unknown[]) => nodes, (nodes: unknown[]) => nodes.reverse()]) {
        const leaf = makeNode();
        const middle = makeNode({ refs: [leaf.hash, leaf.hash] });
        const top = makeNode({ refs: [leaf.hash, middle.hash] });
        const nodes = turn([top, middle, leaf]) as (typeof top)[];
        const lease = await bulk.send(nodes);
        expectEqual(
          lease.results.map(({ hash }) => hash),
          nodes.map(({ hash }) => hash),
          'hashes in the order of the pack',
        );
        expectEqual(statesOf(lease), ['ready', 'ready', 'ready'], 'states');
        await client.expectChildRefCount(leaf.hash, 3, 'childRefCount of the leaf');
        await client.expectChildRefCount(middle.hash, 1, 'childRefCount of the middle');
      }
    },
  ),
  check(
    'pack-lease.waiting',
    RESULTS,
    'a parent without its child waits, in whatever pack the child comes',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const [one, two, other] = [makeNode(), makeNode(), makeNode()];
      const parent = makeNode({ refs: [two.hash, one.hash, two.hash, other.hash] });
      const first = await bulk.send([parent, other]);
      expectEqual(
        first.results[0],
        { state: 'validated_awaiting_children', hash: parent.hash, childHashes: [two.hash, one.hash] },
        'the waiting result',
      );
      await bulk.publish([one]);
      await client.publish(two);
      await client.expectAbsent(parent.hash, 'before its own lease');
      await client.expectLease(parent.hash, 'ready', 'state of the parent once its children are ready');
    },
  ),
  check(
    'pack-lease.ready-only-leased',
    RESULTS,
    'a node that is there is leased and not stored again',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const [known, fresh] = [await client.published(), makeNode()];
      const before = await client.describe(known.hash);
      const pack = await bulk.uploaded(fresh, [known, fresh].map(plainRecord));
      const lease = await bulk.leasePack(pack.id, 3_600_000);
      expectEqual(statesOf(lease), ['ready', 'ready'], 'states');
      const after = await client.describe(known.hash);
      expectEqual(
        after.state.leaseStartedAt,
        before.state.leaseStartedAt,
        'leaseStartedAt of the node that was ready',
      );
      expectThat(
        after.state.leaseExpiresAt > before.state.leaseExpiresAt,
        'its lease is renewed',
        after.state.leaseExpiresAt,
      );
      const usage = await client.usage();
      expectEqual(
        [usage.nodeCount, usage.readyStoredBytes],
        [2, known.bytes.length + fresh.bytes.length],
        'nodeCount, readyStoredBytes',
      );
    },
  ),
  check(
    'pack-lease.unasked',
    'Upload the pack: a pack may hold nodes that nobody asked for',
    'nodes nobody asked for',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const [asked, unasked] = [makeNode(), makeNode()];
      const { id } = await bulk.uploaded(asked, [plainRecord(unasked)]);
      const lease = await bulk.leasePack(id);
      expectEqual(
        lease.results.map(({ hash, state }) => [hash, state]),
        [[unasked.hash, 'ready']],
        'results',
      );
      await client.expectAbsent(asked.hash, 'asked for and not sent');
    },
  ),
  check(
    'pack-lease.together',
    RESULTS,
    'eight leases of one pack publish once',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const child = makeNode();
      const nodes = [makeNode({ refs: [child.hash] }), child];
      const { id } = await bulk.uploaded(child, nodes.map(plainRecord));
      const durations = Array.from({ length: 8 }, (_, index) => 60_000 + index * 60_000);
      for (const lease of await Promise.all(durations.map((ms) => bulk.leasePack(id, ms)))) {
        expectEqual(statesOf(lease), ['ready', 'ready'], 'states of a lease among eight');
      }
      await client.expectChildRefCount(child.hash, 1, 'childRefCount');
      const { state } = await client.describe(child.hash);
      expectThat(
        state.leaseExpiresAt - state.leaseStartedAt >= 480_000,
        'the longest duration stands',
        state,
      );
      expectEqual((await client.usage()).nodeCount, 2, 'nodeCount');
    },
  ),
];

const idChecks: readonly Check[] = [
  check('pack-lease.nothing', NOTHING, 'before the PUT', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const node = makeNode();
    const pack = await bulk.open([node.hash]);
    for (let times = 0; times < 2; times += 1)
      expectConflict(await bulk.call('leasePack', { id: pack.id, ...ASKED }), 'nothing uploaded');
    await bulk.put(pack, encodePack([plainRecord(node)]));
    expectEqual(statesOf(await bulk.leasePack(pack.id)), ['ready'], 'states after the PUT');
  }),
  check(
    'pack-lease.unknown',
    UNKNOWN,
    'ids of no pack of this Space',
    'bulk',
    async ({ client, newSpace }) => {
      const bulk = new BulkClient(client);
      const { id } = await bulk.uploaded(makeNode(), [plainRecord(makeNode())]);
      const foreign = await new BulkClient(newSpace()).call('leasePack', { id, ...ASKED });
      const unknown = await bulk.call('leasePack', { id: '0'.repeat(id.length), ...ASKED });
      for (const answer of [foreign, unknown]) expectNotFound(answer, 'a foreign or unknown id');
      expectEqual(
        new TextDecoder().decode(foreign.bytes),
        new TextDecoder().decode(unknown.bytes),
        'the body, foreign as unknown',
      );
      for (const malformed of [
        'x',
        '%00',
        id.slice(1),
        `${id}0`,
        id.toUpperCase() === id ? 'y' : id.toUpperCase(),
        '%2e%2e',
      ]) {
        expectNotFound(await bulk.call('leasePack', { id: malformed, ...ASKED }), `the id ${malformed}`);
      }
      expectEqual((await bulk.leasePack(id)).results.length, 1, 'results under its own Space');
    },
  ),
  check(
    'pack-lease.other-app',
    UNKNOWN,
    'the same Space of another App',
    'bulk',
    'second-app',
    async ({ client, target }) => {
      const second = target.options.secondIdentity;
      if (second === undefined) return;
      const { id } = await new BulkClient(client).uploaded(makeNode(), [plainRecord(makeNode())]);
      const other = new BulkClient(client.asIdentity(second));
      expectNotFound(await other.call('leasePack', { id, ...ASKED }), 'a pack of another App');
    },
  ),
  check('pack-lease.bodies', 'leaseNode: body', 'bodies that are refused', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const { id } = await bulk.uploaded(makeNode(), PACK_HEADER);
    for (const json of [
      {},
      { leaseDurationMs: 0 },
      { leaseDurationMs: '1' },
      { leaseDurationMs: 1, hashes: [randomHash()] },
      [],
    ]) {
      expectError(await bulk.call('leasePack', { id, json }), 400, 'INVALID_REQUEST', JSON.stringify(json));
    }
    expectError(
      await bulk.call('leasePack', { id, ...ASKED, query: 'a=1' }),
      400,
      'INVALID_REQUEST',
      'a query',
    );
    const long = await bulk.call('leasePack', { id, body: `{"leaseDurationMs":1}${' '.repeat(1_048_576)}` });
    expectError(long, 413, 'PAYLOAD_TOO_LARGE', 'over 1 MiB');
  }),
];

const repeatChecks: readonly Check[] = [
  check('pack-lease.repeated', REPEAT, 'results, rejections and broken stay', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const [node, bad] = [makeNode(), makeNode()];
    const parent = makeNode({ refs: [randomHash()] });
    const wrong = { ...plainRecord(makeNode()), hash: bad.hash };
    const bytes = Buffer.concat([
      encodePack([plainRecord(parent), wrong, plainRecord(node)]),
      Buffer.alloc(5),
    ]);
    const { id } = await bulk.uploaded(node, bytes);
    const first = await bulk.leasePack(id);
    expectEqual(statesOf(first), ['validated_awaiting_children', 'rejected', 'ready'], 'states');
    expectEqual(first.broken?.byte, bytes.length - 5, 'broken.byte');
    const { results, broken } = await bulk.leasePack(id);
    expectEqual(broken, first.broken, 'broken of the repeated lease');
    expectEqual(results.slice(0, 2), first.results.slice(0, 2), 'the waiting and the rejected result, again');
    expectEqual(results[2]?.state, 'ready', 'state of the last result, again');
    await client.publish(bad);
    const [waiting, rejected, ready] = (await bulk.leasePack(id, 3_600_000)).results;
    expectEqual([waiting, rejected], first.results.slice(0, 2), 'the waiting and the rejected result, later');
    expectThat(
      ready?.state === 'ready' && ready.leaseExpiresAt - ready.leaseStartedAt >= 3_600_000,
      'a longer lease',
      ready,
    );
  }),
  check(
    'pack-lease.repeated-after-gc',
    REPEAT,
    'a node that was collected meanwhile is absent',
    'bulk',
    'minute',
    async ({ client, elapse }) => {
      const bulk = new BulkClient(client);
      const [gone, kept] = [makeNode(), makeNode()];
      const wrong = { ...plainRecord(makeNode()), hash: randomHash() };
      const { id } = await bulk.uploaded(gone, [plainRecord(gone), wrong, plainRecord(kept)]);
      const first = await bulk.leasePack(id);
      await client.commit('keep', { [kept.hash]: 1 });
      await elapse(61_500);
      expectEqual((await client.gc()).deleted, 1, 'deleted');
      const again = await bulk.leasePack(id);
      expectEqual(statesOf(again), ['absent', 'rejected', 'ready'], 'states after the collection');
      expectEqual(again.results[1], first.results[1], 'the rejected result');
      await client.expectAbsent(gone.hash, 'after a repeated lease');
      await bulk.publish([gone]);
      expectEqual(
        statesOf(await bulk.leasePack(id)),
        ['ready', 'rejected', 'ready'],
        'states once it is back',
      );
    },
  ),
  check(
    'pack-lease.forgotten',
    'Lease the pack: rejections and broken are kept until 24 h after the last one',
    'a day after the last lease',
    'bulk',
    'day',
    async ({ client, elapse, settle }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const { id } = await bulk.uploaded(node, [
        plainRecord(node),
        { ...plainRecord(makeNode()), hash: randomHash() },
      ]);
      const first = await bulk.leasePack(id);
      for (let times = 0; times < 2; times += 1) {
        await elapse(DAY_MS - 60_000);
        await settle();
        expectEqual(
          (await bulk.leasePack(id)).results[1],
          first.results[1],
          'the rejection less than a day after the last lease',
        );
      }
      await elapse(DAY_MS + 60_000);
      await settle();
      expectNotFound(await bulk.call('leasePack', { id, ...ASKED }), 'a day later');
      await client.expectContent(node, 'content of a node whose pack is forgotten');
    },
  ),
];

const singleUploadChecks: readonly Check[] = [
  check(
    'pack-lease.finishes-upload',
    'Lease the pack: it publishes each good node as it publishes the upload of a single one',
    'a v1 upload of the same node is finished',
    'bulk',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const { node, upload } = await client.startUpload();
      await bulk.publish([node]);
      const late = await client.put(upload, makeNode().bytes);
      if (target.uploadKind === 'embedded') expectError(late, 412, 'CONFLICT', 'a late PUT to the v1 URL');
      await client.expectLease(node.hash, 'ready', 'state after the late PUT');
      await client.expectContent(node, 'content after the late PUT');
      expectEqual((await client.usage()).nodeCount, 1, 'nodeCount');
    },
  ),
  check(
    'pack-lease.frees-slot',
    'Lease many nodes: an open pack is one active upload of the Space',
    'publishing frees the slots of v1 uploads',
    'bulk',
    'upload-limit',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const pack = await bulk.open([node.hash]);
      await client.instruction(node.hash);
      for (let count = 2; count < target.activeUploadsMax; count += 1) await client.instruction(randomHash());
      expectError(await client.lease(randomHash()), 429, 'CAS_UPLOAD_LIMIT', 'full');
      await bulk.put(pack, encodePack([plainRecord(node)]));
      await bulk.leasePack(pack.id);
      for (let count = 0; count < 2; count += 1) await client.instruction(randomHash());
      expectError(
        await client.lease(randomHash()),
        429,
        'CAS_UPLOAD_LIMIT',
        'full again: two slots were freed',
      );
    },
  ),
  check(
    'pack-lease.rejected-alone',
    SINGLE,
    'a v1 upload and its rejection stay',
    'bulk',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const [open, refused, ready] = [makeNode(), makeNode(), await client.published()];
      const upload = await client.instruction(open.hash);
      expectStatus(await client.put(await client.instruction(refused.hash), makeNode().bytes), 200);
      const before = await client.expectRejected(refused.hash);
      const records = [open, refused, ready].map(({ hash }) => ({ ...plainRecord(makeNode()), hash }));
      const lease = await bulk.send([open], records);
      expectEqual(statesOf(lease), ['rejected', 'rejected', 'rejected'], 'states');
      const after = await client.expectRejected(refused.hash);
      expectEqual(after.rejection, before.rejection, 'the rejection of the v1 upload');
      await client.expectContent(ready);
      expectStatus(await client.put(upload, open.bytes), 200, 'the PUT of the v1 upload');
      expectAlreadyThere(target.uploadKind, await client.put(upload, open.bytes), 'a second one');
      await client.expectLease(open.hash, 'ready');
    },
  ),
];

export const packLeaseChecks: readonly Check[] = [
  ...resultChecks,
  ...idChecks,
  ...repeatChecks,
  ...singleUploadChecks,
];
