/** Reading content and metadata: headers, the Range grammar, absence. */
import type { Answer } from '../answer.ts';
import {
  expectBytes,
  expectEqual,
  expectError,
  expectHeader,
  expectNotFound,
  expectStatus,
  expectThat,
} from '../expect.ts';
import { makeNode, randomContent, randomHash, type SampleNode } from '../node-bytes.ts';
import { type Check, type CheckContext, check } from '../suite.ts';
import { expectNamed } from './headers.ts';

const GRAMMAR = 'readContent: Range grammar bytes=a-b, bytes=a-, bytes=-n; everything else 416';
const RANGES = 'readContent: 206 with Content-Range, ends clamped';
const CONTENT_HEADERS = 'readContent: content answers';
const SIZE = 1000;

function expectContentHeaders(answer: Answer, node: SampleNode, byteLength: number): void {
  expectHeader(answer, 'content-type', node.contentType);
  expectHeader(answer, 'content-length', String(byteLength));
  expectHeader(answer, 'accept-ranges', 'bytes');
  expectHeader(answer, 'cache-control', 'private, max-age=31536000, immutable');
  expectHeader(answer, 'x-content-type-options', 'nosniff');
  expectHeader(answer, 'content-security-policy', "sandbox; default-src 'none'");
  expectNamed(answer, 'Vary', 'Authorization');
  expectThat(!answer.headers.has('etag'), 'no ETag', answer.headers.get('etag'), answer);
}

/** Small and large contents may take different ways to the socket. */
async function sampleContents({ client, target }: CheckContext): Promise<SampleNode[]> {
  const sizes = [SIZE, 100_000, 700_000, 4_500_000].filter((size) => size + 100 <= target.nodeBytesMax);
  const types = ['text/html; charset=utf-8', 'image/svg+xml', 'application/octet-stream', 'x/y'];
  const nodes = sizes.map((size, i) =>
    makeNode({ contentType: types[i] ?? 'x/y', content: randomContent(size) }),
  );
  await client.publishAll(nodes);
  return nodes;
}

/** Range → first and last byte of the answer, for a node of 1000 bytes. */
const GOOD_RANGES: readonly (readonly [string, number, number])[] = [
  ['bytes=0-0', 0, 0],
  ['bytes=0-', 0, 999],
  ['bytes=0-999', 0, 999],
  ['bytes=0-1000', 0, 999],
  ['bytes=1-1', 1, 1],
  ['bytes=500-', 500, 999],
  ['bytes=500-2000', 500, 999],
  ['bytes=999-', 999, 999],
  ['bytes=999-999', 999, 999],
  ['bytes=999-99999999999999999999', 999, 999],
  ['bytes=-1', 999, 999],
  ['bytes=-999', 1, 999],
  ['bytes=-1000', 0, 999],
  ['bytes=-1001', 0, 999],
  ['bytes=-99999999999999999999', 0, 999],
];

const BAD_RANGES = [
  ...[
    'bytes=1000-',
    'bytes=1000-1000',
    'bytes=1000-2000',
    'bytes=99999999999999999999-',
    'bytes=5-4',
    'bytes=999-0',
  ],
  ...[
    'bytes=-0',
    'bytes=-',
    'bytes=',
    'bytes',
    'bytes=0',
    '0-1',
    '=0-1',
    'bytes 0-1',
    'bytes:0-1',
    'bytes==0-1',
  ],
  ...[
    'bytes=0-1,3-4',
    'bytes=0-0,',
    'bytes=,0-0',
    'bytes=-5,-3',
    'bytes=0-1, 2-3',
    'bytes=0-1;q=1',
    'bytes=0-1-2',
  ],
  ...[
    'bytes= 0-1',
    'bytes =0-1',
    'bytes=0 -1',
    'bytes=0- 1',
    'bytes=+0-1',
    'bytes=0-+1',
    'bytes=--1',
    'bytes=-1-',
    'bytes=-+1',
  ],
  ...[
    'bytes=a-b',
    'bytes=0x0-0x1',
    'bytes=1.0-2.0',
    'bytes=1e1-20',
    'bytes=0-*',
    'bytes=*-1',
    'bytes=0..1',
    'bytes=0_0-1',
  ],
  ...[
    'items=0-1',
    'seconds=0-1',
    'Bytes=0-1',
    'BYTES=0-1',
    'none',
    'bytes=null-1',
    'bytes=0-1/1000',
    'bytes 0-1/1000',
  ],
];

function expectUnsatisfiable(answer: Answer, size: number, range: string): void {
  const message = expectError(answer, 416, 'INVALID_REQUEST', `Range: ${range}`);
  expectHeader(answer, 'content-range', `bytes */${size}`);
  expectThat(
    /range/i.test(message) && /satisf/i.test(message),
    'a range-not-satisfiable message',
    message,
    answer,
  );
}

export const readChecks: readonly Check[] = [
  check('read.whole', CONTENT_HEADERS, 'headers of a 200', async (context) => {
    for (const node of await sampleContents(context)) {
      const answer = await context.client.readContent(node.hash);
      expectStatus(answer, 200);
      expectContentHeaders(answer, node, node.content.length);
      const range = answer.headers.get('content-range');
      expectThat(range === null, 'no Content-Range on 200', range, answer);
    }
  }),
  check('read.part', `${CONTENT_HEADERS}; ${RANGES}`, 'headers of a 206', async (context) => {
    for (const node of await sampleContents(context)) {
      const size = node.content.length;
      for (const [first, last] of [
        [10, 19],
        [1, size - 1],
      ] as const) {
        const answer = await context.client.readContent(node.hash, `bytes=${first}-${last}`);
        expectStatus(answer, 206);
        expectContentHeaders(answer, node, last - first + 1);
        expectHeader(answer, 'content-range', `bytes ${first}-${last}/${size}`);
      }
    }
  }),
  check('read.head', `${CONTENT_HEADERS}, HEAD too`, 'headers of a HEAD', async (context) => {
    for (const node of await sampleContents(context)) {
      const answer = await context.client.call('readContent', { hash: node.hash, method: 'HEAD' });
      expectStatus(answer, 200);
      expectContentHeaders(answer, node, node.content.length);
      expectEqual(answer.bytes.length, 0, 'length of the HEAD body', answer);
    }
  }),
  check('read.ranges', RANGES, 'every satisfiable form', async ({ client }) => {
    const node = await client.published(makeNode({ content: randomContent(SIZE) }));
    for (const [range, first, last] of GOOD_RANGES) {
      const answer = await client.readContent(node.hash, range);
      expectStatus(answer, 206, range);
      expectHeader(answer, 'content-range', `bytes ${first}-${last}/${SIZE}`);
      expectHeader(answer, 'content-length', String(last - first + 1));
      expectBytes(answer.bytes, node.content.slice(first, last + 1), range, answer);
    }
  }),
  check('read.bad-ranges', GRAMMAR, 'every other form is 416 with its envelope', async ({ client }) => {
    const node = await client.published(makeNode({ content: randomContent(SIZE) }));
    for (const range of BAD_RANGES)
      expectUnsatisfiable(await client.readContent(node.hash, range), SIZE, range);
  }),
  check(
    'read.empty',
    'readContent: any range on an empty node: 416; without Range 200, length 0',
    'an empty node',
    async ({ client }) => {
      const node = await client.published(makeNode({ contentType: 'text/plain', content: '' }));
      const whole = await client.readContent(node.hash);
      expectStatus(whole, 200);
      expectContentHeaders(whole, node, 0);
      expectEqual(whole.bytes.length, 0, 'length of the body', whole);
      for (const range of ['bytes=0-0', 'bytes=0-', 'bytes=-1', 'bytes=-0', 'bytes=1-2', 'x']) {
        expectUnsatisfiable(await client.readContent(node.hash, range), 0, range);
      }
    },
  ),
  check('read.absent', 'Errors: node absent → 404 NOT_FOUND', 'absent nodes', async ({ client }) => {
    const hash = randomHash();
    expectNotFound(await client.call('readMetadata', { hash }));
    expectNotFound(await client.readContent(hash));
    for (const range of ['bytes=0-0', 'nonsense']) {
      expectNotFound(await client.readContent(hash, range), 'absence before the range');
    }
  }),
  check('read.range-elsewhere', 'readMetadata', 'metadata has no ranges', async ({ client }) => {
    const node = await client.published();
    const answer = await client.call('readMetadata', { hash: node.hash, headers: { range: 'bytes=0-3' } });
    expectStatus(answer, 200, 'Range is for content only');
  }),
  check(
    'read.unconditional',
    'readContent: no ETag, the read is repeatable',
    'conditions that nothing can match',
    async ({ client }) => {
      const node = await client.published(makeNode({ content: 'unconditional' }));
      const conditions = [
        { 'if-none-match': '"x"' },
        { 'if-none-match': `"${node.hash}"` },
        { 'if-modified-since': new Date().toUTCString() },
      ];
      for (const headers of conditions) {
        const answer = await client.call('readContent', { hash: node.hash, headers });
        expectStatus(answer, 200, 'without an ETag nothing can match');
        expectBytes(answer.bytes, node.content, 'content', answer);
      }
    },
  ),
  check('read.blocks', RANGES, 'ranges across block edges of a large node', async ({ client, target }) => {
    const size = Math.min(5_000_011, target.nodeBytesMax - 100);
    const node = await client.published(makeNode({ content: randomContent(size) }));
    await client.expectContent(node);
    const edges = [4096, 16_384, 65_536, 262_144, 1_048_576].filter((edge) => edge + 10 < size);
    for (const edge of edges) {
      for (const [first, last] of [
        [edge - 1, edge],
        [edge, edge],
        [edge - 5, edge + 5],
        [1, edge],
        [edge, size - 1],
      ] as const) {
        const answer = await client.readContent(node.hash, `bytes=${first}-${last}`);
        expectStatus(answer, 206);
        expectBytes(answer.bytes, node.content.slice(first, last + 1), `bytes ${first}-${last}`, answer);
      }
    }
  }),
  check('read.repeatable', 'readContent: the read is repeatable', 'concurrent reads', async ({ client }) => {
    const node = await client.published(makeNode({ content: randomContent(Math.min(200_000)) }));
    const reads = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        client.readContent(node.hash, i % 2 === 0 ? undefined : `bytes=${i * 1000}-${i * 1000 + 77}`),
      ),
    );
    reads.forEach((answer, i) => {
      expectStatus(answer, i % 2 === 0 ? 200 : 206);
      expectBytes(
        answer.bytes,
        i % 2 === 0 ? node.content : node.content.slice(i * 1000, i * 1000 + 78),
        `read ${i}`,
        answer,
      );
    });
  }),
  check(
    'read.own-content',
    'readContent: the node’s own content, not the envelope',
    'the logical content',
    async ({ client }) => {
      const child = await client.published(makeNode({ content: 'child' }));
      const parent = await client.published(
        makeNode({ contentType: 'text/plain', refs: [child.hash], content: 'parent' }),
      );
      const answer = await client.readContent(parent.hash);
      expectBytes(answer.bytes, parent.content, 'content without envelope', answer);
      expectHeader(answer, 'content-length', '6');
      expectEqual((await client.describe(parent.hash)).metadata.size, 6, 'size: logical content length');
    },
  ),
];
