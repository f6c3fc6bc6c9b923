/** reads of Bulk: a pack of the nodes that could be served whole. */
import { BulkClient } from '../bulk-client.ts';
import { expectBytes, expectEqual, expectError, expectHeader, expectStatus, expectThat } from '../expect.ts';
import {
  makeNode,
  makeNodeOfCanonicalSize,
  NODE_REFS_MAX,
  randomContent,
  randomHash,
  type SampleNode,
} from '../node-bytes.ts';
import {
  encodePack,
  framedRecord,
  PACK_BYTES_MAX,
  PACK_HEADER,
  PACK_MEDIA_TYPE,
  PACK_REFS_MAX,
  PACKED_NODE_BYTES_MAX,
  plainRecord,
} from '../pack-bytes.ts';
import { type Check, check } from '../suite.ts';

const READS = 'Read many nodes: the nodes that could be served whole, in the order of the request';
const CODECS = 'Read many nodes: without codecs every record has codec 0; another codec than zstd is 400';
const END = 'Read many nodes: it ends before the pack or the canonical bytes pass 64 MiB';
const REFS = 'Read many nodes: it ends before the refs pass 65,536';
const BODY = 'Read many nodes: 1 to 4,096 distinct hashes';
const HASHES_MAX = 4096;
const BIG_NODE_BYTES = 4_194_304;

const compressible = (): SampleNode => makeNode({ content: `${randomHash()} `.repeat(300) });

async function expectRead(
  bulk: BulkClient,
  hashes: readonly string[],
  nodes: readonly SampleNode[],
  codecs?: readonly string[],
): Promise<readonly number[]> {
  const records = await bulk.reads(hashes, codecs);
  expectEqual(
    records.map(({ hash }) => hash),
    nodes.map(({ hash }) => hash),
    'hashes of the records',
  );
  for (const [index, { canonical }] of records.entries()) {
    expectBytes(canonical, nodes[index]?.bytes ?? new Uint8Array(0), 'canonical bytes of a record');
  }
  return records.map(({ codec }) => codec);
}

export const bulkReadChecks: readonly Check[] = [
  check(
    'bulk-reads.order',
    READS,
    'nodes of packs and of single uploads, and what is not served',
    'bulk',
    async ({ client, newSpace }) => {
      const bulk = new BulkClient(client);
      const nodes = [
        compressible(),
        makeNode(),
        makeNode({ content: new Uint8Array(0) }),
        makeNode({ content: randomContent(100_000) }),
      ];
      const [framed, plain, empty, large] = nodes as [SampleNode, SampleNode, SampleNode, SampleNode];
      await bulk.publish([framed, plain], [framedRecord(framed), plainRecord(plain)]);
      for (const node of [empty, large]) await client.uploadAlone(node);
      const waiting = makeNode({ refs: [randomHash()] });
      await client.uploadAlone(waiting);
      const { node: uploaded, upload } = await client.startUpload();
      await client.put(upload, uploaded.bytes);
      const foreign = await newSpace().published();
      const wanted = [large, foreign, plain, waiting, framed, uploaded, empty].map(({ hash }) => hash);
      await expectRead(bulk, wanted, [large, plain, framed, empty]);
      await expectRead(bulk, wanted.toReversed(), [empty, framed, plain, large], ['zstd']);
    },
  ),
  check('bulk-reads.none', READS, 'a pack without records', 'bulk', async ({ client }) => {
    const answer = await new BulkClient(client).call('readNodes', { json: { hashes: [randomHash()] } });
    expectStatus(answer, 200);
    expectBytes(answer.bytes, PACK_HEADER, 'the answer', answer);
    expectHeader(answer, 'content-type', PACK_MEDIA_TYPE);
  }),
  check('bulk-reads.codecs', CODECS, 'codec 1 only where it was asked for', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const [framed, plain] = [compressible(), compressible()];
    await bulk.publish([framed, plain], [framedRecord(framed), plainRecord(plain)]);
    const hashes = [framed.hash, plain.hash];
    for (const codecs of [undefined, []])
      expectEqual(await expectRead(bulk, hashes, [framed, plain], codecs), [0, 0], 'codecs of the records');
    await expectRead(bulk, hashes, [framed, plain], ['zstd']);
    for (const codecs of [['gzip'], ['zstd', 'br'], ['ZSTD'], [''], [1], 'zstd', null]) {
      expectError(
        await bulk.call('readNodes', { json: { hashes, codecs } }),
        400,
        'INVALID_REQUEST',
        `codecs ${JSON.stringify(codecs)}`,
      );
    }
  }),
  check('bulk-reads.end', END, '17 nodes of 4 MiB', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const count = PACK_BYTES_MAX / BIG_NODE_BYTES + 1;
    const type = 'application/octet-stream';
    const bytes = Buffer.alloc(BIG_NODE_BYTES - 24 - type.length, 'x');
    const nodes = Array.from({ length: count }, (_, index) => {
      bytes.writeUInt32LE(index);
      return makeNode({ contentType: type, content: new Uint8Array(bytes) });
    });
    const small = makeNode();
    await bulk.publish([small, ...nodes], [plainRecord(small), ...nodes.map((node) => framedRecord(node))]);
    const hashes = nodes.map(({ hash }) => hash);
    await expectRead(bulk, hashes, nodes.slice(0, count - 2));
    await expectRead(bulk, hashes, nodes.slice(0, count - 1), ['zstd']);
    // Whatever stands behind the end is not in it, small or not.
    await expectRead(bulk, [...hashes, small.hash], nodes.slice(0, count - 1), ['zstd']);
  }),
  check('bulk-reads.refs', REFS, '257 nodes of 256 refs', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const leaf = makeNode();
    const refs = Array<string>(NODE_REFS_MAX).fill(leaf.hash);
    const count = PACK_REFS_MAX / NODE_REFS_MAX + 1;
    const parents = Array.from({ length: count }, () => makeNode({ refs }));
    await bulk.publish([leaf], [plainRecord(leaf)]);
    for (const some of [parents.slice(0, count - 1), parents.slice(count - 1)])
      await bulk.publish(
        some,
        some.map((node) => plainRecord(node)),
      );
    await expectRead(
      bulk,
      [...parents, leaf].map(({ hash }) => hash),
      parents.slice(0, count - 1),
    );
  }),
  check(
    'bulk-reads.large',
    READS,
    'nodes of 8 MiB are served, larger ones left out',
    'bulk',
    'node-limit',
    async ({ client, target }) => {
      const bulk = new BulkClient(client);
      const size = Math.min(target.nodeBytesMax, PACKED_NODE_BYTES_MAX);
      const most = makeNodeOfCanonicalSize(size);
      const more = target.nodeBytesMax > size ? [makeNodeOfCanonicalSize(size + 1)] : [];
      for (const node of [most, ...more]) await client.uploadAlone(node);
      await expectRead(
        bulk,
        [...more, most].map(({ hash }) => hash),
        [most],
      );
    },
  ),
  check('bulk-reads.bodies', BODY, 'bodies that are refused', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const [a, b] = [randomHash(), randomHash()];
    const wrong = [
      {},
      { hashes: [] },
      { hashes: [a, b, a] },
      { hashes: [a.slice(1)] },
      { hashes: a },
      { hashes: [a], leaseDurationMs: 1 },
      [a],
    ];
    for (const json of wrong)
      expectError(await bulk.call('readNodes', { json }), 400, 'INVALID_REQUEST', JSON.stringify(json));
    expectError(
      await bulk.call('readNodes', { json: { hashes: [a] }, query: 'codecs=zstd' }),
      400,
      'INVALID_REQUEST',
      'a query',
    );
    const hashes = Array.from({ length: HASHES_MAX + 1 }, randomHash);
    expectError(await bulk.call('readNodes', { json: { hashes } }), 400, 'INVALID_REQUEST', '4,097 hashes');
    expectEqual(await bulk.reads(hashes.slice(1)), [], 'records of 4,096 unknown nodes');
  }),
  check('bulk-reads.read-only', READS, 'a read changes no lease', 'bulk', async ({ client }) => {
    const node = await client.published();
    const before = await client.describe(node.hash);
    await expectRead(new BulkClient(client), [node.hash], [node]);
    expectEqual(await client.describe(node.hash), before, 'the description after the read');
    expectThat((await client.usage()).nodeCount === 1, 'one node', 'another count');
  }),
];

export const bulkMixChecks: readonly Check[] = [
  check(
    'bulk-mix.usage',
    'getUsage: readyStoredBytes: canonical by v1, stored length by Bulk',
    'a compressed record counts as it is stored',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const [framed, plain] = [compressible(), compressible()];
      const record = framedRecord(framed);
      await bulk.publish([framed], [record]);
      await client.uploadAlone(plain);
      const parent = makeNode({ refs: [randomHash()], content: 'x'.repeat(1000) });
      await bulk.send([parent], [framedRecord(parent)]);
      const usage = await client.usage();
      expectEqual(
        [
          usage.nodeCount,
          usage.readyContentBytes,
          usage.readyStoredBytes,
          usage.reservedBytes,
          usage.notReadyNodeCount,
        ],
        [
          3,
          framed.content.length + plain.content.length,
          record.stored.length + plain.bytes.length,
          parent.bytes.length,
          1,
        ],
        'nodeCount, readyContentBytes, readyStoredBytes, reservedBytes, notReadyNodeCount',
      );
    },
  ),
  check(
    'bulk-mix.reads',
    'readContent',
    'ranges of a compressed node, its metadata',
    'bulk',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const [framed, neighbour] = [
        makeNode({ content: 'line of text\n'.repeat(20_000), contentType: 'text/plain' }),
        compressible(),
      ];
      await bulk.publish(
        [neighbour, framed],
        [neighbour, framed].map((node) => framedRecord(node)),
      );
      await client.expectContent(framed);
      for (const [range, from, to] of [
        ['bytes=0-0', 0, 1],
        ['bytes=99990-100010', 99_990, 100_011],
        ['bytes=-5', framed.content.length - 5, framed.content.length],
      ] as const) {
        const answer = await client.readContent(framed.hash, range);
        expectStatus(answer, 206, range);
        expectBytes(answer.bytes, framed.content.subarray(from, to), `the bytes of ${range}`, answer);
        expectHeader(answer, 'content-range', `bytes ${from}-${to - 1}/${framed.content.length}`);
      }
      const { metadata } = await client.describe(framed.hash);
      expectEqual(
        metadata,
        { hash: framed.hash, size: framed.content.length, contentType: 'text/plain', refs: [] },
        'metadata',
      );
    },
  ),
  check(
    'bulk-mix.gc',
    'runGc',
    'nodes of one pack are collected each by itself',
    'bulk',
    'minute',
    async ({ client, elapse }) => {
      const bulk = new BulkClient(client);
      const [kept, child, gone] = [makeNode(), compressible(), compressible()];
      const parent = makeNode({ refs: [child.hash] });
      await bulk.publish(
        [gone, kept, child, parent],
        [framedRecord(gone), plainRecord(kept), framedRecord(child), plainRecord(parent)],
      );
      await client.commit('keep', { [kept.hash]: 1, [parent.hash]: 1 });
      await elapse(61_500);
      const pass = await client.gc();
      expectEqual(
        [pass.deleted, pass.reclaimedContentBytes],
        [1, gone.content.length],
        'deleted and reclaimedContentBytes',
      );
      await client.expectAbsent(gone.hash, 'after its collection');
      expectEqual((await bulk.reads([gone.hash])).length, 0, 'records of what was collected');
      for (const node of [kept, child, parent])
        await client.expectContent(node, 'content of a neighbour in the pack');
      const old = await bulk.uploaded(gone, encodePack([plainRecord(gone)]));
      expectEqual(
        (await bulk.leasePack(old.id)).results.map(({ state }) => state),
        ['ready'],
        'states of what came back',
      );
      await client.expectContent(gone, 'content of what came back');
    },
  ),
];
