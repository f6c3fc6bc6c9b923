import { expect, test } from 'bun:test';
import { digestBySize, digestNode } from './digest.ts';

test('a small node is hashed by the given digest, a large one by the runtime, which has another thread', async () => {
  const digest = digestBySize(() => 'given');
  const header = new Uint8Array(8);
  expect(await digest(header, new Uint8Array(4096))).toBe('given');
  const large = new Uint8Array(1024 * 1024).fill(1);
  expect(await digest(header, large)).toBe(await digestNode(header, large));
  expect(await digestBySize(undefined)(header, new Uint8Array(1))).toBe(
    await digestNode(header, new Uint8Array(1)),
  );
});
