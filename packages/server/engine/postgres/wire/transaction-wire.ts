/** Sends one transaction: BEGIN with the first reads, writes with COMMIT. Statements sent in one turn cost one round trip. */

import { isLost, storageError } from '../failure.ts';
import { SQL } from '../statements.ts';
import type { PostgresConnection } from './connection.ts';
import type { SqlResult, SqlValue } from './wire-messages.ts';

export type Statement = readonly [name: keyof typeof SQL, parameters: readonly SqlValue[]];

/** The body has to run again from its start, on newly read rows. Nothing was wrong, and nothing has changed. */
export class RunAgain extends Error {
  override readonly name = 'RunAgain';
}

/** The body asked for the time before anything was read. */
export class NowUnknown extends RunAgain {}

export class TransactionWire {
  /** slot of the counters: transactions of different connections seldom use the same */
  readonly slot: number;
  readonly #connection: PostgresConnection;
  /** the time of a test's clock; null: the database's clock is asked */
  readonly #clock: number | null;
  #now: number | undefined;
  #begun: Promise<void> | undefined;
  #failure: unknown;
  #hasEnded = false;

  constructor(connection: PostgresConnection, slot: number, clock: number | null) {
    this.#connection = connection;
    this.slot = slot;
    this.#clock = clock;
    this.#now = clock ?? undefined;
  }

  get connectionNumber(): number {
    return this.#connection.number;
  }

  /** ms; undefined before the first answer */
  get now(): number | undefined {
    return this.#now;
  }

  /** for statements that compare with now: the database uses the same instant, even before it is known here */
  get clock(): number | null {
    return this.#clock;
  }

  /** The first failure. It fails the transaction, even if the body caught it. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Sends BEGIN alone, so that `now` is known before anything is read. */
  async begin(): Promise<void> {
    this.#begun ??= this.#begin();
    await this.#begun;
    if (this.#failure instanceof NowUnknown) this.#failure = undefined;
  }

  fail(failure: unknown): void {
    this.#failure ??= failure;
  }

  /** Fails the transaction so that its body runs again from the start. */
  runAgain(why: string): never {
    const again = new RunAgain(why);
    this.fail(again);
    throw again;
  }

  /** Sends at once. Rejects when the statement fails, which fails the transaction. */
  async send(...[name, parameters]: Statement): Promise<SqlResult> {
    this.assertUsable();
    if (this.#failure !== undefined) throw this.#failure;
    this.#begun ??= this.#begin();
    const answer = this.#query(name, parameters);
    // Both are awaited, so that a failure of either is noted before the body continues.
    const [result] = await Promise.all([answer, this.#begun]);
    return result;
  }

  /** @throws when a body uses its transaction after the end */
  assertUsable(): void {
    if (this.#hasEnded) throw new Error('this transaction has ended');
  }

  /** Writes and commits in one trip. Rejects with the failure; a connection lost on the way leaves the outcome open. */
  async commit(writes: readonly Statement[]): Promise<void> {
    this.#hasEnded = true;
    const wasUsable = this.#connection.isUsable;
    this.#begun ??= this.#begin();
    const answers = writes.map(([name, parameters]) => this.#query(name, parameters));
    const committed = this.#query('commit', []);
    await Promise.allSettled([this.#begun, ...answers, committed]);
    if (this.#failure === undefined) {
      // The server answers COMMIT with ROLLBACK if a statement has failed; that failure is thrown below.
      const { command } = await committed;
      if (command === 'COMMIT') return;
      throw storageError(new Error(`COMMIT was answered with ${command}`), 'committing');
    }
    if (isLost(this.#failure) && wasUsable) {
      throw storageError(
        this.#failure,
        'committing, with an outcome nobody knows: repeat the request; the commit',
        { isUndecided: true },
      );
    }
    await this.rollback();
    throw this.#failure;
  }

  async rollback(): Promise<void> {
    this.#hasEnded = true;
    if (this.#begun !== undefined) await this.#connection.rollback();
  }

  async #begin(): Promise<void> {
    const begun = this.#query('begin', []);
    const clock = this.#clock === null ? this.#query('readNow', [null]) : undefined;
    await begun;
    const answer = await clock;
    if (answer !== undefined) this.#now = answer.rows[0]?.now as number;
  }

  #query(name: keyof typeof SQL, parameters: readonly SqlValue[]): Promise<SqlResult> {
    const answer = this.#connection.query(SQL[name], parameters);
    // A caller that awaits `answer` gets the error too. Without a caller this prevents an unhandled rejection.
    answer.catch((error) => this.fail(error));
    return answer;
  }
}
