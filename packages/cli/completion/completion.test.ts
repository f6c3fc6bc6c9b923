/** Completion as a shell has it: bash really sources the script; for all three every word of the command line is in it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { buildProgram } from '../program.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';
import { listCommandWords } from './command-words.ts';
import { SHELLS, writeCompletion } from './shell-scripts.ts';

const place = new Workplace();
const all = listCommandWords(await buildProgram([]));

beforeAll(() => {
  writeFileSync(place.path('complete.bash'), writeCompletion('bash', all));
  writeFileSync(place.path('a file'), '');
  mkdirSync(place.path('.config/holdfast'), { recursive: true });
  const profile = { url: 'http://127.0.0.1:1', app: 'a', space: 's', token: 'x.y.z' };
  const profiles = { version: 1, default: 'work', profiles: { work: profile, other: profile } };
  writeFileSync(place.path('.config/holdfast/profiles.json'), JSON.stringify(profiles), { mode: 0o600 });
});
afterAll(() => place.remove());

/** The words that bash offers for each of these command lines, whose last word is being typed. */
async function complete(lines: readonly (readonly string[])[]): Promise<string[][]> {
  const quoted = lines.map((words) => words.map((word) => `'${word}'`).join(' '));
  const script = [
    `PATH="${resolve(import.meta.dir, '../../../bin')}:$PATH"`,
    'source ./complete.bash',
    `offer() { COMP_WORDS=(holdfast "$@"); COMP_CWORD=$#; COMPREPLY=(); _holdfast; printf '%s|' "\${COMPREPLY[@]}"; echo; }`,
    ...quoted.map((words) => `offer ${words}`),
  ].join('\n');
  const child = Bun.spawn(['bash', '-c', script], {
    cwd: place.folder,
    env: { PATH: process.env.PATH ?? '', HOME: place.folder },
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  expect(stderr).toBe('');
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('|').filter((word) => word !== ''));
}

/** Read off the tree itself: every command line of which the last word is a command or an option. */
function listLines(command: Command, before: readonly string[]): (readonly string[])[] {
  const flags = command.options.flatMap(({ long }) => (long === undefined ? [] : [[...before, long]]));
  const below = command.commands.flatMap((sub) => {
    const path = [...before, sub.name()];
    return [path, ...listLines(sub, path)];
  });
  return [...flags, ...below];
}

describe('in bash', () => {
  test('every command, sub-command and option is offered where it belongs', async () => {
    const lines = listLines(await buildProgram([]), []);
    const offered = await complete(lines);
    expect(lines.length).toBeGreaterThan(150);
    for (const [index, line] of lines.entries()) expect(offered[index]).toContain(line.at(-1) as string);
  });

  test('values are those that the option takes', async () => {
    const [algorithms, permissions, profiles, files, nothing, path] = await complete([
      ['key', 'new', '--alg', ''],
      ['token', '--permission', 'cas:nodes'],
      ['usage', '--profile', ''],
      ['usage', '--token-file', ''],
      ['push', '--jobs', ''],
      ['push', 'a'],
    ]);
    expect(algorithms).toEqual(['ES256', 'ES384', 'EdDSA', 'PS256', 'RS256']);
    expect(permissions).toEqual(['cas:nodes:read', 'cas:nodes:lease']);
    expect(profiles).toEqual(['work', 'other']);
    expect(files).toContain('a file');
    expect(nothing).toEqual([]);
    expect(path).toEqual(['a file']);
  });
});

test.each([...SHELLS])('the script of %s is what the command prints, and has every word', async (shell) => {
  const script = await place.print('completion', shell);
  expect(script).toBe(writeCompletion(shell, all));
  for (const { commands, options } of all) {
    for (const { name } of commands) expect(script).toContain(name);
    for (const { long } of options) expect(script).toContain(shell === 'fish' ? `-l ${long.slice(2)}` : long);
  }
});

test('another shell is wrong usage', async () => {
  expect(await place.fail(2, 'completion', 'tcsh')).toContain('SHELL "tcsh" cannot be used');
});
