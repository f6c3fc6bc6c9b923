/** Takes one guard out of a copy of the sources, and runs the tests that are near it on the copy. */
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { importsAny } from '../../tools/imports.mjs';
import type { Guard } from './guards.ts';

const COPIED = ['package.json', 'tsconfig.json', 'bin', 'packages', 'proof', 'test', 'tools', 'docs'];
/** Only ends what hangs: a guard may be what ends a loop. */
const TESTS_MS_MAX = 300_000;
const ENGINE_TESTS = 'packages/server/engine/sqlite/**/*.test.ts';
const RULE_TESTS = 'packages/server/core/**/*.test.ts';
const SOUND_TESTS = ['run-gc', 'byte-range'].map((name) => `packages/server/core/${name}.test.ts`);
const DISK_TESTS = 'packages/server/{engine/disk,deployment}/**/*.test.ts';

export interface Mutants {
  /** Whether tests pass on the copy as it is: else all guards would seem to be noticed. */
  isSound(): Promise<boolean>;
  /** Whether a test fails without the guard. */
  isNoticed(guard: Guard): Promise<boolean>;
  remove(): void;
}

export function openMutants(): Mutants {
  const copy = makeTempFolder('mutation', { fast: true });
  for (const each of COPIED) {
    const filter = (path: string): boolean => basename(path) !== 'node_modules';
    cpSync(join(ROOT, each), join(copy.path, each), { recursive: true, filter });
  }
  linkModules(copy.path);
  return {
    isSound: () => pass(copy.path, SOUND_TESTS),
    async isNoticed({ file, mutant }) {
      const path = join(copy.path, file);
      const original = readFileSync(path, 'utf8');
      writeFileSync(path, mutant);
      try {
        for (const tests of testsOf(copy.path, file)) if (!(await pass(copy.path, tests))) return true;
        return false;
      } finally {
        writeFileSync(path, original);
      }
    },
    remove: () => copy.remove(),
  };
}

/** The packages of this repository are those of the copy. */
function linkModules(copy: string): void {
  const modules = join(copy, 'node_modules');
  mkdirSync(modules);
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    const from = join(ROOT, 'node_modules', name);
    if (name === '@holdfast') cpSync(from, join(modules, name), { recursive: true, verbatimSymlinks: true });
    else symlinkSync(from, join(modules, name));
  }
}

/** Its own first, then those that import it themselves, then those of its room that reach it. */
function testsOf(root: string, file: string): string[][] {
  const rooms = file.includes('/core/')
    ? [RULE_TESTS]
    : file.includes('/sqlite/')
      ? [ENGINE_TESTS, RULE_TESTS]
      : [DISK_TESTS];
  const all = rooms.map((pattern) =>
    globSync(pattern, { cwd: root }).filter((test) => importsAny(root, test, new Set([file]))),
  );
  const own = file.replace(/\.ts$/, '.test.ts');
  const isNear = (test: string): boolean =>
    test === own || readFileSync(join(root, test), 'utf8').includes(`/${basename(file)}'`);
  const near = all.flat().filter(isNear);
  const others = all.map((tests) => tests.filter((test) => !near.includes(test)));
  return [near.filter((test) => test === own), near.filter((test) => test !== own), ...others].filter(
    (tests) => tests.length > 0,
  );
}

async function pass(root: string, tests: readonly string[]): Promise<boolean> {
  const files = tests.map((test) => `./${test}`);
  const command = [process.execPath, 'test', ...files, '--bail', '--timeout', '120000'];
  const child = Bun.spawn(command, { cwd: root, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' });
  const end = setTimeout(() => child.kill('SIGKILL'), TESTS_MS_MAX);
  try {
    return (await child.exited) === 0;
  } finally {
    clearTimeout(end);
  }
}
