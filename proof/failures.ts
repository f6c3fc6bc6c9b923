/** Each fault that was ever found: what leads to it again, and the commit that mended it. The tests of its section begin with it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Failure {
  readonly section: string;
  /** by which the section makes it again: the scenario, the damage, or the schedule */
  readonly again: string;
  readonly seed?: number;
  readonly what: string;
  readonly mendedBy: string;
}

export function readFailures(section: string): readonly Failure[] {
  const lines = readFileSync(join(import.meta.dir, 'failures.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => JSON.parse(line) as Failure).filter((failure) => failure.section === section);
}
