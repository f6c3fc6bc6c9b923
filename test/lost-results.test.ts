/** A command that did its work always says its result, and needs no home folder to remember things in. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKOUT_HOLDFAST, HOLDFAST } from './support/holdfast-command.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'results';

let commands: TreeCommands;
let tree: string;
let folder: string;
beforeAll(async () => {
  commands = await TreeCommands.start('lost-results');
  tree = commands.fresh('tree');
  folder = commands.fresh('cwd');
  for (const path of [tree, folder]) mkdirSync(path);
  writeFileSync(join(tree, 'file'), 'text');
}, 300_000);
afterAll(() => commands.remove());

/** A script of the shell, in which `$H` is the command. */
function runScript(script: string, variables: Readonly<Record<string, string>> = {}) {
  const { stdout, stderr, exitCode } = Bun.spawnSync(['sh', '-c', script], {
    cwd: folder,
    env: {
      PATH: process.env.PATH ?? '',
      ...commands.environment(SPACE),
      H: HOLDFAST,
      TREE: tree,
      ...variables,
    },
  });
  return { stdout: stdout.toString(), stderr: stderr.toString(), exitCode };
}

test('a root hash that stdout does not take is said on stderr', async () => {
  const root = await commands.push(SPACE, tree);
  expect(runScript('"$H" push "$TREE" --quiet >/dev/full')).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining(`Its last line was: ${root}\n`),
  });
  expect(runScript('"$H" push "$TREE" --quiet >&-')).toMatchObject({
    exitCode: 0,
    stderr: `holdfast: stdout is closed. Its last line was: ${root}\n`,
  });
  expect(runScript('"$H" push "$TREE" --quiet >/dev/null')).toMatchObject({ exitCode: 0, stderr: '' });
});

test.each([
  ['none', ''],
  ['a relative one', 'somewhere'],
])('without a home (%s) a push keeps its name, and forget does what it says', (_, home) => {
  const variables = { XDG_CACHE_HOME: '', XDG_CONFIG_HOME: '', HOME: home };
  const pushed = runScript('"$H" push "$TREE" --name docs', variables);
  expect(pushed.exitCode).toBe(0);
  expect(pushed.stderr).toContain('there is no home folder for it');
  const forgotten = runScript('"$H" forget docs --all', variables);
  expect([forgotten.exitCode, forgotten.stderr]).toEqual([0, expect.stringContaining('--from ')]);
  // The sources of a checkout are compiled, and what comes of it is kept by the runtime.
  const sources = { ...variables, H: CHECKOUT_HOLDFAST };
  expect(runScript('"$H" snapshots --json', sources).stdout).toBe('[]\n');
  expect(readdirSync(folder)).toEqual([]);
});
