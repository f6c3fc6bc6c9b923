import { describe, expect, test } from 'bun:test';
import { concatBytes, encodeNode } from '@holdfast/protocol';
import fc from 'fast-check';
import { rejection, sha256Hex } from '../test/fake-space-fixture.ts';
import { BUNDLE_ROOTS_MAX, encodeCarHeader, parseCarHeader } from './car-header.ts';
import { BundleError, encodeCid, formatCid } from './cid.ts';
import { type BundleNode, readBundle } from './read-bundle.ts';
import { encodeVarint } from './varint.ts';

interface Sample {
  readonly hash: string;
  readonly bytes: Uint8Array;
}

function makeNode(text: string, refs: readonly string[] = []): Sample {
  const bytes = encodeNode({ contentType: 'text/plain', refs, content: new TextEncoder().encode(text) });
  return { hash: sha256Hex(bytes), bytes };
}

function block({ hash, bytes }: Sample): Uint8Array {
  return section(concatBytes([encodeCid(hash), bytes]));
}

function section(bytes: Uint8Array): Uint8Array {
  return concatBytes([encodeVarint(bytes.length), bytes]);
}

/** `bytes` in chunks of `size`, each in memory of its own that is wiped once the next one is asked for. */
function streamOf(bytes: Uint8Array, size = 7): ReadableStream<Uint8Array> {
  let offset = 0;
  let given: Uint8Array | undefined;
  return new ReadableStream(
    {
      pull(controller) {
        given?.fill(0xee);
        if (offset >= bytes.length) return controller.close();
        given = bytes.slice(offset, offset + size);
        offset += size;
        controller.enqueue(given);
      },
    },
    { highWaterMark: 0 },
  );
}

async function readAll(
  bytes: Uint8Array,
  options: { nodeBytesMax?: number; chunk?: number } = {},
): Promise<{ roots: readonly string[]; nodes: BundleNode[] }> {
  const bundle = await readBundle(streamOf(bytes, options.chunk), options);
  const nodes: BundleNode[] = [];
  for await (const node of bundle.nodes) nodes.push(node);
  return { roots: bundle.roots, nodes };
}

async function faultOf(bytes: Uint8Array, options?: { nodeBytesMax?: number }): Promise<string> {
  const error = await rejection(readAll(bytes, options));
  expect(error).toBeInstanceOf(BundleError);
  return (error as BundleError).message;
}

const leaf = makeNode('leaf');
const parent = makeNode('parent', [leaf.hash, leaf.hash]);
const header = encodeCarHeader([parent.hash]);
const whole = concatBytes([header, block(leaf), block(parent)]);

describe('reading a bundle', () => {
  test.each([1, 2, 7, 64, 100_000])('gives its nodes, verified, from chunks of %p bytes', async (chunk) => {
    const { roots, nodes } = await readAll(whole, { chunk });
    expect(roots).toEqual([parent.hash]);
    expect(nodes.map(({ hash }) => hash)).toEqual([leaf.hash, parent.hash]);
    expect(nodes.map(({ bytes }) => Buffer.from(bytes).toString('hex'))).toEqual(
      [leaf, parent].map(({ bytes }) => Buffer.from(bytes).toString('hex')),
    );
    expect(nodes[1]).toMatchObject({ contentType: 'text/plain', refs: [leaf.hash, leaf.hash] });
  });

  test('a bundle without blocks is whole as a file', async () => {
    expect(await readAll(header)).toEqual({ roots: [parent.hash], nodes: [] });
  });

  test('every cut is noticed but those between blocks', async () => {
    const ends = [header.length, header.length + block(leaf).length];
    for (let length = 0; length < whole.length; length += 1) {
      if (ends.includes(length)) continue;
      expect(await faultOf(whole.slice(0, length))).toMatch(
        length === 0 ? /empty/ : /cut off after \d+ bytes/,
      );
    }
  });

  test('every changed byte of a block is noticed', async () => {
    for (let at = header.length; at < whole.length; at += 1) {
      const damaged = whole.slice();
      damaged[at] = (damaged[at] as number) ^ 0x04;
      await faultOf(damaged);
    }
  });

  test('reads no further than asked, and can be left', async () => {
    const bundle = await readBundle(streamOf(whole));
    await bundle.nodes.next();
    expect(bundle.position()).toBe(header.length + block(leaf).length);
    await bundle.nodes.return();
    expect(await bundle.nodes.next()).toEqual({ done: true, value: undefined });
  });

  const cid = encodeCid(leaf.hash);
  const withCid = (bytes: number[], digest = cid.subarray(4)): Uint8Array =>
    concatBytes([header, section(concatBytes([Uint8Array.from(bytes), digest, leaf.bytes]))]);
  const hostile: readonly [string, Uint8Array, RegExp][] = [
    [
      'wrong bytes',
      concatBytes([header, section(concatBytes([cid, parent.bytes]))]),
      /block 1 \(byte \d+\): .* hash to/,
    ],
    [
      'a block that is no node',
      concatBytes([header, block({ hash: sha256Hex(cid), bytes: cid })]),
      /no canonical node/,
    ],
    ['dag-pb', withCid([1, 0x70, 0x12, 32]), /codec dag-pb \(0x70\)/],
    ['dag-cbor', withCid([1, 0x71, 0x12, 32]), /codec dag-cbor \(0x71\)/],
    ['an unknown codec', withCid([1, 0x99, 0x02, 0x12, 32]), /codec unknown \(0x119\)/],
    ['version 0', withCid([0x12, 32]), /version 0/],
    ['version 3', withCid([3, 0x55, 0x12, 32]), /of version 3/],
    ['another hash', withCid([1, 0x55, 0x13, 64]), /hash function 0x13/],
    ['a short digest', withCid([1, 0x55, 0x12, 16]), /digest of 16 bytes/],
    ['a malformed CID', withCid(Array(12).fill(0xff)), /malformed/],
    ['a block of length 0', concatBytes([header, Uint8Array.of(0)]), /cut off; a bundle names/],
    ['a block without bytes', concatBytes([header, section(cid)]), /no bytes/],
    ['a huge block', concatBytes([header, encodeVarint(2 ** 50), cid]), /nodes have at most 67108864/],
    ['a huge varint', concatBytes([header, new Uint8Array(20).fill(0xff)]), /a varint is greater than/],
    ['a long varint', concatBytes([header, Uint8Array.of(0x80, 0x00)]), /needless zero/],
    ['a huge header', encodeVarint(2 ** 40), /more than any bundle has/],
    [
      'text',
      new TextEncoder().encode('hello, this is no bundle at all'.repeat(9)),
      /check that it is a bundle/,
    ],
    [
      'version 2',
      Uint8Array.of(10, 0xa1, 0x67, ...new TextEncoder().encode('version'), 2),
      /CAR of version 2/,
    ],
  ];
  test.each(hostile)('says what is wrong: %s', async (_, bytes, reason) => {
    expect(await faultOf(bytes)).toMatch(reason);
  });

  test('the limit of a node is inclusive', async () => {
    const { length } = parent.bytes;
    expect((await readAll(whole, { nodeBytesMax: length })).nodes).toHaveLength(2);
    expect(await faultOf(whole, { nodeBytesMax: length - 1 })).toContain(`at most ${length - 1}`);
  });

  test('arbitrary bytes never pass and never fail otherwise', async () => {
    const pieces = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.constantFrom(header, block(leaf), block(parent), header.subarray(0, 20), cid, Uint8Array.of(0x80)),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(pieces, { maxLength: 5 }),
        fc.integer({ min: 1, max: 90 }),
        async (parts, chunk) => {
          try {
            const { nodes } = await readAll(concatBytes(parts), { chunk });
            for (const { hash, bytes } of nodes) expect(sha256Hex(bytes)).toBe(hash);
          } catch (error) {
            expect(error).toBeInstanceOf(BundleError);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('the header', () => {
  const hashes = (count: number): string[] =>
    Array.from({ length: count }, (_, index) => index.toString(16).padStart(64, '0'));
  const body = (bytes: Uint8Array): Uint8Array => bytes.subarray(bytes.findIndex((byte) => byte < 0x80) + 1);

  test.each([1, 23, 24, 255, 256, BUNDLE_ROOTS_MAX])('%p roots come back', (count) => {
    expect(parseCarHeader(body(encodeCarHeader(hashes(count))))).toEqual(hashes(count));
  });

  test.each([0, BUNDLE_ROOTS_MAX + 1])('%p roots are refused', (count) => {
    expect(() => encodeCarHeader(hashes(count))).toThrow(BundleError);
  });

  test('whatever is taken is its one encoding', () => {
    const good = body(encodeCarHeader(hashes(2)));
    const changed = fc
      .tuple(fc.nat(good.length - 1), fc.nat(255), fc.nat(good.length))
      .map(([at, byte, length]) =>
        good.map((old, index) => (index === at ? byte : old)).slice(0, length + 1),
      );
    fc.assert(
      fc.property(fc.oneof(changed, fc.uint8Array({ maxLength: 80 })), (bytes) => {
        let roots: string[];
        try {
          roots = parseCarHeader(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(BundleError);
          return;
        }
        expect(body(encodeCarHeader(roots))).toEqual(bytes);
      }),
      { numRuns: 2000 },
    );
  });

  test('a root of another kind is named', () => {
    const link = body(encodeCarHeader(hashes(1))).slice();
    link[14] = 0x70;
    expect(() => parseCarHeader(link)).toThrow(/root 1: the CID has the codec dag-pb/);
    link[13] = 2;
    expect(() => parseCarHeader(link)).toThrow(/root 1: the CID is of version 2/);
  });
});

test('a CID as people write it', () => {
  // sha2-256 of nothing, as every IPLD tool prints it
  expect(formatCid(sha256Hex(new Uint8Array(0)))).toBe(
    'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku',
  );
});
