/** Holes: a sparse pull gives the same bytes in less room, also where an interrupted pull left other bytes. */
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chunkStream, FileBuilder, MemoryTree } from '@holdfast/client/internal';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { PlanSource } from '../test/pull-fixture.ts';
import { pullToPath } from './pull-to-path.ts';
import { dataParts } from './sparse.ts';

const folder = makeTempFolder('sparse');
afterAll(() => folder.remove());
const BLOCK = 4096;

test('what is not to be a hole is every block with a byte other than zero', () => {
  const bytes = new Uint8Array(5 * BLOCK + 10);
  bytes[BLOCK] = 1;
  bytes[3 * BLOCK - 1] = 1;
  bytes[5 * BLOCK + 9] = 1;
  const parts = [...dataParts(0, bytes)].map((part) => [part.offset, part.bytes.length]);
  expect(parts).toEqual([
    [BLOCK, 2 * BLOCK],
    [5 * BLOCK, 10],
  ]);
  const moved = [...dataParts(100, bytes.subarray(0, BLOCK + 1))].map((part) => [
    part.offset,
    part.bytes.length,
  ]);
  expect(moved).toEqual([[BLOCK, 101]]);
  expect([...dataParts(0, new Uint8Array(0))]).toEqual([]);
});

test.each([300_000, 12_000_000])('a file of %d bytes, most of them zeros', async (size) => {
  const content = new Uint8Array(size);
  content.fill(7, 0, 5_000);
  content.fill(8, size - 3_000);
  const tree = new MemoryTree();
  const builder = new FileBuilder(tree);
  for await (const chunk of chunkStream([content])) await builder.add(chunk);
  const { hash } = await builder.finish();
  const source = new PlanSource(tree);
  const at = (name: string): string => join(folder.path, `${size}-${name}`);
  await pullToPath(source, hash, at('sparse'), { sparse: true });
  await pullToPath(source, hash, at('plain'));
  for (const name of ['sparse', 'plain']) expect(Buffer.compare(readFileSync(at(name)), content)).toBe(0);
  expect(statSync(at('sparse')).blocks).toBeLessThan(statSync(at('plain')).blocks);
  // Other bytes stand where holes are to be.
  const within = join(folder.path, `${size}-within`);
  mkdirSync(within);
  const left = join(within, `.holdfast-${hash.slice(0, 16)}-1999999999-00000000.part`);
  writeFileSync(left, Buffer.alloc(size + 5, 9));
  await pullToPath(source, hash, join(within, 'file'), { sparse: true });
  expect(Buffer.compare(readFileSync(join(within, 'file')), content)).toBe(0);
  rmSync(within, { recursive: true });
});
