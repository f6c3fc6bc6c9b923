/** The walk over all domains that forgets old commits. Only in memory: after a restart a round begins anew, and marks are kept. */
import type { Awaitable } from '../../core/awaitable.ts';
import {
  type CommitMark,
  isMarkWanted,
  lastForgettable,
  type MarkedDomain,
  roundMs,
} from '../../core/commit-records.ts';
import type { Maintained, SweepCutoffs } from '../../core/upkeep-ports.ts';

export interface DomainOfCommits<Key> extends MarkedDomain {
  readonly key: Key;
  /** the newest mark that is old enough */
  readonly due: CommitMark | undefined;
}

/** Rows that are damaged are left out. */
export interface CommitRecordRows<Key> {
  /** The next domains in order; `next` undefined: those were the last. */
  readDomains(
    after: Key | undefined,
    dueAt: number,
  ): Awaitable<{ readonly domains: readonly DomainOfCommits<Key>[]; readonly next: Key | undefined }>;
  noteMarks(marks: readonly { readonly key: Key; readonly mark: CommitMark }[]): Awaitable<void>;
  /** The request ids of the domain's next records, in order, that are of no later revision. */
  readRequests(
    key: Key,
    after: string | undefined,
    upTo: number,
  ): Awaitable<{ readonly requestIds: readonly string[]; readonly next: string | undefined }>;
  /** Deletes these records, and raises the floor of the domain's history to `upTo`. Resolves with how many there were. */
  forget(key: Key, requestIds: readonly string[], upTo: number): Awaitable<number>;
  /** Deletes the domain's marks of that instant and before. */
  deleteMarks(key: Key, markedAt: number): Awaitable<void>;
}

interface Due<Key> {
  readonly domain: DomainOfCommits<Key>;
  readonly mark: CommitMark;
  readonly after: string | undefined;
  /** how many records may go: one always stays */
  readonly room: number;
}

const NOTHING: Maintained = { moreToDo: false, forgottenCommits: 0 };

export class CommitRecordWalk<Key> {
  readonly #rows: CommitRecordRows<Key>;
  #after: Key | undefined;
  #due: readonly Due<Key>[] = [];
  #nextRoundAt = 0;

  constructor(rows: CommitRecordRows<Key>) {
    this.#rows = rows;
  }

  /** A page of domains, or of one domain's records. */
  async step({ now, commitRecordsKeptMs: keptMs }: SweepCutoffs): Promise<Maintained> {
    if (keptMs === undefined) return NOTHING;
    const [first, ...others] = this.#due;
    if (first !== undefined) {
      // One that fails has its turn again in the next round.
      this.#due = others;
      const { forgotten: forgottenCommits, rest } = await this.#forgetPage(first);
      if (rest !== undefined) this.#due = [rest, ...others];
      return { forgottenCommits, moreToDo: this.#isLeft };
    }
    const restMs = this.#nextRoundAt - now;
    // A clock that was set back does not put off a round.
    if (this.#after === undefined && restMs > 0 && restMs <= roundMs(keptMs)) return NOTHING;
    await this.#look(now, keptMs);
    return { forgottenCommits: 0, moreToDo: this.#isLeft };
  }

  get #isLeft(): boolean {
    return this.#due.length > 0 || this.#after !== undefined;
  }

  async #look(now: number, keptMs: number): Promise<void> {
    const { domains, next } = await this.#rows.readDomains(this.#after, now - keptMs);
    const wanted = domains.filter((domain) => isMarkWanted(domain, now, keptMs));
    if (wanted.length > 0) {
      const mark = ({ key, revision }: DomainOfCommits<Key>) => ({ key, mark: { markedAt: now, revision } });
      await this.#rows.noteMarks(wanted.map(mark));
    }
    this.#due = domains.flatMap((domain) => {
      const { due: mark, commitCount } = domain;
      return mark === undefined ? [] : [{ domain, mark, after: undefined, room: commitCount - 1 }];
    });
    this.#after = next;
    if (next === undefined) this.#nextRoundAt = now + roundMs(keptMs);
  }

  async #forgetPage(due: Due<Key>): Promise<{ readonly forgotten: number; readonly rest?: Due<Key> }> {
    const { domain, mark, after, room } = due;
    const upTo = lastForgettable(domain, mark);
    const { requestIds, next } = await this.#rows.readRequests(domain.key, after, upTo);
    const taken = requestIds.slice(0, Math.max(0, room));
    const forgotten = taken.length === 0 ? 0 : await this.#rows.forget(domain.key, taken, upTo);
    if (next !== undefined) return { forgotten, rest: { ...due, after: next, room: room - forgotten } };
    await this.#rows.deleteMarks(domain.key, mark.markedAt);
    return { forgotten };
  }
}
