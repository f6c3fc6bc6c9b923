/** Takes one guard out of a copy of the sources, and runs the tests that its line concerns on the copy. */
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { importsAny } from '../../tools/imports.mjs';
import { findNeededEngines } from '../../tools/shared-engines.mjs';
import type { Guard } from './guards.ts';
import { runTests, succeeds } from './run-tests.ts';
import { openWatches } from './watches.ts';

const COPIED = ['package.json', 'tsconfig.json', 'bin', 'packages', 'proof', 'test', 'tools', 'docs'];
const QUICK_TESTS = [
  'packages/server/{core,background,backup,deployment,inspect}/**/*.test.ts',
  'packages/server/engine/{disk,sqlite}/**/*.test.ts',
];
/** They take a minute, and see what no test of one rule sees. */
const LONG_TESTS = ['test/model/*.test.ts', 'proof/{row-rot,schedules}/*.test.ts'];
/** In the copy: the one file that a guard was taken out of, with what it imports. */
const TYPES_CONFIG = 'mutant.json';

/** What notices that a guard is missing. */
export type Noticed = 'test' | 'type checker' | undefined;

export interface Mutants {
  /** Throws Error if a test fails as it is: else all guards would seem to be noticed. */
  whatNotices(guard: Guard): Promise<Noticed>;
  remove(): void;
}

export function openMutants(): Mutants {
  const [copy, watched] = [copySources(), copySources()];
  const watches = openWatches(watched.path);
  return {
    async whatNotices(guard) {
      const { file, mutant } = guard;
      const path = join(copy.path, file);
      const original = readFileSync(path, 'utf8');
      const isRefused = async (works: () => Promise<boolean>): Promise<boolean> => {
        writeFileSync(path, mutant);
        try {
          return !(await works());
        } finally {
          writeFileSync(path, original);
        }
      };
      const [own, ...others] = testsOf(copy.path, file);
      const doTestsFail = async (group: readonly string[]): Promise<boolean> => {
        const tests = await watches.choose(group, guard);
        return tests.length > 0 && (await isRefused(() => runTests(copy.path, tests)));
      };
      if (await doTestsFail(own)) return 'test';
      if (await isRefused(() => hasRightTypes(copy.path, file))) return 'type checker';
      for (const group of others) if (await doTestsFail(group)) return 'test';
      return undefined;
    },
    remove() {
      copy.remove();
      watched.remove();
    },
  };
}

function copySources(): ReturnType<typeof makeTempFolder> {
  const copy = makeTempFolder('mutation', { fast: true });
  for (const each of COPIED) {
    const filter = (path: string): boolean => basename(path) !== 'node_modules';
    cpSync(join(ROOT, each), join(copy.path, each), { recursive: true, filter });
  }
  linkModules(copy.path);
  return copy;
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

/** Its own first, then those that import it themselves, then those that reach it. Those that need a server of their own are left out. */
function testsOf(root: string, file: string): [string[], ...string[][]] {
  const find = (patterns: readonly string[]): string[] =>
    globSync([...patterns], { cwd: root })
      .sort()
      .filter(
        (test) => importsAny(root, test, new Set([file])) && findNeededEngines(root, test).length === 0,
      );
  const quick = find(QUICK_TESTS);
  const own = file.replace(/\.ts$/, '.test.ts');
  const isNear = (test: string): boolean =>
    test !== own && readFileSync(join(root, test), 'utf8').includes(`/${basename(file)}'`);
  return [
    quick.filter((test) => test === own),
    quick.filter(isNear),
    quick.filter((test) => test !== own && !isNear(test)),
    find(LONG_TESTS),
  ];
}

/** A name that is no longer used is no fault. */
async function hasRightTypes(root: string, file: string): Promise<boolean> {
  const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false };
  const config = { extends: './tsconfig.json', include: [], files: [file], compilerOptions };
  writeFileSync(join(root, TYPES_CONFIG), JSON.stringify(config));
  return succeeds(root, [join(ROOT, 'node_modules/.bin/tsc'), '--project', TYPES_CONFIG]);
}
