/** Canonical node bytes: the golden vectors, what is kept of a node, every broken envelope. */
import { readFileSync } from 'node:fs';
import { sayBytes } from '../answer.ts';
import { expectBytes, expectEqual, expectStatus, expectThat } from '../expect.ts';
import {
  encodeEnvelope,
  makeNode,
  makeNodeOfCanonicalSize,
  type SampleNode,
  sha256Hex,
} from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const FORMAT = 'Canonical node bytes';
const INVALID = 'leaseNode: format → INVALID_CANONICAL_NODE';

interface Vector {
  readonly name: string;
  readonly contentType: string;
  readonly contentHex: string | null;
  readonly refs: readonly string[];
  readonly canonicalHex: string | null;
  readonly sha256: string;
}

function readVectors(): { name: string; node: SampleNode; canonicalHex: string | null; sha256: string }[] {
  const vectors = JSON.parse(
    readFileSync(new URL('../node-vectors.json', import.meta.url), 'utf8'),
  ) as Vector[];
  return vectors.map(({ name, contentType, contentHex, refs, canonicalHex, sha256 }) => {
    const content =
      contentHex === null
        ? Uint8Array.from({ length: 256 }, (_, i) => i)
        : Uint8Array.from(Buffer.from(contentHex, 'hex'));
    return { name, node: makeNode({ contentType, refs, content }), canonicalHex, sha256 };
  });
}

/** The answer is the node: fields, content, and canonical bytes rebuilt from both. */
async function expectReadBack(client: SpaceClient, node: SampleNode, what: string): Promise<void> {
  const { metadata } = await client.describe(node.hash);
  const expected = {
    hash: node.hash,
    size: node.content.length,
    contentType: node.contentType,
    refs: node.refs,
  };
  expectEqual(metadata, expected, `metadata of ${what}`);
  const answer = await client.readContent(node.hash);
  expectStatus(answer, 200, what);
  expectBytes(answer.bytes, node.content, `content of ${what}`, answer);
  const rebuilt = encodeEnvelope(metadata.contentType, metadata.refs, answer.bytes);
  expectEqual(sha256Hex(rebuilt), node.hash, `hash rebuilt from metadata and content of ${what}`);
}

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

function brokenEnvelopes(): Record<string, Uint8Array> {
  const type = 'text/plain';
  const content = text('content');
  const good = encodeEnvelope(type, [], content);
  const ref = 'c'.repeat(64);
  const byte = (value: number) => new Uint8Array([...text('text/'), value, ...text('plain')]);
  return {
    'an empty body': new Uint8Array(),
    'one byte': good.slice(0, 1),
    'a header cut at 23 bytes': good.slice(0, 23),
    'a header alone': good.slice(0, 24),
    'a cut content type': good.slice(0, 30),
    'a missing last byte': good.slice(0, -1),
    'a trailing byte': new Uint8Array([...good, 0]),
    'no content where size says 7': good.slice(0, 34),
    'plain text': text('no envelope at all, only text that is longer than a header'),
    'signature 44 55': encodeEnvelope(type, [], content, { signature: [0x44, 0x55] }),
    'signature 55 45': encodeEnvelope(type, [], content, { signature: [0x55, 0x45] }),
    'version 0': encodeEnvelope(type, [], content, { version: 0 }),
    'version 2': encodeEnvelope(type, [], content, { version: 2 }),
    'version 1 in big-endian': encodeEnvelope(type, [], content, { version: 256 }),
    'flags 1': encodeEnvelope(type, [], content, { flags: 1 }),
    'flags in the last bit': encodeEnvelope(type, [], content, { flags: 0x8000_0000 }),
    'reserved 1': encodeEnvelope(type, [], content, { reserved: 1 }),
    'reserved in the last bit': encodeEnvelope(type, [], content, { reserved: 0x8000 }),
    'size one less': encodeEnvelope(type, [], content, { size: 6n }),
    'size one more': encodeEnvelope(type, [], content, { size: 8n }),
    'size 0': encodeEnvelope(type, [], content, { size: 0n }),
    'size 2^53': encodeEnvelope(type, [], content, { size: 2n ** 53n }),
    'size 2^64 - 1': encodeEnvelope(type, [], content, { size: 2n ** 64n - 1n }),
    'size 2^64 - 9, that wraps': encodeEnvelope(type, [], content, { size: 2n ** 64n - 9n }),
    'a declared size over any limit': encodeEnvelope(type, [], content, { size: 2n ** 40n }),
    'a ref count without refs': encodeEnvelope(type, [], content, { refCount: 1 }),
    'a ref not counted': encodeEnvelope(type, [ref], content, { refCount: 0 }),
    'a cut ref': encodeEnvelope(type, [ref], new Uint8Array()).slice(0, -1),
    '257 refs': encodeEnvelope(type, Array<string>(257).fill(ref), content),
    'ref count 2^32 - 1': encodeEnvelope(type, [], content, { refCount: 0xffff_ffff }),
    'no content type': encodeEnvelope('', [], content),
    'a content type of 1025 bytes': encodeEnvelope('x'.repeat(1025), [], content),
    'a content type longer than the body': encodeEnvelope(type, [], content, { contentTypeLength: 1024 }),
    'a content type length of 0 before one': encodeEnvelope(type, [], content, { contentTypeLength: 0 }),
    'a content type with NUL': encodeEnvelope(type, [], content, { contentTypeBytes: byte(0) }),
    'a content type with a line feed': encodeEnvelope(type, [], content, { contentTypeBytes: byte(0x0a) }),
    'a content type with 1f': encodeEnvelope(type, [], content, { contentTypeBytes: byte(0x1f) }),
    'a content type with 7f': encodeEnvelope(type, [], content, { contentTypeBytes: byte(0x7f) }),
    'a content type with 80': encodeEnvelope(type, [], content, { contentTypeBytes: byte(0x80) }),
    'a content type in UTF-8': encodeEnvelope('text/é', [], content),
    JSON: text('{"contentType":"text/plain","refs":[],"content":"x"}'),
  };
}

export const nodeFormatChecks: readonly Check[] = [
  check('format.vectors', FORMAT, 'the golden vectors upload and read back', async ({ client }) => {
    for (const { name, node, canonicalHex, sha256 } of readVectors()) {
      expectEqual(node.hash, sha256, `this suite's own hash of the vector ${name}`);
      if (canonicalHex !== null)
        expectEqual(
          Buffer.from(node.bytes).toString('hex'),
          canonicalHex,
          `this suite's own bytes of ${name}`,
        );
      await client.publish(node);
      await expectReadBack(client, node, `the vector ${name}`);
    }
  }),
  check(
    'format.content-type',
    'Canonical node bytes: content type bytes are identity, no case folding',
    'content types are kept byte for byte',
    async ({ client }) => {
      const types = [
        'a',
        'text/plain',
        'Text/Plain',
        'TEXT/PLAIN',
        'text/html',
        'text/html; charset="utf-8"',
        'x'.repeat(1024),
        `a/b;c="~!@#$%^&*()"`,
        '~',
        'no slash at all',
        ' leading space',
        'trailing space ',
        'image/svg+xml',
        'application/json',
      ];
      const nodes = types.map((contentType) => makeNode({ contentType, content: 'one content' }));
      expectEqual(new Set(nodes.map((node) => node.hash)).size, types.length, 'distinct hashes');
      for (const node of nodes) {
        await client.publish(node);
        await expectReadBack(client, node, `content type ${node.contentType.slice(0, 40)}`);
        const answer = await client.readContent(node.hash);
        // A header value has no white space around it; the metadata does.
        expectEqual(
          answer.headers.get('content-type'),
          node.contentType.trim(),
          'Content-Type of the node, byte for byte',
          answer,
        );
      }
    },
  ),
  check('format.sizes', FORMAT, 'contents of all kinds of length', async ({ client, target }) => {
    const sizes = [
      0, 1, 2, 255, 256, 4095, 4096, 4097, 65_535, 65_536, 65_537, 1_048_576, 1_048_577, 3_000_001,
    ];
    for (const size of sizes.filter((bytes) => bytes + 100 <= target.nodeBytesMax)) {
      const node = makeNodeOfCanonicalSize(24 + 'application/octet-stream'.length + size);
      expectEqual(node.content.length, size, 'size of the sample');
      await client.publish(node);
      await expectReadBack(client, node, `${sayBytes(size)} of content`);
    }
  }),
  check(
    'format.refs',
    'Canonical node bytes: refs are ordered, duplicates significant',
    'refs are kept as they are',
    async ({ client }) => {
      const [a, b] = [makeNode({ content: 'a' }), makeNode({ content: 'b' })];
      await client.publishAll([a, b]);
      const orders = [
        [a.hash, b.hash],
        [b.hash, a.hash],
        [a.hash, a.hash],
        [a.hash, b.hash, a.hash],
        Array<string>(256).fill(b.hash),
      ];
      const parents = orders.map((refs) => makeNode({ refs, content: 'parent' }));
      expectEqual(new Set(parents.map((node) => node.hash)).size, orders.length, 'distinct hashes');
      for (const parent of parents) {
        await client.publish(parent);
        await expectReadBack(client, parent, `refs ${parent.refs.length} in order, duplicates kept`);
      }
    },
  ),
  check('format.invalid', INVALID, 'every broken envelope is rejected', async ({ newSpace }) => {
    for (const [what, bytes] of Object.entries(brokenEnvelopes())) {
      // A Space of its own: every rejection leaves a replacement upload open, and a Space has only so many.
      const client = newSpace();
      const hash = sha256Hex(bytes);
      const upload = await client.instruction(hash);
      expectStatus(await client.put(upload, bytes), 200, 'wrong bytes are accepted by the PUT');
      const lease = await client.expectRejected(hash, `a rejection of ${what}`);
      expectEqual(lease.rejection.code, 'INVALID_CANONICAL_NODE', `rejection of ${what}`);
      expectStatus(await client.call('readMetadata', { hash }), 404, 'a rejected node is no node');
      expectEqual((await client.usage()).nodeCount, 0, 'nodeCount after a rejection alone');
    }
  }),
  check(
    'format.longest-header',
    'Canonical node bytes: ref count 0…256, content type 1…1024 bytes',
    'the longest header is valid',
    async ({ client }) => {
      const children = Array.from({ length: 256 }, (_, i) => makeNode({ content: `child ${i}` }).hash);
      const parent = makeNode({ contentType: 'y'.repeat(1024), refs: children, content: '' });
      const lease = await client.upload(parent);
      expectThat(
        lease.state === 'validated_awaiting_children',
        'a node with 256 refs and the longest content type is valid',
        lease.state,
      );
      expectEqual(lease.childHashes, children, 'childHashes in canonical order');
    },
  ),
];
