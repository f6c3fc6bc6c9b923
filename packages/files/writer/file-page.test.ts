/** What crosses to the thread that makes files comes out as it went in, and never more than fits. */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { SmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';
import { FilePage, PAGE_BYTES } from './file-page.ts';

const files: fc.Arbitrary<{ file: SmallFile; content: Uint8Array }> = fc.record({
  file: fc.record({
    folder: fc.nat(100_000).map((descriptor) => folderOf(descriptor)),
    partialName: fc.stringMatching(/^[\x21-\x7e]{1,60}$/),
    name: fc.uint8Array({ minLength: 1, maxLength: 255 }),
    isExecutable: fc.boolean(),
    mtimeNs: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined }),
    fsync: fc.boolean(),
  }),
  content: fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.integer({ min: 0, max: PAGE_BYTES + 10 }).map((length) => new Uint8Array(length).fill(length)),
  ),
});

function shown({ folder, name, ...rest }: SmallFile, content: Uint8Array): unknown {
  const bytes = Buffer.from(name).toString('hex');
  return {
    ...rest,
    name: bytes,
    descriptor: folder.descriptor,
    prefix: `${folder.prefix}`,
    content: Bun.hash(content),
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
