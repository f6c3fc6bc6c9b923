/** The ledger of proof runs: a line of JSON a section and run, never rewritten. */
import { appendFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';

const LEDGER = join(import.meta.dir, 'ledger.jsonl');

export interface LedgerLine {
  /** RFC 3339 */
  readonly at: string;
  readonly commit: string;
  readonly section: string;
  readonly seed: number;
  readonly seconds: number;
  readonly counts: Readonly<Record<string, number>>;
  /** how each fault is met again */
  readonly found: readonly string[];
}

export function appendLedger(line: LedgerLine): void {
  const machine = `${cpus()[0]?.model ?? 'unknown'}, ${cpus().length} cores`;
  appendFileSync(LEDGER, `${JSON.stringify({ ...line, machine })}\n`);
}
