/** The commands that read trees without pulling them: what they print, and that it is safe to print. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seededBytes } from './support/canonical-node.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { sampleTree, TreeCommands } from './support/tree-commands.ts';

let commands: TreeCommands;
let root: string;
let source: string;

beforeAll(async () => {
  commands = await TreeCommands.start('read-trees');
  ({ root, source } = await commands.pushPlan('looking', sampleTree));
});
afterAll(() => commands.remove());

describe('looking at trees', () => {
  test('ls lists names in order, safe on a terminal, exact in JSON', async () => {
    expect(await commands.runWell('looking', 'ls', root)).toBe('README.md\nempty\nlarge\nlink\nsrc\n');
    expect(await commands.runWell('looking', 'ls', `${root}/src/`)).toBe(
      '\\u001b[31mred\\u000a\ndeep\nmain.ts\n\\xff\\xfe\n',
    );
    expect(await commands.runWell('looking', 'ls', `${root}/src/main.ts`)).toBe('main.ts\n');
    const { entries } = JSON.parse(await commands.runWell('looking', 'ls', `${root}/src`, '--json'));
    expect(entries[0]).toMatchObject({
      name: '\u001b[31mred\n',
      kind: 'file',
      bytes: 10,
      isExecutable: false,
    });
    expect(entries[3]).toMatchObject({ nameHex: 'fffe', bytes: 11 });
    expect(await commands.runWell('looking', 'ls', '-l', `${root}/src/main.ts`)).toMatch(
      /^x +300 B [0-9a-f]{64} main\.ts\n$/,
    );
  });

  test('cat writes the bytes', async () => {
    for (const name of ['README.md', 'large', 'src/deep/er/x.txt']) {
      const child = Bun.spawn([HOLDFAST, 'cat', `${root}/${name}`], {
        env: { PATH: process.env.PATH, ...commands.environment('looking') },
        stdout: 'pipe',
      });
      const bytes = await new Response(child.stdout).bytes();
      expect(Buffer.compare(bytes, readFileSync(join(source, name)))).toBe(0);
    }
    expect(await commands.runBadly(1, 'looking', 'cat', `${root}/none`)).toContain(
      'does not exist in this tree',
    );
    expect(await commands.runBadly(1, 'looking', 'cat', `${root}/README.md/x`)).toContain('nothing below');
    expect(await commands.runBadly(1, 'looking', 'cat', `${root}/src`)).toEndWith(
      `/src is a directory; list it: holdfast ls ${root}/src`,
    );
    expect(await commands.runBadly(1, 'looking', 'cat', `${root}/link`)).toEndWith(
      `links are not followed; to see its target: holdfast tree ${root}`,
    );
    expect(await commands.runBadly(1, 'looking', 'tree', `${root}/large`)).toEndWith(
      `is not a directory; show it: holdfast ls --long ${root}/large`,
    );
  });

  test('tree shows all that is below', async () => {
    expect(await commands.runWell('looking', 'tree', `${root}/src`, '--depth', '1')).toBe(
      `${root}/src\n  \\u001b[31mred\\u000a\n  deep/\n  main.ts*\n  \\xff\\xfe\n`,
    );
    const { entries } = JSON.parse(await commands.runWell('looking', 'tree', root, '--json'));
    expect(entries).toHaveLength(11);
    expect(entries.find(({ path }: { path: string }) => path === 'link')).toMatchObject({
      target: '../nowhere',
    });
    expect(entries.map(({ path }: { path: string }) => path)).toContain('src/deep/er/x.txt');
  });

  test('diff reads only what differs, and names it', async () => {
    const changed = commands.fresh('changed');
    expect(Bun.spawnSync(['cp', '-a', source, changed]).exitCode).toBe(0);
    writeFileSync(join(changed, 'large'), seededBytes(5_000_000, 99));
    rmSync(join(changed, 'src', 'deep'), { recursive: true });
    Bun.spawnSync(['chmod', '+x', join(changed, 'README.md')]);
    mkdirSync(join(changed, 'new'));
    writeFileSync(join(changed, 'new', 'n.txt'), 'n');
    const other = await commands.push('looking', changed);
    expect(await commands.runWell('looking', 'diff', root, root)).toBe('');
    expect(await commands.runWell('looking', 'diff', root, other)).toBe(
      [
        'M README.md (mode)',
        'M large',
        'A new/',
        'A new/n.txt',
        'D src/deep/',
        'D src/deep/er/',
        'D src/deep/er/x.txt',
        '',
      ].join('\n'),
    );
    const json = JSON.parse(await commands.runWell('looking', 'diff', other, root, '--json'));
    expect(json).toMatchObject({ added: 3, removed: 2, modified: 2 });
    // A file that differs in mode alone adds no bytes: all listed files but README.md count.
    const told: { path: string; type: string; before?: { kind: string; bytes: number } }[] = json.differences;
    const gone = told.filter(({ before, path }) => before?.kind === 'file' && path !== 'README.md');
    expect(json.removedBytes).toBe(gone.reduce((sum, { before }) => sum + (before?.bytes ?? 0), 0));
    expect(json.differences[0]).toMatchObject({ type: 'modified', path: 'README.md', aspects: ['mode'] });
  });

  test('du tells own from shared bytes', async () => {
    const [alone] = JSON.parse(await commands.runWell('looking', 'du', root, '--json'));
    expect(alone).toMatchObject({ hash: root, kind: 'directory', entryCount: 11, sharedBytes: 0 });
    const { readyStoredBytes, nodeCount } = JSON.parse(await commands.runWell('du-alone', 'usage', '--json'));
    expect([readyStoredBytes, nodeCount]).toEqual([0, 0]);
    const apart = await commands.push('du-alone', source);
    const usage = JSON.parse(await commands.runWell('du-alone', 'usage', '--json'));
    expect([apart, alone.ownBytes, alone.nodes]).toEqual([root, usage.readyStoredBytes, usage.nodeCount]);
    const src = JSON.parse(await commands.runWell('looking', 'ls', root, '--json')).entries[4].hash;
    const [all, part] = JSON.parse(await commands.runWell('looking', 'du', root, src, '--json'));
    expect(part.ownBytes).toBe(0);
    expect(all.sharedBytes).toBe(part.sharedBytes);
    expect(all.ownBytes + all.sharedBytes).toBe(alone.ownBytes);
    expect(await commands.runWell('looking', 'du', root)).toMatch(
      /^HASH +SIZE +OWN +SHARED +NODES\n[0-9a-f]{64} /,
    );
  });

  test('verify finds nothing wrong', async () => {
    const { nodeCount } = JSON.parse(await commands.runWell('du-alone', 'usage', '--json'));
    const result = JSON.parse(await commands.runWell('looking', 'verify', root, '--json', '--quiet'));
    expect(result).toMatchObject({ root, nodes: nodeCount, faults: [], faultCount: 0 });
  });

  test('a missing node, and one that is no tree, are named as what they are', async () => {
    const node = commands.fresh('node');
    writeFileSync(node, 'no tree');
    const plain = (await commands.runWell('looking', 'node', 'put', node)).split(' ')[0] as string;
    expect(await commands.runBadly(1, 'looking', 'pull', plain, commands.fresh())).toContain(
      'none of the tree format',
    );
    const absent = 'a'.repeat(64);
    for (const command of [
      ['ls', absent],
      ['cat', absent],
      ['tree', absent],
      ['du', root, absent],
      ['diff', root, absent],
      ['pull', absent, commands.fresh()],
    ]) {
      const line = await commands.runBadly(1, 'looking', ...command);
      expect(line).toContain(`${absent} is not in this Space, or not ready there: check the hash`);
    }
    expect(await commands.runBadly(1, 'looking', 'verify', absent, '--quiet')).toContain(
      '1 node is missing or wrong',
    );
    for (const command of [
      ['ls', 'a b'],
      ['cat', 'x@y/z'],
      ['pull', 'a b', 'y'],
      ['verify', 'x@2026-02-30'],
      ['du', '@x'],
      ['tree', 'A'.repeat(64)],
    ]) {
      await commands.runBadly(2, 'looking', ...command);
    }
    for (const command of [
      ['ls', 'x'],
      ['pull', 'x/y', 'z'],
      ['du', root, 'x'],
    ]) {
      expect(await commands.runBadly(1, 'looking', ...command)).toContain(
        'under the name x; there is no name yet',
      );
    }
  });

  test('a path of a tree is verified, measured and pulled as a tree, with executable files kept', async () => {
    expect(JSON.parse(await commands.runWell('looking', 'verify', `${root}/src`, '--json'))).toMatchObject({
      faultCount: 0,
    });
    const du = JSON.parse(await commands.runWell('looking', 'du', `${root}/src/deep`, '--json'));
    expect(du).toMatchObject([{ tree: `${root}/src/deep`, bytes: 70_000 }]);
    const target = commands.fresh();
    await commands.runWell('looking', 'pull', `${root}/src/main.ts`, target, '--quiet');
    expect([statSync(target).size, statSync(target).mode & 0o111]).not.toContain(0);
    await commands.runWell('looking', 'pull', `${root}/src`, commands.fresh(), '--quiet');
  });
});
