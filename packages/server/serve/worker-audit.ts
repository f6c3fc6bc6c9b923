/** The newest lines of the audit log, of all workers: each keeps its own in memory. */
import type { Subprocess } from 'bun';
import type { AuditLine } from '../audit/audit-event.ts';
import { WorkerAnswers } from './worker-answers.ts';

export class WorkerAudit {
  readonly #answers = new WorkerAnswers<readonly AuditLine[]>();
  /** one reading after another */
  #last: Promise<unknown> = Promise.resolve();

  note(worker: Subprocess, lines: readonly AuditLine[]): void {
    this.#answers.note(worker, lines);
  }

  remove(worker: Subprocess): void {
    this.#answers.drop(worker);
  }

  /** The newest first. */
  read(workers: () => Iterable<Subprocess>, limit: number): Promise<readonly AuditLine[]> {
    const reading = this.#last.then(() => this.#answers.ask(workers(), { kind: 'read-audit', limit }));
    this.#last = reading;
    return reading.then((answers) => mergeLines(answers, limit));
  }
}

/** Each list has the newest first. */
function mergeLines(lists: readonly (readonly AuditLine[])[], limit: number): readonly AuditLine[] {
  return lists
    .flat()
    .toSorted((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    .slice(0, limit);
}
