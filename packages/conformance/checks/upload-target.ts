/** The upload target: what a signed URL allows, once. */
import { expectEqual, expectError, expectForbidden, expectStatus, expectThat } from '../expect.ts';
import { makeNode, makeNodeOfCanonicalSize, type SampleNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import type { Upload } from '../wire.ts';
import { replayedPuts } from './replayed-puts.ts';

const TARGET = 'The upload target';
const ONCE = 'The upload target: second PUT to a finished generation: 412, bytes unchanged, forever';
const ORDER = 'The upload target: judged in this order: signature and expiry 403, headers 403, finished 412';

async function expectRefused(
  client: SpaceClient,
  upload: Upload,
  token: string,
  node: SampleNode,
): Promise<void> {
  const url = new URL(upload.url);
  url.pathname = `/uploads/${token}`;
  const answer = await client.put({ ...upload, url: url.href }, node.bytes);
  expectForbidden(answer, 'a tampered upload URL');
  const headerless = await client.put({ ...upload, url: url.href }, node.bytes, {
    'if-none-match': undefined,
  });
  expectForbidden(headerless, 'a tampered upload URL without headers');
}

export function inPieces(bytes: Uint8Array, size = 65_536): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
}

export const uploadTargetChecks: readonly Check[] = [
  check(
    'upload.answer',
    `${TARGET}: 200 with an empty body`,
    'a PUT as instructed',
    'embedded-upload',
    async ({ client }) => {
      const node = makeNode();
      const answer = await client.put(await client.instruction(node.hash), node.bytes);
      expectStatus(answer, 200);
      expectEqual(answer.bytes.length, 0, 'length of the answer to a PUT', answer);
    },
  ),
  check('upload.once', ONCE, 'a finished URL alters nothing', 'embedded-upload', replayedPuts),
  check(
    'upload.once-rejected',
    ONCE,
    'a rejected generation stays finished',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload();
      expectStatus(await client.put(upload, makeNode().bytes), 200);
      const lease = await client.expectRejected(node.hash);
      expectError(
        await client.put(upload, node.bytes),
        412,
        'CONFLICT',
        'the rejected generation stays finished',
      );
      expectThat(lease.upload.url !== upload.url, 'a replacement has a URL of its own', 'the same URL');
      expectStatus(await client.put(lease.upload, node.bytes), 200);
    },
  ),
  check(
    'upload.over-limit',
    'The upload target: a body over the limit is cut off with 413, which finishes the generation',
    '413, then 412',
    'embedded-upload',
    'node-limit',
    async ({ client, target }) => {
      const { node, upload } = await client.startUpload();
      const tooLarge = makeNodeOfCanonicalSize(target.nodeBytesMax + 1);
      expectError(
        await client.put(upload, inPieces(tooLarge.bytes)),
        413,
        'PAYLOAD_TOO_LARGE',
        'over the limit without a declared length',
      );
      expectError(await client.put(upload, node.bytes), 412, 'CONFLICT', 'a 413 finishes the generation');
      const lease = await client.expectRejected(node.hash);
      expectEqual(lease.rejection.code, 'NODE_TOO_LARGE', 'rejection.code');
    },
  ),
  check(
    'upload.headers',
    `${TARGET}: missing if-none-match: * or another content type (403)`,
    'the returned headers exactly',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload();
      const wrongs: readonly Record<string, string | undefined>[] = [
        { 'if-none-match': undefined },
        { 'if-none-match': '"etag"' },
        { 'if-none-match': 'W/"*"' },
        { 'if-none-match': '*, "x"' },
        { 'content-type': undefined },
        { 'content-type': 'application/octet-stream' },
        { 'content-type': 'application/json' },
        { 'content-type': 'application/vnd.holdfast.cas-node.v2' },
      ];
      for (const headers of wrongs) {
        expectForbidden(await client.put(upload, node.bytes, headers), `headers ${JSON.stringify(headers)}`);
      }
      expectStatus(await client.put(upload, node.bytes), 200, 'refused PUTs leave the URL good');
      expectForbidden(
        await client.put(upload, node.bytes, { 'if-none-match': undefined }),
        'headers before finished',
      );
    },
  ),
  check('upload.tampered', ORDER, 'a tampered URL is 403', 'embedded-upload', async ({ client }) => {
    const { node, upload } = await client.startUpload();
    const url = new URL(upload.url);
    const token = url.pathname.slice('/uploads/'.length);
    for (let at = 0; at < token.length; at += Math.max(1, Math.floor(token.length / 24))) {
      const other = token[at] === 'A' ? 'B' : 'A';
      await expectRefused(client, upload, `${token.slice(0, at)}${other}${token.slice(at + 1)}`, node);
    }
    const others = [
      token.slice(0, -1),
      token.slice(1),
      `${token}A`,
      `${token}${token}`,
      'x',
      'a.b',
      token.split('').reverse().join(''),
    ];
    for (const other of others) await expectRefused(client, upload, other, node);
    expectStatus(await client.put(upload, node.bytes), 200, 'the URL as it was given');
  }),
  check(
    'upload.methods',
    'Errors: a method the path does not have → 404',
    'only PUT',
    'embedded-upload',
    async ({ client }) => {
      const upload = await client.instruction(makeNode().hash);
      const path = new URL(upload.url).pathname;
      for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'PATCH']) {
        const answer = await client.request(method, path);
        expectStatus(answer, 404, `${method} on the upload target`);
      }
    },
  ),
  check(
    'upload.no-bearer',
    `${TARGET}: no bearer token`,
    'tokens do not matter',
    'embedded-upload',
    async ({ client }) => {
      const { node, upload } = await client.startUpload();
      expectThat(
        upload.headers.authorization === undefined,
        'no bearer token in upload.headers',
        Object.keys(upload.headers),
      );
      expectStatus(
        await client.put(upload, node.bytes, { authorization: 'Bearer garbage' }),
        200,
        'a token is neither asked for nor judged',
      );
    },
  ),
];
