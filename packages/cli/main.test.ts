/** The launcher and what every command shares: help, version, wrong usage, exit codes. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { CHECKOUT_HOLDFAST } from '../../test/support/holdfast-command.ts';
import { buildProgram } from './program.ts';
import { wrapHelp } from './terminal/wrap-help.ts';
import { Workplace } from './test/run-holdfast-fixture.ts';

let place: Workplace;
beforeEach(() => {
  place = new Workplace();
});
afterEach(() => place.remove());

/** Commands that do something themselves. */
function listLeaves(command: Command): readonly Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(listLeaves);
}

describe('holdfast', () => {
  test('prints its version', async () => {
    expect(await place.print('--version')).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(await place.print('-V')).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('prints help that names every command', async () => {
    const help = await place.print('--help');
    for (const name of ['serve', 'app', 'key', 'token'])
      expect(help).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
    expect(help).toContain('Exit codes');
    expect(await place.print('help')).toBe(help);
  });

  test('prints no line of help that is wider than 80 columns where no terminal says its width', async () => {
    const program = await buildProgram([]);
    for (const command of [program, ...listLeaves(program)]) {
      let help = '';
      const writeOut = (more: string): void => {
        help += more;
      };
      command.configureOutput({ writeOut }).outputHelp();
      expect(help).toContain('Usage: holdfast');
      for (const line of wrapHelp(help, 80).split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
    }
  });

  test.each(['app', 'app add', 'app list', 'key', 'key new', 'token', 'serve'])(
    'prints help for %s',
    async (name) => {
      expect(await place.print(...name.split(' '), '--help')).toStartWith(`Usage: holdfast ${name} `);
    },
  );

  test('prints help for a command of a command, however it is asked for', async () => {
    expect(await place.print('help', 'app', 'add')).toBe(await place.print('app', 'add', '--help'));
    expect(await place.print('help', 'app')).toBe(await place.print('app', '--help'));
    expect(await place.print('help', 'push', '.')).toContain('Usage: holdfast push');
    expect(await place.fail(2, 'help', 'app', 'ad')).toContain("unknown command 'ad'");
    expect(await place.fail(2, 'help', 'tokens')).toContain("unknown command 'tokens'");
  });

  test.each(['', 'app', 'key'])('%p without a command shows help on stderr as wrong usage', async (name) => {
    const { exitCode, stdout, stderr } = await place.run(...(name === '' ? [] : [name]));
    expect([exitCode, stdout]).toEqual([2, '']);
    expect(stderr).toStartWith(`Usage: holdfast ${name}`);
  });

  test.each([
    ['an unknown command', ['tokens'], 'unknown command'],
    ['an unknown subcommand', ['app', 'delete'], 'unknown command'],
    ['an unknown flag', ['app', 'list', '--jsn'], 'unknown option'],
    ['a missing value', ['app', 'list', '--data'], '--data needs a value'],
    ['too many arguments', ['app', 'list', 'x'], 'too many arguments'],
    [
      'a flag of one value given twice',
      ['usage', '--url', 'http://a', '--url=http://b'],
      '--url is given twice',
    ],
    ["another tool's word", ['prune'], 'holdfast gc --all'],
  ])('refuses %s with one line', async (_, args, reason) => {
    expect(await place.fail(2, ...args)).toContain(reason);
  });

  test('refuses an empty value', async () => {
    for (const args of [
      ['push', ''],
      ['push', '.', '--cache', ''],
      ['push', '.', '--ignore-file', ''],
      ['pull', '0'.repeat(64), ''],
      ['bundle', 'import', ''],
      ['bundle', 'create', '0'.repeat(64), '--out', ''],
      ['node', 'put', ''],
      ['node', 'get', '0'.repeat(64), '--out='],
      ['key', 'new', '--out', 'k', '--jwks', ''],
      ['serve', '--data', ''],
      ['usage', '--token-file', ''],
    ]) {
      expect(await place.fail(2, ...args)).toContain('it is empty');
    }
    // The runtime keeps a cache of its own.
    expect(readdirSync(place.folder).filter((name) => !name.startsWith('.'))).toEqual([]);
  });

  test('prints JSON wherever something is printed, but for serve, whose first line is fixed', async () => {
    const withoutJson = listLeaves(await buildProgram([])).filter(
      ({ options }) => !options.some(({ long }) => long === '--json'),
    );
    expect(withoutJson.map((command) => command.name())).toEqual(['serve']);
  });

  test.each([
    ['ls !', 'LOCATION "!" cannot be used: ', 'holdfast ls'],
    ['push . --jobs zz', '--jobs "zz" cannot be used: it must be an integer from 1 to 256', 'holdfast push'],
    ['push', 'PATH is missing', 'holdfast push'],
    ['push . --lease', '--lease needs a value: --lease DURATION', 'holdfast push'],
    ['push . --jbos 3', "unknown option '--jbos' (Did you mean --jobs?)", 'holdfast push'],
    ['bundle creat x', "unknown command 'creat' (Did you mean create?)", 'holdfast bundle'],
    ['constructor', "unknown command 'constructor'; see ", 'holdfast'],
    [
      'whoami',
      "unknown command 'whoami': the connections that are kept are listed by: holdfast profiles",
      'holdfast',
    ],
    ['token', '--key is missing; give --key PRIVATE.JWK', 'holdfast token'],
    ['push . --no-ignore --gitignore', '--no-ignore stores everything', 'holdfast push'],
    ['pull ! b', 'LOCATION "!" cannot be used: ', 'holdfast pull'],
    ['usage x', 'too many arguments: 1 where none is taken', 'holdfast usage'],
    ['ls a\nb', 'LOCATION "a\\nb" cannot be used: ', 'holdfast ls'],
    ['push . --jobs 1\n2', '--jobs "1\\n2" cannot be used: it must be an integer', 'holdfast push'],
  ])('says in one line what is wrong with "%s", and where to look', async (text, reason, command) => {
    const line = await place.fail(2, ...text.split(' '));
    expect(line).toStartWith(`holdfast: ${reason}`);
    expect(line).toEndWith(`; see ${command} --help\n`);
    expect(line).not.toContain('command-argument');
  });

  test('shows no control characters of what it was given', async () => {
    expect(await place.fail(2, '\u001b[31mred')).toContain('\\u001b[31mred');
  });

  test('is led by no file of the folder it runs in', async () => {
    writeFileSync(place.path('bunfig.toml'), 'preload = ["./evil.ts"]\n');
    writeFileSync(place.path('evil.ts'), 'console.log("evil");\n');
    writeFileSync(place.path('.env'), 'HOLDFAST_DATA=elsewhere\n');
    writeFileSync(place.path('package.json'), '{"imports":{"#x":"./evil.ts"}}');
    writeFileSync(place.path('tsconfig.json'), '{"compilerOptions":{"paths":{"*":["./evil.ts"]}}}');
    expect(await place.print('--version')).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(await place.print('app', 'list', '--help')).not.toContain('elsewhere');
  });

  test('starts through a symbolic link', async () => {
    symlinkSync(CHECKOUT_HOLDFAST, place.path('hf'));
    const child = Bun.spawn([place.path('hf'), '--version'], { cwd: '/', stdout: 'pipe' });
    expect(await new Response(child.stdout).text()).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('is one process: a signal to the launcher reaches the server itself', async () => {
    const child = Bun.spawn([CHECKOUT_HOLDFAST, 'serve', '--listen', '127.0.0.1:0'], {
      cwd: place.folder,
      stdout: 'pipe',
      stderr: 'ignore',
      timeout: 120_000,
    });
    const { value } = await child.stdout.getReader().read();
    expect(new TextDecoder().decode(value)).toMatch(/^holdfast listening on http:\/\/127\.0\.0\.1:\d+\n/);
    child.kill('SIGTERM');
    // A shell left in between would die of the signal instead.
    expect(await child.exited).toBe(0);
    expect(child.signalCode).toBeNull();
  });

  test('ends quietly when nobody reads its output', async () => {
    const shell = Bun.spawn(['sh', '-c', `"${CHECKOUT_HOLDFAST}" --help | head -n 1; echo done`], {
      stdout: 'pipe',
      stderr: 'pipe',
    });
    expect(await new Response(shell.stdout).text()).toBe('Usage: holdfast [options] [command]\ndone\n');
    expect(await new Response(shell.stderr).text()).toBe('');
  });

  test.each(['--help', '--version', 'app list --json', 'key new --out k --jwks p'])(
    'fails with a line when the result of %p cannot be written',
    async (command) => {
      // The folder that has the list of Apps.
      mkdirSync(place.path('holdfast-data'));
      const { exitCode, stderr } = await place.runScript(`holdfast ${command} >/dev/full`);
      expect([exitCode, stderr]).toEqual([
        1,
        expect.stringMatching(/^holdfast: stdout cannot be written: the disk is full; [^\n]+\n$/),
      ]);
    },
  );
});
