/** Modification times that a tree cannot hold: the entry is stored without one, and that is said, at each scan that reads it. */
import { expect, test } from 'bun:test';
import { lutimesSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SILENT_PROGRESS } from '@holdfast/client/internal';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { scanOptions } from '../test/scan-options.ts';
import { MemoryState } from './memory-state.ts';
import { scanTree } from './scan-tree.ts';

const FAR_SECONDS = Date.UTC(2300, 0, 1) / 1000;
const NEAR_SECONDS = Date.UTC(2262, 3, 11) / 1000;

test('an entry with a time outside 1677 to 2262 is stored without a time, the same each time', async () => {
  const folder = makeTempFolder('unholdable-times', { fast: true });
  try {
    const tree = join(folder.path, 'tree');
    mkdirSync(join(tree, 'below'), { recursive: true });
    for (const name of ['far', 'near']) writeFileSync(join(tree, name), name);
    symlinkSync('far', join(tree, 'link'));
    lutimesSync(join(tree, 'link'), FAR_SECONDS, FAR_SECONDS);
    utimesSync(join(tree, 'below'), FAR_SECONDS, FAR_SECONDS);
    utimesSync(join(tree, 'far'), FAR_SECONDS, FAR_SECONDS);
    utimesSync(join(tree, 'near'), NEAR_SECONDS, NEAR_SECONDS);
    const state = new MemoryState();
    const warnings: string[] = [];
    const scan = () =>
      scanTree({
        ...scanOptions(tree, state),
        recordsMtime: true,
        progress: { ...SILENT_PROGRESS, warn: (message) => warnings.push(message) },
      });
    const first = await scan();
    const named = ['below', 'far', 'link'];
    expect(warnings.map((warning) => warning.split(' is stored without a time: ')[0])).toEqual(named);
    expect((await scan()).hash).toBe(first.hash);
    writeFileSync(join(tree, 'near'), 'other');
    utimesSync(join(tree, 'near'), NEAR_SECONDS, NEAR_SECONDS);
    const changed = await scan();
    const again = await scanTree({ ...scanOptions(tree, new MemoryState()), recordsMtime: true });
    expect(changed.hash).toBe(again.hash);
  } finally {
    folder.remove();
  }
});
