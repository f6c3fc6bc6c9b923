/** Every limit of the PostgreSQL engine, in one place. Tests shorten the times. */

export interface PostgresLimits {
  /** ms until a connection must be open */
  readonly connectMs: number;
  /** ms one statement may run; the server ends it */
  readonly statementMs: number;
  /** ms one statement may wait for a lock; the transaction is then tried again */
  readonly lockMs: number;
  /** ms the server keeps a transaction and its locks while the process sends nothing: between one and two `lockMs` */
  readonly idleInTransactionMs: number;
  /** ms without any answer, beyond `statementMs`, after which the connection is given up: the network hangs */
  readonly silenceMs: number;
  /** ms without any answer after which the server is asked, on a connection of its own, whether it still answers anybody */
  readonly doubtMs: number;
  /** ms it has for that */
  readonly proofMs: number;
  /** ms a request may wait for a connection, or the renewal of a lease for the statement before it */
  readonly admissionMs: number;
  /** requests that may wait for a connection; further ones are refused at once */
  readonly waitingMax: number;
  /** ms after which a session plans its statements again: a plan for a small table reads too much of a large one */
  readonly plansMs: number;
  /** ms after which a connection is replaced, so that a moved or reloaded server is noticed */
  readonly lifetimeMs: number;
  /** ms a connection may be without work */
  readonly idleMs: number;
}

export const POSTGRES_LIMITS: PostgresLimits = {
  connectMs: 5_000,
  statementMs: 10_000,
  lockMs: 4_000,
  idleInTransactionMs: 6_000,
  silenceMs: 3_000,
  // With a check every half second, a request to a server that hangs fails within 5 s.
  doubtMs: 2_000,
  proofMs: 2_500,
  admissionMs: 3_000,
  waitingMax: 2_048,
  plansMs: 2_000,
  lifetimeMs: 30 * 60_000,
  idleMs: 5 * 60_000,
};
