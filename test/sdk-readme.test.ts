/**
 * The README of the SDK and the page about an editor, word for word: the packages are installed without a network, the examples
 * run on Node against a server that was started as the text says, and their output and types are checked.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packSdk } from '../tools/packages/pack-sdk.ts';
import { findDifferences, readSteps } from './support/readme-steps.ts';
import { ROOT, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const MINUTE_MS = 60_000;
const README = readFileSync(join(ROOT, 'packages', 'client', 'README.md'), 'utf8');
/** Goes on where the README is installed. */
const EDITOR = readFileSync(join(ROOT, 'docs', 'document-editor.md'), 'utf8');
const TSC = join(ROOT, 'node_modules', '.bin', 'tsc');

const folder = makeTempFolder('sdk-readme');
const reader = join(folder.path, 'reader');
let server: ServerProcess;

beforeAll(async () => {
  mkdirSync(reader);
  const packing = packSdk(join(folder.path, 'packages'));
  server = await startServer({ data: join(folder.path, 'data'), arguments: ['--dev'] });
  await until(() => server.output().includes('HOLDFAST_TOKEN='));
  for (const path of Object.values(await packing))
    renameSync(path, join(reader, path.split('/').at(-1) ?? ''));
  for (const { name, text } of EXAMPLES) writeFileSync(join(reader, name), text);
}, 2 * MINUTE_MS);

afterAll(async () => {
  await server?.end('SIGTERM');
  folder.remove();
});

/** The first line of each block names the file that a reader saves it as. */
const EXAMPLES = [README, EDITOR].flatMap(readExamples);

function readExamples(page: string): { readonly name: string; readonly text: string }[] {
  return [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, text = '']) => {
    return { name: /^\/\/ (\S+\.mjs)\n/.exec(text)?.[1] ?? '', text };
  });
}

/** Files that others import. */
const SHARED: readonly string[] = ['connect.mjs', 'document.mjs'];

test('every example is run by a command of the page', () => {
  const commands = [README, EDITOR].flatMap(readSteps).map(({ command }) => command);
  const programs = EXAMPLES.filter(({ name }) => !SHARED.includes(name));
  expect(programs.length).toBeGreaterThan(5);
  for (const { name } of programs) expect(commands.join('\n')).toContain(`node ${name}`);
});

test(
  'every command prints what the README says',
  async () => {
    const home = join(folder.path, 'home');
    mkdirSync(home);
    const environment = { PATH: process.env.PATH, HOME: home };
    for (const page of [README, EDITOR]) {
      expect(await findDifferences(readSteps(page), { folder: reader, environment, server })).toEqual([]);
    }
    expect(readdirSync(join(reader, 'node_modules', '@holdfast')).toSorted()).toEqual(['client', 'protocol']);
  },
  4 * MINUTE_MS,
);

test(
  'every example passes the type checker',
  () => {
    const project = join(reader, 'typed');
    mkdirSync(project);
    for (const { name, text } of EXAMPLES) writeFileSync(join(project, name.replace('.mjs', '.mts')), text);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      module: 'nodenext',
      lib: ['es2022'],
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules', '@types')],
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    const { exitCode, stdout } = Bun.spawnSync([TSC, '-p', project], { cwd: project });
    expect(`${exitCode} ${stdout.toString()}`).toBe('0 ');
  },
  MINUTE_MS,
);
