import { expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryBuilder, FileBuilder, type Hash, MemoryTree } from '@holdfast/client';
import { contentOf, directory, file } from '../../../test/support/disk-trees.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { failureOf, makeSource, PlanSource, readStanding, standingOf } from '../test/pull-fixture.ts';
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
    // An interrupted pull may have left parts that can be used: the pull tries.
    const left = join(target, `.holdfast-${'0'.repeat(16)}-1999999999-00000000.part`);
    disk.empty();
    writeFileSync(left, Buffer.alloc(1_500_000));
    disk.fill(4_000_000);
    expect(await failureOf(pullToPath(source, root, target), Error)).toContain('the disk is full');
    // Files that are there already need no room. The pull that failed may have left parts in its own target.
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

/** A tree of few nodes with 2^(depth + 1) - 1 entries below its root: each folder has the next one twice. */
async function buildWide(depth: number): Promise<{ readonly root: Hash; readonly source: PlanSource }> {
  const tree = new MemoryTree();
  const file = await new FileBuilder(tree).finish();
  let below = { ...file, kind: 'file' as 'file' | 'directory', entryCount: 0 };
  for (let level = 0; level < depth; level += 1) {
    const builder = new DirectoryBuilder(tree);
    for (const name of ['a', 'b']) {
      const { kind, hash, bytes, entryCount } = below;
      const entry = { kind, hash, bytes, entryCount, isExecutable: false, mtimeNs: undefined };
      await builder.add({ ...entry, name: Buffer.from(name) });
    }
    below = { ...(await builder.finish()), kind: 'directory' };
  }
  return { root: below.hash, source: new PlanSource(tree) };
}

test('a tree of more entries than any disk can hold is refused at once, whole, in part and beside others', async () => {
  const { root, source } = await buildWide(41);
  const folder = makeTempFolder('room');
  try {
    const target = join(folder.path, 'target');
    for (const stands of [false, true]) {
      if (stands) mkdirSync(join(target, 'a'), { recursive: true });
      for (const paths of [[], [[Buffer.from('a')], [Buffer.from('a'), Buffer.from('b')]]]) {
        const refusal = await failureOf(pullToPath(source, root, target, { paths }));
        expect(refusal).toMatch(/ that are not in .*no file was written$/);
      }
      expect(existsSync(join(target, 'b'))).toBe(false);
    }
    expect(source.reads.length).toBeLessThan(5_000);
  } finally {
    folder.remove();
  }
});
