/** Checks the model of rows and bytes with Spin: as it is nothing may be wrong, and with a rule left out something must be. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { runEngineCommand } from '../../test/support/engine-process.ts';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';

const MODEL = join(import.meta.dir, 'protocol.pml');
const COMPILER_FLAGS = ['-O2', '-DSAFETY', '-DCOLLAPSE', '-DVECTORSZ=2048'];
const CHECKER_FLAGS = ['-m20000', '-w20', '-n'];

/** Processes beside the client and its PUTs, as the bits of OTHERS in the model. */
type Others = number;

interface Checked {
  readonly states: number;
  readonly isViolated: boolean;
}

export interface Checker {
  check(others: Others, mutant: number): Promise<Checked>;
  remove(): void;
}

/** Compiles the model. */
export async function openChecker(): Promise<Checker> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'install-spin.mjs')]);
  const folder = makeTempFolder('protocol');
  try {
    const options = { cwd: folder.path, stdio: 'pipe' } as const;
    execFileSync('spin', ['-a', MODEL], options);
    execFileSync('gcc', [...COMPILER_FLAGS, '-o', 'pan', 'pan.c'], options);
  } catch (error) {
    folder.remove();
    throw error;
  }
  return {
    async check(others, mutant) {
      const child = Bun.spawn([join(folder.path, 'pan'), ...CHECKER_FLAGS], {
        ...{ cwd: folder.path, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
        env: { ...process.env, MUTANT: String(mutant), OTHERS: String(others) },
      });
      const said = await new Response(child.stdout).text();
      await child.exited;
      const states = Number(/^\s*([\d.e+]+) states, stored/m.exec(said)?.[1]);
      const isComplete = said.includes('errors: 0') && !said.includes('max search depth too small');
      const isViolated = said.includes('assertion violated (') || /assertion violated \S/.test(said);
      if (!Number.isFinite(states) || isComplete === isViolated)
        throw new Error(`the model cannot be checked: ${said}`);
      return { states, isViolated };
    },
    remove: () => folder.remove(),
  };
}
