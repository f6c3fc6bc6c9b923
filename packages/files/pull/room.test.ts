import { expect, test } from 'bun:test';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { contentOf, directory, file } from '../../../test/support/disk-trees.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { failureOf, makeSource, readStanding, standingOf } from '../test/pull-fixture.ts';
import { pullToPath } from './pull-to-path.ts';

test('a disk too small for what the tree promises says so before anything is written', async () => {
  const plan = directory({ 'a.bin': file(2_000_000, 1), 'b.bin': file(3_000_000, 2), c: file(10, 3) });
  const { source, root } = await makeSource(plan);
  const disk = mountSmallDisk(8);
  try {
    const target = join(disk.path, 'target');
    disk.fill(4_000_000);
    const refusal = await failureOf(pullToPath(source, root, target), Error);
    expect(refusal).toContain('the tree has 4.8 MiB that are not in');
    expect(refusal).toContain('no file was written');
    expect(readdirSync(target)).toEqual([]);
    // What an interrupted pull left may be taken up again: that is tried.
    const left = join(target, `.holdfast-${'0'.repeat(16)}-1999999999-00000000.part`);
    disk.empty();
    writeFileSync(left, Buffer.alloc(1_500_000));
    disk.fill(4_000_000);
    expect(await failureOf(pullToPath(source, root, target), Error)).toContain('the disk is full');
    // What stands there already needs no room. The pull that failed may have left parts in its own target.
    disk.empty();
    rmSync(target, { recursive: true });
    const other = join(disk.path, 'other');
    mkdirSync(other);
    writeFileSync(
      join(other, 'a.bin'),
      contentOf({ kind: 'file', size: 2_000_000, seed: 1, isExecutable: false }),
    );
    disk.fill(4_500_000);
    await pullToPath(source, root, other);
    expect(readStanding(other)).toEqual(standingOf(plan));
  } finally {
    disk.remove();
  }
});
