/** `holdfast edit`: against pushes of the edited folder, its exit codes, and what it says. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'edits';
let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('edit-commands');
});
afterAll(() => commands.remove());

const edit = (...args: string[]): Promise<string> => commands.runWell(SPACE, 'edit', 'work', ...args);

test('gives the tree that a push of the edited folder gives, and keeps it with its message', async () => {
  const source = commands.fresh('source');
  mkdirSync(join(source, 'sub'), { recursive: true });
  writeFileSync(join(source, 'run'), '#!/bin/sh\n');
  chmodSync(join(source, 'run'), 0o755);
  symlinkSync('run', join(source, 'link'));
  writeFileSync(join(source, 'sub/text'), 'text');
  const list = commands.fresh('list');
  const lines = [
    { op: 'put', path: 'sub', file: join(source, 'sub') },
    { op: 'put', path: 'moved', file: join(source, 'run') },
    { op: 'mv', from: 'moved', to: 'run' },
    { op: 'ln', path: 'link', target: 'run' },
    { op: 'mkdir', path: 'gone' },
    { op: 'rm', path: 'gone' },
  ];
  writeFileSync(list, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const edited = JSON.parse(
    await edit('--from-file', list, '--message', 'made \u001b[31m at once', '--json'),
  );
  expect(Object.keys(edited)).toEqual(['root', 'snapshot', 'entries', 'sentNodes', 'sentBytes', 'requests']);
  expect(edited).toMatchObject({ root: await commands.push(SPACE, source), entries: 4 });
  expect(await commands.runWell(SPACE, 'snapshots', 'work')).toContain('made \\u001b[31m at once');
  const [entry] = JSON.parse(await commands.runWell(SPACE, 'snapshots', 'work', '--json'));
  expect(entry).toEqual(edited.snapshot);
  writeFileSync(join(source, 'sub/text'), 'other');
  const root = (await edit('put', join(source, 'sub/text'), 'sub/text')).trimEnd().split('\n').at(-1);
  expect(root).toBe(await commands.push(SPACE, source));
  await edit('put', join(source, 'sub'), 'a/b', '--parents');
  await edit('put', join(source, 'sub'), 'a', '--replace');
  await edit('mkdir', 'a', '--parents');
  expect(await commands.runWell(SPACE, 'ls', 'work/a')).toBe('text\n');
});

test('what cannot be is 1, what is no edit is 2, and nothing is changed', async () => {
  const source = commands.fresh('file');
  writeFileSync(source, 'x');
  await commands.runWell('wrong', 'push', source, '--name', 'file', '--quiet');
  await commands.runWell('wrong', 'edit', 'work', 'mkdir', 'd');
  await commands.runWell('wrong', 'edit', 'work', 'put', source, 'f');
  const before = await commands.runWell('wrong', 'snapshots', '--json');
  const list = commands.fresh('list');
  writeFileSync(list, '{"op":"mkdir","path":"ok"}\n{"op":"rm","path":"d","more":1}\n');
  for (const [exitCode, args] of [
    [1, ['work', 'rm', 'none']],
    [1, ['work', 'mkdir', 'd']],
    [1, ['work', 'put', source, 'd']],
    [1, ['work', 'put', source, 'f/x']],
    [1, ['work', 'put', source, 'none/x']],
    [1, ['work', 'put', `${source}-none`, 'x']],
    [1, ['work', 'ln', 'x', 'f']],
    [1, ['work', 'mv', 'd', 'd/e']],
    [1, ['work', 'cp', 'f', 'd']],
    [1, ['file', 'mkdir', 'd']],
    [2, ['work', 'rm', 'd/']],
    [2, ['work', 'rm', 'd//e']],
    [2, ['work', 'rm', '../d']],
    [2, ['work', 'rm']],
    [2, ['work', 'chmod', 'd']],
    [2, ['work', 'mkdir', 'n'.repeat(256)]],
    [2, ['work', 'mkdir', 'e', '--message', 'é'.repeat(513)]],
    [2, ['work', '--from-file', list]],
  ] as const) {
    const line = await commands.runBadly(exitCode, 'wrong', 'edit', ...args);
    if (args.includes('--from-file' as never)) expect(line).toContain('line 2');
    expect(line.includes('--replace lets put replace a folder')).toBe(
      args.join(' ') === `work put ${source} d`,
    );
    expect(line.includes('--parents makes missing folders')).toBe(args.at(-1)?.endsWith('/x') === true);
  }
  expect(await commands.runWell('wrong', 'snapshots', '--json')).toBe(before);
});
