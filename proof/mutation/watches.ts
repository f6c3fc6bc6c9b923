/**
 * Which test files a guard makes a difference in. In a copy of the sources each condition that ends the work notes when it holds: a test
 * file in which it never holds runs the same without it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readIfThere } from '../../test/support/read-if-there.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { type Guard, listGuardedFiles, watchedSource } from './guards.ts';
import { runTests } from './run-tests.ts';

/** In the environment of a test file: where its guards note what they did. */
const NOTES = 'HOLDFAST_PROOF_NOTES';

export interface Watches {
  /** The tests that the guard makes a difference in, as far as is known; those that come to it soonest first. Throws Error if a test fails as it is. */
  choose(tests: readonly string[], guard: Guard): Promise<string[]>;
}

/** By guard: how long the test file ran before; ms. */
type Notes = ReadonlyMap<string, number>;

/** `root`: a copy of the sources, which is changed. */
export function openWatches(root: string): Watches {
  for (const file of listGuardedFiles(root)) {
    const path = join(root, file);
    writeFileSync(path, `${watchedSource(readFileSync(path, 'utf8'))}\n${noteOf(file)}`);
  }
  const runs = new Map<string, Promise<Notes>>();
  return {
    async choose(tests, { file, line, part, isWatched }) {
      const chosen: { readonly test: string; readonly ms: number }[] = [];
      for (const test of tests) {
        const run = runs.get(test) ?? watchOne(root, test);
        runs.set(test, run);
        const notes = await run;
        const ms = notes.get(isWatched ? `${file} ${line} ${part}` : ALL);
        if (ms !== undefined) chosen.push({ test, ms });
      }
      return chosen.sort((a, b) => a.ms - b.ms).map(({ test }) => test);
    },
  };
}

/** Noted once for the whole test file. */
const ALL = 'all';

async function watchOne(root: string, test: string): Promise<Notes> {
  const folder = makeTempFolder('watches', { fast: true });
  const path = join(folder.path, 'notes');
  try {
    const startedAt = performance.now();
    if (!(await runTests(root, [test], { [NOTES]: path })))
      throw new Error(`${test} fails although no guard is taken out`);
    const text = readIfThere(path) ?? '';
    const notes = new Map([[ALL, performance.now() - startedAt]]);
    for (const [, guard = '', ms] of text.matchAll(/^(.+) (\S+)$/gm)) {
      if (!notes.has(guard)) notes.set(guard, Number(ms));
    }
    return notes;
  } finally {
    folder.remove();
  }
}

/** Notes each part without which the condition would not hold, and at last the whole. Plain JavaScript, at the end of a file. */
function noteOf(file: string): string {
  return `function noteGuard__(line, value, others) {
  if (!value || process.env.${NOTES} === undefined) return value;
  const holds = (other) => { try { return Boolean(other()); } catch { return false; } };
  const parts = typeof others === 'number' ? [...Array(others).keys()] : others.flatMap((other, part) => (holds(other) ? [] : [part]));
  const whole = typeof others === 'number' ? others : others.length;
  noteGuard__.seen ??= new Set();
  for (const part of [...parts, whole]) {
    const guard = \`${file} \${line} \${part}\`;
    if (noteGuard__.seen.has(guard)) continue;
    noteGuard__.seen.add(guard);
    process.getBuiltinModule('node:fs').appendFileSync(process.env.${NOTES}, \`\${guard} \${performance.now()}\\n\`);
  }
  return value;
}
`;
}
