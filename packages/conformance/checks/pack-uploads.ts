/** The PUT of a pack: the rules of every upload target. */
import type { Answer } from '../answer.ts';
import { BulkClient } from '../bulk-client.ts';
import type { PackUpload } from '../bulk-wire.ts';
import { expectAlreadyThere, expectEqual, expectError, expectForbidden, expectStatus } from '../expect.ts';
import { makeNode, NODE_MEDIA_TYPE, randomHash } from '../node-bytes.ts';
import { encodePack, PACK_BYTES_MAX, PACK_HEADER, plainRecord } from '../pack-bytes.ts';
import { type Check, check } from '../suite.ts';
import { inPieces } from './upload-target.ts';

const PUT = 'Upload the pack';
const OVER = 'Upload the pack: 413: over bytesMax';
const ONCE = 'Upload the pack: 412: a pack is there already';

async function expectTooLong(bulk: BulkClient, pack: PackUpload): Promise<void> {
  const lease = await bulk.leasePack(pack.id);
  expectEqual(
    [lease.results, lease.broken?.byte],
    [[], PACK_BYTES_MAX],
    'results and broken.byte of a pack that is too long',
  );
  expectEqual(await bulk.leasePack(pack.id), lease, 'the repeated lease');
}

export const packUploadChecks: readonly Check[] = [
  check(
    'pack-put.answer',
    `${PUT}: 200 with an empty body`,
    'a PUT as instructed, whole and in pieces',
    'bulk',
    'embedded-upload',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const bytes = encodePack([plainRecord(makeNode())]);
      for (const body of [bytes, inPieces(bytes, 50)]) {
        const answer = await client.put(await bulk.open([randomHash()]), body);
        expectStatus(answer, 200);
        expectEqual(answer.bytes.length, 0, 'length of the answer', answer);
      }
    },
  ),
  check('pack-put.once', ONCE, 'a finished pack takes nothing more', 'bulk', async ({ client, target }) => {
    const bulk = new BulkClient(client);
    const [node, other] = [makeNode(), makeNode()];
    const pack = await bulk.uploaded(node, [plainRecord(node)]);
    const again = (): Promise<Answer> => client.put(pack, encodePack([plainRecord(other)]));
    expectAlreadyThere(target.uploadKind, await again(), 'a second PUT');
    expectEqual(
      (await bulk.leasePack(pack.id)).results.map(({ hash }) => hash),
      [node.hash],
      'hashes of the pack',
    );
    expectAlreadyThere(target.uploadKind, await again(), 'a PUT after the lease');
    expectEqual(
      (await bulk.leasePack(pack.id)).results.map(({ hash }) => hash),
      [node.hash],
      'hashes of the pack afterwards',
    );
    await client.expectAbsent(other.hash, 'sent to a finished pack');
  }),
  check(
    'pack-put.headers',
    `${PUT}: with exactly the headers of the instruction`,
    'headers that are missing or others',
    'bulk',
    'embedded-upload',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const pack = await bulk.open([randomHash()]);
      const wrong: readonly Record<string, string | undefined>[] = [
        { 'if-none-match': undefined },
        { 'if-none-match': '"x"' },
        { 'content-type': undefined },
        { 'content-type': NODE_MEDIA_TYPE },
        { 'content-type': 'application/octet-stream' },
      ];
      for (const headers of wrong)
        expectForbidden(await client.put(pack, PACK_HEADER, headers), JSON.stringify(headers));
      await bulk.put(pack, PACK_HEADER);
      expectForbidden(
        await client.put(pack, PACK_HEADER, { 'if-none-match': undefined }),
        'headers before 412',
      );
      expectError(await client.put(pack, PACK_HEADER), 412, 'CONFLICT', 'finished');
    },
  ),
  check(
    'pack-put.tampered',
    `${PUT}: as the upload of a node`,
    'a URL that was changed, or is of a node',
    'bulk',
    'embedded-upload',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const pack = await bulk.open([randomHash()]);
      const url = new URL(pack.url);
      url.pathname = url.pathname.replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A'));
      url.pathname = `${url.pathname}x`;
      expectForbidden(await client.put({ ...pack, url: url.href }, PACK_HEADER), 'a tampered URL');
      const { node, upload } = await client.startUpload();
      expectForbidden(
        await client.put({ ...upload, headers: pack.headers }, PACK_HEADER),
        'a pack to the URL of a node',
      );
      expectForbidden(
        await client.put({ ...pack, headers: upload.headers }, node.bytes),
        'a node to the URL of a pack',
      );
      await bulk.put(pack, PACK_HEADER);
    },
  ),
  check(
    'pack-put.expired',
    `${PUT}: 403: the URL has expired`,
    'after expiresAt',
    'bulk',
    'embedded-upload',
    'upload-expiry',
    async ({ client, target, elapse }) => {
      const bulk = new BulkClient(client);
      const pack = await bulk.open([randomHash()]);
      await elapse(target.uploadTtlMs + 2_000);
      expectForbidden(await client.put(pack, PACK_HEADER), 'an expired URL');
      expectError(
        await bulk.call('leasePack', { id: pack.id, json: { leaseDurationMs: 1 } }),
        409,
        'CONFLICT',
        'nothing was uploaded',
      );
    },
  ),
  check(
    'pack-put.signed-anew',
    'Lease many nodes: the same pack with a new signature',
    'the later URL outlives the first',
    'bulk',
    'embedded-upload',
    'upload-expiry',
    async ({ client, target, elapse }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const first = await bulk.open([node.hash]);
      await elapse(Math.floor(target.uploadTtlMs / 2));
      const second = await bulk.open([node.hash]);
      expectEqual(second.id, first.id, 'pack.id');
      await elapse(Math.ceil(target.uploadTtlMs / 2) + 1_000);
      expectForbidden(await client.put(first, PACK_HEADER), 'the first URL has expired');
      await bulk.put(second, encodePack([plainRecord(node)]));
      expectEqual(
        (await bulk.leasePack(first.id)).results.map(({ state }) => state),
        ['ready'],
        'states',
      );
    },
  ),
  check(
    'pack-put.over-limit',
    OVER,
    '413, which finishes the pack',
    'bulk',
    'embedded-upload',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const long = Buffer.concat([encodePack([plainRecord(node)]), Buffer.alloc(PACK_BYTES_MAX)]).subarray(
        0,
        PACK_BYTES_MAX + 1,
      );
      for (const body of [long, inPieces(long, 1_048_576)]) {
        const pack = await bulk.open([randomHash()]);
        expectError(await client.put(pack, body), 413, 'PAYLOAD_TOO_LARGE', 'a byte over 64 MiB');
        expectError(await client.put(pack, PACK_HEADER), 412, 'CONFLICT', 'a 413 finishes the pack');
        await expectTooLong(bulk, pack);
      }
      await client.expectAbsent(node.hash, 'in a pack that is too long');
    },
  ),
  check(
    'pack-put.over-limit-direct',
    OVER,
    'on a store of its own, judged by the lease',
    'bulk',
    'direct-upload',
    async ({ client }) => {
      const bulk = new BulkClient(client);
      const node = makeNode();
      const pack = await bulk.open([node.hash]);
      await bulk.put(
        pack,
        Buffer.concat([encodePack([plainRecord(node)]), Buffer.alloc(PACK_BYTES_MAX)]).subarray(
          0,
          PACK_BYTES_MAX + 1,
        ),
      );
      await expectTooLong(bulk, pack);
      await client.expectAbsent(node.hash, 'in a pack that is too long');
    },
  ),
];
