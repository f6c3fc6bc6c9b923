/** A command shares descriptors with its shell: standard streams keep their flags, and given descriptors stay open. */
import { describe, expect, test } from 'bun:test';
import { CHECKOUT_HOLDFAST, HOLDFAST } from './support/holdfast-command.ts';

const O_NONBLOCK = 0o4000;
/** Nothing listens there: the command says so on stderr and ends, having read and written as any other. */
const NOWHERE = '--url http://127.0.0.1:1 --app a --space s';
const FLAGS = `grep flags: /proc/self/fdinfo/0 /proc/self/fdinfo/1 /proc/self/fdinfo/2`;

function environment(program: string): Record<string, string> {
  return { PATH: process.env.PATH ?? '', HOLDFAST_UNDER_TEST: program };
}

function readFlags(text: string): number[] {
  return [...text.matchAll(/flags:\s*(\d+)/g)].map(
    ([, flags]) => Number.parseInt(flags ?? '', 8) & O_NONBLOCK,
  );
}

describe.each([...new Set([CHECKOUT_HOLDFAST, HOLDFAST])])('%s', (program) => {
  const run = `echo abc | "$HOLDFAST_UNDER_TEST" node hash - --content-type text/plain; "$HOLDFAST_UNDER_TEST" usage ${NOWHERE}`;

  test('what runs next on the same pipes finds them as they were', () => {
    // The shell's own streams are pipes, which it shares with every command.
    const script = `echo abc | { { ${run}; ${FLAGS} >&3; } 2>&1 | cat >/dev/null; } 3>&1 2>&1 | cat`;
    const { stdout } = Bun.spawnSync(['bash', '-c', script], { env: environment(program) });
    expect(readFlags(stdout.toString())).toEqual([0, 0, 0]);
  });

  test('sockets, which cannot be opened anew, get their flags back', () => {
    // Node gives its children sockets.
    const script = `const { spawnSync } = require('node:child_process');
      const { stdout } = spawnSync('bash', ['-c', process.env.SCRIPT], { input: '', stdio: 'pipe' });
      process.stdout.write(stdout);`;
    const env = { ...environment(program), SCRIPT: `${run}; ${FLAGS}` };
    const { stdout } = Bun.spawnSync(['node', '-e', script], { env });
    expect(readFlags(stdout.toString())).toEqual([0, 0, 0]);
  });

  test('a terminal is as it was', async () => {
    let shown = '';
    const child = Bun.spawn(['bash', '-c', `${run}; ${FLAGS}`], {
      env: environment(program),
      terminal: {
        data: (_, data) => {
          shown += new TextDecoder().decode(data);
        },
      },
    });
    expect(await child.exited).toBe(0);
    expect(readFlags(shown)).toEqual([0, 0, 0]);
  });

  test('a file that the shell opened for it can be read', () => {
    const script = `"$HOLDFAST_UNDER_TEST" usage ${NOWHERE} --token-file <(echo a.b.c)`;
    const { stderr, exitCode } = Bun.spawnSync(['bash', '-c', script], { env: environment(program) });
    expect([exitCode, stderr.toString()]).toEqual([1, expect.stringContaining('nothing listens there')]);
  });
});
