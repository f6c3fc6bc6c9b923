/** Takes one guard out of a copy of the sources, and runs the tests that its line concerns on the copy. */
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { importsAny } from '../../tools/imports.mjs';
import { findNeededEngines } from '../../tools/shared-engines.mjs';
import type { Guard } from './guards.ts';
import { runTests } from './run-tests.ts';
import { findTypeErrors } from './type-errors.ts';
import { openWatches } from './watches.ts';

const COPIED = ['package.json', 'tsconfig.json', 'bin', 'packages', 'proof', 'test', 'tools', 'docs'];
const QUICK_TESTS = [
  'packages/server/{core,background,backup,deployment,inspect}/**/*.test.ts',
  'packages/server/engine/{disk,sqlite}/**/*.test.ts',
];
/** They take a minute, and see what no test of one rule sees. */
const LONG_TESTS = ['test/model/*.test.ts', 'proof/{row-rot,schedules}/*.test.ts'];

/** What notices that a guard is missing. */
type Noticed = 'test' | 'type checker' | undefined;

export interface Mutants {
  /** Throws Error if a test fails as it is: else all guards would seem to be noticed. */
  whatNotices(guard: Guard): Promise<Noticed>;
  remove(): void;
}

/** `guards`: all that may be asked for. */
export function openMutants(guards: readonly Guard[]): Mutants {
  const [copy, watched] = [copySources(), copySources()];
  const watches = openWatches(watched.path);
  let typeErrors: Promise<ReadonlySet<string>> | undefined;
  return {
    async whatNotices(guard) {
      const { file, mutant } = guard;
      const path = join(copy.path, file);
      const original = readFileSync(path, 'utf8');
      const { quick, long } = testsOf(copy.path, file);
      const doTestsFail = async (group: readonly string[]): Promise<boolean> => {
        const tests = await watches.choose(group, guard);
        if (tests.length === 0) return false;
        writeFileSync(path, mutant);
        try {
          return !(await runTests(copy.path, tests));
        } finally {
          writeFileSync(path, original);
        }
      };
      for (const group of quick) if (await doTestsFail(group)) return 'test';
      typeErrors ??= findTypeErrors(copy.path, guards);
      if ((await typeErrors).has(guard.id)) return 'type checker';
      if (await doTestsFail(long)) return 'test';
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

/** Groups: its own, those that import it themselves, those that reach it. What needs a server of its own is left out. */
function testsOf(
  root: string,
  file: string,
): { readonly quick: readonly string[][]; readonly long: readonly string[] } {
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
  const groups = [
    quick.filter((test) => test === own),
    quick.filter(isNear),
    quick.filter((test) => test !== own && !isNear(test)),
  ];
  return { quick: groups, long: find(LONG_TESTS) };
}
