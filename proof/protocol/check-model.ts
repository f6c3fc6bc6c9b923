/** Checks the models of rows and bytes with Spin: as it is nothing may be wrong, and with a rule left out something must be. */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { runEngineCommand } from '../../test/support/engine-process.ts';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import type { Model, Scope } from './scopes.ts';

const MODELS: readonly Model[] = ['protocol', 'tree'];
/** The largest scope takes a third of so many MB. */
const COMPILER_FLAGS = ['-O2', '-DSAFETY', '-DCOLLAPSE', '-DVECTORSZ=2048', '-DMEMLIM=12000'];
const NO_MEMORY = 'reached -DMEMLIM bound';
const INCOMPLETE = ['max search depth too small', 'Search not completed'];
const CHECKER_FLAGS = ['-m20000', '-n'];
/** the table of states: a mutant ends long before it needs a large one */
const [TABLE, TABLE_OF_MUTANTS] = ['-w24', '-w20'];
const LOOK_MS = 500;

interface Checked {
  readonly states: number;
  readonly isViolated: boolean;
}

export interface Checker {
  /** Resolves undefined when time, as `isOver` says, or memory was over before all was looked at. */
  check(scope: Scope, mutant: number, isOver?: () => boolean): Promise<Checked | undefined>;
  remove(): void;
}

/** Compiles the models. */
export async function openChecker(): Promise<Checker> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'spin']);
  const folder = makeTempFolder('protocol');
  try {
    for (const model of MODELS) {
      const cwd = join(folder.path, model);
      mkdirSync(cwd);
      execFileSync('spin', ['-a', join(import.meta.dir, `${model}.pml`)], { cwd, stdio: 'pipe' });
      execFileSync('gcc', [...COMPILER_FLAGS, '-o', 'pan', 'pan.c'], { cwd, stdio: 'pipe' });
    }
  } catch (error) {
    folder.remove();
    throw error;
  }
  return {
    async check({ model, others }, mutant, isOver = () => false) {
      const cwd = join(folder.path, model);
      const child = Bun.spawn([join(cwd, 'pan'), ...CHECKER_FLAGS, mutant === 0 ? TABLE : TABLE_OF_MUTANTS], {
        ...{ cwd, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
        env: { ...process.env, MUTANT: String(mutant), OTHERS: String(others) },
      });
      let isLeft = false;
      const timer = setInterval(() => {
        isLeft = isOver();
        if (isLeft) child.kill('SIGKILL');
      }, LOOK_MS);
      const said = await new Response(child.stdout).text();
      await child.exited;
      clearInterval(timer);
      if (isLeft || said.includes(NO_MEMORY)) return undefined;
      const states = Number(/^\s*([\d.e+]+) states, stored/m.exec(said)?.[1]);
      const isComplete = said.includes('errors: 0') && !INCOMPLETE.some((each) => said.includes(each));
      const isViolated = said.includes('assertion violated (') || /assertion violated \S/.test(said);
      if (!Number.isFinite(states) || isComplete === isViolated)
        throw new Error(`the model cannot be checked: ${said}`);
      return { states, isViolated };
    },
    remove: () => folder.remove(),
  };
}
