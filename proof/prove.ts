/** One run of the proof: each section works until its share of the budget is used. */
import { parseDuration } from '../packages/protocol/duration.ts';
import { findDescendants } from '../test/support/server-process.ts';
import type { Section, SectionResult } from './section.ts';

const BUDGET_DEFAULT = '20m';
/** No piece of a section takes nearly as long. */
const PIECE_MS_MAX = 600_000;
/** One fault is often met again and again. */
const FOUND_MAX = 20;

export interface ProofOptions {
  readonly budgetMs: number;
  readonly seed: number;
  readonly only: string | undefined;
  readonly isNoted: boolean;
}

export interface ProofResult {
  /** by section */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly found: readonly string[];
}

/** undefined: help is asked for. Throws Error for wrong usage. */
export function parseProofOptions(
  words: readonly string[],
  sections: readonly Section[],
): ProofOptions | undefined {
  const given = new Map<string, string>();
  let isNoted = false;
  for (let index = 0; index < words.length; index += 1) {
    const flag = words[index] as string;
    if (flag === '--help') return undefined;
    if (flag === '--ledger') {
      isNoted = true;
      continue;
    }
    if (!['--budget', '--only', '--seed'].includes(flag)) throw new Error(`there is no option ${flag}`);
    index += 1;
    const value = words[index];
    if (value === undefined) throw new Error(`${flag} needs a value`);
    given.set(flag, value);
  }
  const seed = Number(given.get('--seed') ?? Date.now() % 2 ** 31);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed takes a whole number from 0 on');
  const only = given.get('--only');
  if (only !== undefined && !sections.some(({ name }) => name === only))
    throw new Error(`there is no section ${only}`);
  return { budgetMs: parseDuration(given.get('--budget') ?? BUDGET_DEFAULT), seed, only, isNoted };
}

/** What a section leaves of its share is for those after it. */
export async function prove(
  sections: readonly Section[],
  { budgetMs, seed }: Pick<ProofOptions, 'budgetMs' | 'seed'>,
  say: (line: string) => void,
  pieceMsMax = PIECE_MS_MAX,
): Promise<ProofResult> {
  const counts: Record<string, Readonly<Record<string, number>>> = {};
  const found: string[] = [];
  const endsAt = performance.now() + budgetMs;
  for (const [index, section] of sections.entries()) {
    const startedAt = performance.now();
    const shareMs = Math.max(0, endsAt - startedAt) / (sections.length - index);
    const result = await runSection(section, seed, shareMs, pieceMsMax);
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    counts[section.name] = { ...result.counts, seconds };
    const counted = Object.entries(result.counts).map(([what, count]) => `${count} ${what}`);
    say(`${section.name}: ${counted.join(', ')}; ${result.found.length} found; seed ${seed}, ${seconds} s`);
    const faults = result.found.slice(0, FOUND_MAX).map((fault) => `${section.name}: ${fault}`);
    for (const fault of faults) say(`  ${fault}`);
    if (result.found.length > 0)
      say(`  again: npm run proof -- --only ${section.name} --seed ${seed} --budget ${seconds}s`);
    found.push(...faults);
  }
  return { counts, found };
}

/** The first piece is always done. A section that fails, or does not end, is a fault like any other. */
async function runSection(
  { run }: Section,
  seed: number,
  shareMs: number,
  pieceMsMax: number,
): Promise<SectionResult> {
  const untilMs = performance.now() + shareMs;
  let isBegun = false;
  const isOver = (): boolean => {
    const isLast = isBegun && performance.now() >= untilMs;
    isBegun = true;
    return isLast;
  };
  const { promise: hangs, resolve } = Promise.withResolvers<SectionResult>();
  const timer = setTimeout(() => {
    for (const pid of findDescendants(process.pid)) endProcess(pid);
    resolve({ counts: {}, found: ['a piece does not end'] });
  }, shareMs + pieceMsMax);
  try {
    return await Promise.race([run({ seed, isOver }), hangs]);
  } catch (error) {
    return { counts: {}, found: [error instanceof Error ? (error.stack ?? error.message) : String(error)] };
  } finally {
    clearTimeout(timer);
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}
