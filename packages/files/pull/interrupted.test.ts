/** A pull takes up what was interrupted, and gives no name to what is not whole. */
import { afterAll, describe, expect, test } from 'bun:test';
import {
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { CHUNK_CONTENT_TYPE } from '@holdfast/client/internal';
import { buildPlan, directory, file } from '../../../test/support/disk-trees.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { failureOf, freshPaths, makeSource, readStanding, standingOf } from '../test/pull-fixture.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull-interrupted', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

/** Everything below `path`, partial files too. */
function listAll(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).sort();
}

describe('an interrupted pull', () => {
  const LARGE = 12_000_000;

  test('of a large file keeps the chunks it had, verified again', async () => {
    const plan = directory({ large: file(LARGE, 7) });
    const { root, source } = await makeSource(plan);
    const target = fresh();
    let chunks = 0;
    source.onRead = (_hash, { contentType }) => {
      if (contentType !== CHUNK_CONTENT_TYPE) return;
      chunks += 1;
      if (chunks > 5) throw new Error('cut');
    };
    await failureOf(pullToPath(source, root, target), Error);
    const [partial, ...others] = listAll(target);
    expect(others).toEqual([]);
    expect(partial).toMatch(/^\.holdfast-[0-9a-f]{16}-\d+-[0-9a-f]{8}\.part$/);
    // As a process that was killed leaves it: its number is nobody's.
    const abandoned = partial!.replace(`-${process.pid}-`, '-4194999-');
    renameSync(join(target, partial!), join(target, abandoned));
    const bytes = readFileSync(join(target, abandoned));
    bytes[10]! ^= 1;
    writeFileSync(join(target, abandoned), bytes);

    source.onRead = () => undefined;
    source.reads.length = 0;
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(plan));
    const all = (await buildPlan(plan)).tree.nodes.size;
    expect(source.reads.length).toBeLessThan(all + 2);
    expect(listAll(target)).toEqual(['large']);
  });

  test('leaves files that the next one takes away; those of a pull that is running stay, and folders', async () => {
    const { root, source } = await makeSource(directory({ sub: directory({ a: file(10) }) }));
    const target = fresh();
    mkdirSync(join(target, 'sub'), { recursive: true });
    const name = (pid: number): string => `.holdfast-${'0'.repeat(16)}-${pid}-0badcafe.part`;
    for (const pid of [4_194_999, process.ppid]) writeFileSync(join(target, 'sub', name(pid)), 'x');
    mkdirSync(join(target, name(4_194_998)));
    await pullToPath(source, root, target);
    const kept = [name(4_194_998), 'sub', join('sub', name(process.ppid)), join('sub', 'a')];
    expect(listAll(target)).toEqual(kept);
  });

  test('leaves nothing that is taken for what the tree itself has', async () => {
    const large = file(5_000_000, 3);
    const { root: largeRoot } = await makeSource(large);
    const name = (start: string): string => `.holdfast-${start}-4194999-0badcafe.part`;
    const entries = { [name(largeRoot.slice(0, 16))]: file(5, 1), '!large': large, large };
    const plan = directory({
      ...entries,
      sub: directory({ [name('0'.repeat(16))]: file(7), a: file(1), [name('1'.repeat(16))]: directory() }),
    });
    const { root, source } = await makeSource(plan);
    const target = fresh();
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(plan));
    rmSync(join(target, 'large'));
    await pullToPath(source, root, target, { paths: [[Buffer.from('large')]] });
    expect(readStanding(target)).toEqual(standingOf(plan));
    expect((await pullToPath(source, root, target)).writtenFiles).toBe(0);
  });

  test('that someone else left as a link is not written through', async () => {
    const plan = directory({ large: file(5_000_000, 3) });
    const { root, source } = await makeSource(plan);
    const [target, outside] = [fresh(), fresh()];
    mkdirSync(target);
    writeFileSync(outside, 'mine');
    const { tree } = await buildPlan(plan);
    for (const hash of tree.nodes.keys()) {
      symlinkSync(outside, join(target, `.holdfast-${hash.slice(0, 16)}-4194999-0badcafe.part`));
    }
    await pullToPath(source, root, target);
    expect(readFileSync(outside, 'utf8')).toBe('mine');
    expect(readStanding(target)).toEqual(standingOf(plan));
  });

  test('gives no name to a file that is not whole, and stops what runs beside it', async () => {
    const entries = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`f${i}`, file(1_000 + i, i)]));
    const plan = directory(entries);
    const { root, source } = await makeSource(plan);
    const target = fresh();
    source.onRead = async () => {
      if (source.reads.length > 50) throw new Error('cut');
      await Bun.sleep(0);
    };
    await failureOf(pullToPath(source, root, target), Error);
    const whole = standingOf(plan);
    const standing = readStanding(target);
    if (standing.kind !== 'directory' || whole.kind !== 'directory') throw new Error('both are directories');
    for (const [name, entry] of Object.entries(standing.entries)) expect(entry).toEqual(whole.entries[name]!);
    const { length } = source.reads;
    await Bun.sleep(20);
    expect(source.reads).toHaveLength(length);
  });

  test('by a full disk says so, and goes on when there is room', async () => {
    const plan = directory({ a: file(200_000, 1), large: file(3_000_000, 2), z: file(200_000, 3) });
    const { root, source } = await makeSource(plan);
    const disk = mountSmallDisk(8);
    try {
      const target = join(disk.path, 'target');
      // Somebody else fills it meanwhile.
      source.onRead = async () => {
        if (source.reads.length > 1) disk.fill(1_000_000);
      };
      expect(await failureOf(pullToPath(source, root, target), Error)).toContain(
        'the disk is full; free some space',
      );
      source.onRead = async () => undefined;
      disk.empty();
      await pullToPath(source, root, target);
      expect(readStanding(target)).toEqual(standingOf(plan));
    } finally {
      disk.remove();
    }
  });

  test('by a file system that tells of a failed write at the end gives no name, and goes on', async () => {
    const plan = directory({ large: file(3_000_000, 4) });
    const { root, source } = await makeSource(plan);
    const target = fresh();
    const closeFile = async (descriptor: number): Promise<void> => {
      closeSync(descriptor);
      throw Object.assign(new Error('EDQUOT: disk quota exceeded, close'), { code: 'EDQUOT' });
    };
    const message = await failureOf(pullToPath(source, root, target, { closeFile }), Error);
    expect(message).toContain('large cannot be written: the quota is used up');
    expect(existsSync(join(target, 'large'))).toBe(false);
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(plan));
  });
});
