import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { hashesToRefs, refsToHashes } from './hash.ts';
import {
  decodeNode,
  encodeNode,
  encodeNodeHeader,
  NODE_HEADER_BYTES_MAX,
  NodeFormatError,
  type NodeHeader,
  NodeHeaderParser,
} from './node-codec.ts';
import vectors from './test-vectors/node-vectors.json';

const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const contentType = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 1024,
});
const node = fc.record({
  contentType,
  refs: fc.array(hash, { maxLength: 256, size: 'medium' }),
  content: fc.uint8Array({ maxLength: 300 }),
});

const sample = { contentType: 'text/plain', refs: ['ab'.repeat(32)], content: new Uint8Array([1, 2, 3]) };

function parseInChunks(bytes: Uint8Array, cuts: readonly number[]): NodeHeader {
  const parser = new NodeHeaderParser();
  let start = 0;
  for (const cut of [...cuts.map((at) => Math.min(at, bytes.length)), bytes.length].sort((a, b) => a - b)) {
    // A copy that is overwritten afterwards: the parser may not keep the chunk.
    const chunk = bytes.slice(start, cut);
    parser.push(chunk);
    chunk.fill(0xee);
    start = cut;
  }
  return parser.finish(bytes.length);
}

function formatFault(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(NodeFormatError);
    return (error as NodeFormatError).message;
  }
  return 'none';
}

test('tells content types of one length apart, and finds a wrong byte in one that was met', () => {
  const types = ['text/a', 'text/b', 'text/a', 'x'.repeat(128), 'y'.repeat(128), 'z'.repeat(129), 'text/b'];
  for (const type of types)
    expect(decodeNode(encodeNode({ ...sample, contentType: type })).contentType).toBe(type);
  const wrong = encodeNode({ ...sample, contentType: 'text/b' });
  wrong[24 + 5] = 0x7f;
  expect(formatFault(() => decodeNode(wrong))).toMatch(/0x7f at position 5/);
});

test('keeps a content type of its own, whatever becomes of the memory that it was met in', () => {
  // A Buffer's own slice is a view of it.
  const memory = Buffer.from(encodeNode({ contentType: 'text/plain', refs: [], content: new Uint8Array(3) }));
  expect(decodeNode(memory).contentType).toBe('text/plain');
  memory.set(encodeNode({ contentType: 'image/jpeg', refs: [], content: new Uint8Array(3) }));
  expect(decodeNode(memory).contentType).toBe('image/jpeg');
});

describe('golden vectors', () => {
  for (const vector of vectors) {
    test(vector.name, () => {
      const content =
        vector.contentHex === null
          ? Uint8Array.from({ length: 256 }, (_, byte) => byte)
          : new Uint8Array(Buffer.from(vector.contentHex, 'hex'));
      const bytes = encodeNode({ contentType: vector.contentType, refs: vector.refs, content });
      if (vector.canonicalHex !== null) expect(Buffer.from(bytes).toString('hex')).toBe(vector.canonicalHex);
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(vector.sha256);
      const decoded = decodeNode(bytes);
      expect(decoded.contentType).toBe(vector.contentType);
      expect(refsToHashes(decoded.refs)).toEqual(vector.refs);
      expect(decoded.content).toEqual(content);
    });
  }

  test('there are as many as the specification has', () => {
    expect(vectors.length).toBe(13);
  });
});

describe('round trip', () => {
  test('encode then decode gives the parts; header and content make the whole', () => {
    fc.assert(
      fc.property(node, (parts) => {
        const bytes = encodeNode(parts);
        const decoded = decodeNode(bytes);
        expect(decoded.contentType).toBe(parts.contentType);
        expect(refsToHashes(decoded.refs)).toEqual(parts.refs);
        expect(decoded.content).toEqual(parts.content);
        const header = encodeNodeHeader({ ...parts, size: parts.content.length });
        expect(decoded.headerLength).toBe(header.length);
        expect(Buffer.concat([header, parts.content]).equals(bytes)).toBe(true);
      }),
    );
  });

  test('sizes up to 2^53 - 1 survive in the header', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (size) => {
        const header = encodeNodeHeader({ contentType: 'a', refs: [], size });
        const parser = new NodeHeaderParser();
        parser.push(header);
        if (size + header.length <= Number.MAX_SAFE_INTEGER) {
          expect(parser.finish(header.length + size).size).toBe(size);
        } else {
          expect(new DataView(header.buffer).getBigUint64(8, true)).toBe(BigInt(size));
        }
      }),
    );
  });

  test('the largest header is exactly the bound', () => {
    const header = encodeNodeHeader({
      contentType: 'x'.repeat(1024),
      refs: new Array(256).fill('ff'.repeat(32)),
      size: 0,
    });
    expect(header.length).toBe(NODE_HEADER_BYTES_MAX);
    expect(NODE_HEADER_BYTES_MAX).toBe(24 + 1024 + 256 * 32);
    expect(refsToHashes(decodeNode(header).refs).length).toBe(256);
  });

  test('a view with an offset decodes like its copy', () => {
    const bytes = encodeNode(sample);
    const padded = new Uint8Array(bytes.length + 20);
    padded.set(bytes, 7);
    expect(decodeNode(padded.subarray(7, 7 + bytes.length)).content).toEqual(sample.content);
  });
});

describe('streaming header', () => {
  test('any split of the chunks gives what the whole gives', () => {
    fc.assert(
      fc.property(node, fc.array(fc.nat(10_000), { maxLength: 20 }), (parts, cuts) => {
        const bytes = encodeNode(parts);
        const header = parseInChunks(bytes, cuts);
        expect(header.contentType).toBe(parts.contentType);
        expect(header.refs).toEqual(hashesToRefs(parts.refs));
        expect(header.size).toBe(parts.content.length);
        expect(header.headerLength).toBe(bytes.length - parts.content.length);
      }),
    );
  });

  test('byte by byte, with empty chunks between', () => {
    const bytes = encodeNode(sample);
    const parser = new NodeHeaderParser();
    for (const byte of bytes) {
      parser.push(new Uint8Array([byte]));
      parser.push(new Uint8Array());
    }
    expect(parser.finish(bytes.length).size).toBe(3);
  });

  test('judges damaged nodes as the whole decoder does, however they arrive', () => {
    fc.assert(
      fc.property(
        node,
        fc.array(fc.tuple(fc.nat(40), fc.nat(255)), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: -80, max: 3 }),
        fc.array(fc.nat(400), { maxLength: 6 }),
        (parts, damage, growth, cuts) => {
          const good = encodeNode(parts);
          const bytes = new Uint8Array(Math.max(0, good.length + growth));
          bytes.set(good.subarray(0, bytes.length));
          for (const [at, value] of damage) if (at < bytes.length) bytes[at] = value;
          expect(formatFault(() => parseInChunks(bytes, cuts))).toBe(formatFault(() => decodeNode(bytes)));
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('random bytes', () => {
  test('either are a node that encodes to the same bytes, or throw NodeFormatError alone', () => {
    const signed = fc.uint8Array({ maxLength: 200 }).map((tail) => {
      const bytes = new Uint8Array(8 + tail.length);
      bytes.set([0x55, 0x44, 1, 0, 0, 0, 0, 0]);
      bytes.set(tail, 8);
      return bytes;
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 300 }), signed), (bytes) => {
        const fault = formatFault(() => {
          const decoded = decodeNode(bytes);
          const again = encodeNode({ ...decoded, refs: refsToHashes(decoded.refs) });
          expect(again).toEqual(bytes);
        });
        expect(fault.length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });
});

describe('invalid envelopes', () => {
  const good = encodeNode(sample);
  function damaged(change: (view: DataView) => void): Uint8Array {
    const bytes = good.slice();
    change(new DataView(bytes.buffer));
    return bytes;
  }
  const cases: readonly (readonly [string, Uint8Array, RegExp])[] = [
    ['nothing', new Uint8Array(), /the node has 0 bytes; its fixed header alone has 24/],
    ['23 bytes', good.subarray(0, 23), /the node has 23 bytes/],
    ['first signature byte', damaged((view) => view.setUint8(0, 0x54)), /signature/],
    ['second signature byte', damaged((view) => view.setUint8(1, 0x45)), /signature/],
    ['version 0', damaged((view) => view.setUint16(2, 0, true)), /version 0 /],
    ['version 2', damaged((view) => view.setUint16(2, 2, true)), /version 2 /],
    ['version in big-endian', damaged((view) => view.setUint16(2, 1, false)), /version 256 /],
    ['a low flag', damaged((view) => view.setUint32(4, 1, true)), /flags are 0x1;/],
    ['the highest flag', damaged((view) => view.setUint32(4, 0x80000000, true)), /flags are 0x80000000;/],
    ['size 2^53', damaged((view) => view.setBigUint64(8, 2n ** 53n, true)), /content size/],
    ['size 2^53 + 1', damaged((view) => view.setBigUint64(8, 2n ** 53n + 1n, true)), /content size/],
    ['size 2^64 - 1', damaged((view) => view.setBigUint64(8, 2n ** 64n - 1n, true)), /content size/],
    ['257 refs', damaged((view) => view.setUint32(16, 257, true)), /257 refs are too many/],
    [
      '2^32 - 1 refs',
      damaged((view) => view.setUint32(16, 2 ** 32 - 1, true)),
      /4294967295 refs are too many/,
    ],
    ['content type of 0 bytes', damaged((view) => view.setUint16(20, 0, true)), /content type has 0 bytes/],
    [
      'content type of 1025',
      damaged((view) => view.setUint16(20, 1025, true)),
      /content type has 1025 bytes/,
    ],
    ['reserved', damaged((view) => view.setUint16(22, 1, true)), /reserved field is 0x1;/],
    ['reserved, high byte', damaged((view) => view.setUint16(22, 0x8000, true)), /reserved field is 0x8000;/],
    [
      'cut in the content type',
      good.subarray(0, 30),
      /ends at byte 30, inside its content type or refs; .* 66/,
    ],
    ['cut in the refs', good.subarray(0, 65), /ends at byte 65, inside/],
    ['control character in the type', damaged((view) => view.setUint8(24, 0x1f)), /0x1f at position 0/],
    ['DEL in the type', damaged((view) => view.setUint8(33, 0x7f)), /0x7f at position 9/],
    ['high byte in the type', damaged((view) => view.setUint8(25, 0xe9)), /0xe9 at position 1/],
    ['NUL in the type', damaged((view) => view.setUint8(25, 0)), /0x0 at position 1/],
    ['a byte missing', good.subarray(0, good.length - 1), /1 byte is missing/],
    ['all content missing', good.subarray(0, 66), /3 bytes are missing/],
    ['a byte too many', new Uint8Array([...good, 0]), /1 byte trails/],
    [
      'size 2^53 - 1 without it',
      damaged((view) => view.setBigUint64(8, 2n ** 53n - 1n, true)),
      /are missing/,
    ],
  ];
  for (const [name, bytes, message] of cases) {
    test(name, () => {
      expect(formatFault(() => decodeNode(bytes))).toMatch(message);
      expect(formatFault(() => parseInChunks(bytes, [1, 24, 25, 60]))).toMatch(message);
    });
  }

  test('finish judges the length it is told, not the bytes it saw', () => {
    const parser = new NodeHeaderParser();
    parser.push(good.subarray(0, 66));
    expect(formatFault(() => parser.finish(68))).toMatch(/1 byte is missing/);
    expect(formatFault(() => parser.finish(70))).toMatch(/1 byte trails/);
    expect(parser.finish(69).size).toBe(3);
  });

  test('parts that make no node are not encoded', () => {
    const content = new Uint8Array();
    const faults: readonly (readonly [() => unknown, RegExp])[] = [
      [() => encodeNode({ contentType: '', refs: [], content }), /has 0 bytes/],
      [() => encodeNode({ contentType: 'x'.repeat(1025), refs: [], content }), /has 1025 bytes/],
      [() => encodeNode({ contentType: 'text/\u00e9', refs: [], content }), /0xe9 at position 5/],
      [() => encodeNode({ contentType: 'a\n', refs: [], content }), /0xa at position 1/],
      [
        () => encodeNode({ contentType: 'a', refs: new Array(257).fill('ab'.repeat(32)), content }),
        /257 refs/,
      ],
      [() => encodeNode({ contentType: 'a', refs: ['AB'.repeat(32)], content }), /ref 0 is not/],
      [() => encodeNodeHeader({ contentType: 'a', refs: [], size: -1 }), /content size/],
      [() => encodeNodeHeader({ contentType: 'a', refs: [], size: 1.5 }), /content size/],
      [() => encodeNodeHeader({ contentType: 'a', refs: [], size: 2 ** 53 }), /content size/],
    ];
    for (const [run, message] of faults) expect(formatFault(run)).toMatch(message);
  });
});
