/** Nodes of small files are taken one after another: a scan waits where a node has to. */
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { scanOptions } from '../test/scan-options.ts';
import type { TakeNode } from './hash-file.ts';
import { MemoryState } from './memory-state.ts';
import { scanTree } from './scan-tree.ts';

const FILES = 12;
const FILE_BYTES = 20_000;
const folder = mkdtempSync(join(tmpdir(), 'holdfast-taken-'));
mkdirSync(join(folder, 'inner'));
for (let index = 0; index < FILES; index += 1) {
  writeFileSync(join(folder, index % 2 === 0 ? 'inner' : '', `f${index}`), Buffer.alloc(FILE_BYTES, index));
}
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const scan = (takeNode: TakeNode) => scanTree({ ...scanOptions(folder, new MemoryState()), takeNode });

const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('each is taken before the next is read, the root after all of them', async () => {
  const taken: string[] = [];
  let underWay = 0;
  const root = await scan(async (hash, canonical) => {
    expect(underWay).toBe(0);
    underWay += 1;
    const before = Buffer.from(canonical);
    for (let turn = 0; turn < 5; turn += 1) await later();
    expect(before.equals(canonical)).toBe(true);
    underWay -= 1;
    taken.push(hash);
  });
  expect(underWay).toBe(0);
  expect([taken.length, taken.at(-1)]).toEqual([FILES + 2, root.hash]);
});

test.each([1, FILES])('a failure to take the node of file %d ends the scan', async (failing) => {
  let count = 0;
  const scanning = scan(async () => {
    count += 1;
    const isFailing = count === failing;
    await later();
    if (isFailing) throw new Error('planted');
  });
  await expect(scanning).rejects.toThrow('planted');
});
