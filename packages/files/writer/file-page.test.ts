/** Files reach the writing thread unchanged, and never more than fit. */
import { expect, test } from 'bun:test';
import type { UnprovenFile } from '@holdfast/client/internal';
import { RECORD_CODEC_NONE, RECORD_CODEC_ZSTD } from '@holdfast/protocol';
import fc from 'fast-check';
import type { SmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';
import { FilePage, PAGE_BYTES } from './file-page.ts';

const bytesOf = (maxLength: number): fc.Arbitrary<Uint8Array> =>
  fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.integer({ min: 0, max: maxLength }).map((length) => new Uint8Array(length).fill(length)),
  );
const unproven: fc.Arbitrary<UnprovenFile> = fc.record({
  hash: fc.stringMatching(/^[0-9a-f]{64}$/),
  header: fc.uint8Array({ minLength: 1, maxLength: 80 }),
  record: fc.record({
    codec: fc.constantFrom(RECORD_CODEC_NONE, RECORD_CODEC_ZSTD),
    canonicalLength: fc.nat(2 ** 23),
    stored: bytesOf(PAGE_BYTES),
  }),
});

const files: fc.Arbitrary<{ file: SmallFile; content: Uint8Array | UnprovenFile }> = fc.record({
  file: fc.record({
    folder: fc.nat(100_000).map((descriptor) => folderOf(descriptor)),
    partialName: fc.stringMatching(/^[\x21-\x7e]{1,60}$/),
    name: fc.uint8Array({ minLength: 1, maxLength: 255 }),
    isExecutable: fc.boolean(),
    mtimeNs: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined }),
    fsync: fc.boolean(),
  }),
  content: fc.oneof(bytesOf(PAGE_BYTES + 10), unproven),
});

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function shownContent(content: Uint8Array | UnprovenFile): unknown {
  if (content instanceof Uint8Array) return Bun.hash(content);
  const { hash, header, record } = content;
  const { codec, canonicalLength, stored } = record;
  return { hash, header: hex(header), codec, canonicalLength, stored: Bun.hash(stored) };
}

function shown({ folder, name, ...rest }: SmallFile, content: Uint8Array | UnprovenFile): unknown {
  const bytes = hex(name);
  return {
    ...rest,
    name: bytes,
    descriptor: folder.descriptor,
    prefix: `${folder.prefix}`,
    content: shownContent(content),
  };
}

test('every file that was added is read back in order, through another view of the memory', () => {
  fc.assert(
    fc.property(fc.array(files, { maxLength: 80 }), (list) => {
      const memory = new SharedArrayBuffer(PAGE_BYTES);
      const page = new FilePage(memory);
      // A page is used again and again.
      for (let round = 0; round < 2; round += 1) {
        const added = list.filter(({ file, content }) => page.add(file, content));
        const read = [...new FilePage(memory).read(page.count)];
        expect(read.map(({ file, content }) => shown(file, content))).toEqual(
          added.map(({ file, content }) => shown(file, content)),
        );
        page.clear();
      }
    }),
    { numRuns: 200 },
  );
});

test('a file that is too large, one in a folder that is not held open, and one too many find no room', () => {
  const page = new FilePage(new SharedArrayBuffer(PAGE_BYTES));
  const file: SmallFile = {
    folder: folderOf(3),
    partialName: 'a',
    name: Buffer.from('b'),
    isExecutable: false,
    mtimeNs: undefined,
    fsync: false,
  };
  expect(page.add(file, new Uint8Array(PAGE_BYTES))).toBe(false);
  expect(
    page.add({ ...file, folder: { prefix: Buffer.from('/'), descriptor: undefined } }, new Uint8Array(1)),
  ).toBe(false);
  let count = 0;
  while (count < 1000 && page.add(file, new Uint8Array(1))) count += 1;
  expect(count).toBe(64);
});
