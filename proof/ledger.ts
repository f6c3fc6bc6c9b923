/** The ledger of proof runs: a line of JSON a run, never rewritten. */
import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';

const LEDGER = join(import.meta.dir, 'ledger.jsonl');

interface ProofRun {
  readonly seed: number;
  /** by section */
  readonly sections: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly found: readonly string[];
}

export function appendLedger(run: ProofRun): void {
  const machine = `${cpus()[0]?.model ?? 'unknown'}, ${cpus().length} cores`;
  const line = { at: new Date().toISOString(), commit: readCommit(), machine, ...run };
  appendFileSync(LEDGER, `${JSON.stringify(line)}\n`);
}

/** With a mark where the files are not those of the commit. */
function readCommit(): string {
  const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim();
  const changed = git('status', '--porcelain', '--', '.', ':!proof/ledger.jsonl');
  return `${git('rev-parse', '--short=8', 'HEAD')}${changed === '' ? '' : '+'}`;
}
