/** Which guards the type checker would miss: each mutant is checked beside the sources, all in one run. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../test/support/server-process.ts';
import type { Guard } from './guards.ts';

const CONFIG = 'mutants.json';
/** A name that is no longer used is no fault. */
const COMPILER_OPTIONS = { noUnusedLocals: false, noUnusedParameters: false };
const MUTANT_ERROR = /\.mutant-(\d+)\.ts\(/g;

/** Their ids. `root`: a copy of the sources. */
export async function findTypeErrors(root: string, guards: readonly Guard[]): Promise<ReadonlySet<string>> {
  const files = guards.map(({ file }, index) => file.replace(/\.ts$/, `.mutant-${index}.ts`));
  try {
    for (const [index, file] of files.entries())
      writeFileSync(join(root, file), (guards[index] as Guard).mutant);
    const config = { extends: './tsconfig.json', include: [], files, compilerOptions: COMPILER_OPTIONS };
    writeFileSync(join(root, CONFIG), JSON.stringify(config));
    const command = [join(ROOT, 'node_modules/.bin/tsc'), '--project', CONFIG, '--pretty', 'false'];
    const child = Bun.spawn(command, { cwd: root, stdin: 'ignore', stderr: 'ignore' });
    const errors = await new Response(child.stdout).text();
    return new Set(
      [...errors.matchAll(MUTANT_ERROR)].map(([, index]) => (guards[Number(index)] as Guard).id),
    );
  } finally {
    for (const file of files) rmSync(join(root, file), { force: true });
  }
}
