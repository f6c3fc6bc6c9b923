/** The walks of the README and the recipes, word for word, on a fresh data folder. Only the ports differ: tests take free ones. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKOUT_HOLDFAST, HOLDFAST } from './support/holdfast-command.ts';
import { findDifferences, readSteps } from './support/readme-steps.ts';
import { ROOT, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const README_URL = 'http://127.0.0.1:8420';
/** files of a checkout that the walk uses */
const LINKED = ['LICENSE', 'bin', 'docs', 'node_modules', 'packages'];
/** The walk sleeps for a minute; more than twice what the rest takes on a very busy machine. */
const WALK_MS_MAX = 480_000;

const folder = makeTempFolder('walk');
let server: ServerProcess;

beforeAll(async () => {
  copyFileSync(join(ROOT, 'package.json'), join(folder.path, 'package.json'));
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(folder.path, name));
  server = await startServer({
    program: CHECKOUT_HOLDFAST,
    data: join(folder.path, 'holdfast-data'),
    arguments: ['--dev'],
  });
  await until(() => server.output().includes('HOLDFAST_TOKEN='));
}, 300_000);

afterAll(async () => {
  await server.end('SIGTERM');
  folder.remove();
});

/**
 * A folder with an `npx` that is the real one for the first command of a page, and then runs what that found: finding it again
 * takes longer than most commands.
 */
function makeNpx(page: string): string {
  const bin = join(folder.path, `npx of ${page.replace('/', ' ')}`);
  mkdirSync(bin);
  const lines = [
    '#!/bin/sh',
    `if mkdir '${bin}/used' 2>/dev/null; then exec '${Bun.which('npx')}' "$@"; fi`,
    '[ "$1" = holdfast ] && shift || exit 127',
    `exec '${HOLDFAST}' "$@"`,
  ];
  writeFileSync(join(bin, 'npx'), `${lines.join('\n')}\n`, { mode: 0o755 });
  return bin;
}

test.each([
  ['README.md', 40],
  ['docs/recipes.md', 25],
])(
  'every command prints what %s says',
  async (page, stepsMin) => {
    const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(README_URL, server.url);
    const steps = readSteps(text);
    expect(steps.length).toBeGreaterThan(stepsMin);
    const environment = {
      ...process.env,
      PATH: `${makeNpx(page)}:${process.env.PATH}`,
      XDG_CACHE_HOME: join(folder.path, 'cache'),
    };
    expect(await findDifferences(steps, { folder: folder.path, environment, server })).toEqual([]);
  },
  WALK_MS_MAX,
);
