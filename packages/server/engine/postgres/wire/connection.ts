/**
 * One connection to PostgreSQL. Statements sent in one turn are one flight: they travel together, are answered in order, and
 * after a failure the server skips the rest. A flight succeeds or fails as a whole when the server is ready for the next one,
 * because a statement outside a transaction is answered before it is committed. If the connection is lost, everything pending
 * rejects, and the pool opens another.
 */
import type { Socket } from 'node:net';
import { codeOf } from '../../../error-code.ts';
import type { PostgresAddress, PostgresHost } from '../../address.ts';
import { connectTimedOut, type HostFailure, isPooled, noHost, READ_ONLY, unanswered } from '../failure.ts';
import {
  type Asked,
  asError,
  ask,
  type Flight,
  type Prepared,
  PreparedStatements,
  settle,
  writeStatement,
} from './flight.ts';
import { Handshake } from './handshake.ts';
import type { PostgresLimits } from './limits.ts';
import { findPassword } from './pass-file.ts';
import { assertTakesWrites, type Guards, guardScript, READ_WRITABILITY, setUpSession } from './session.ts';
import type { SqlResult, SqlValue } from './wire-messages.ts';
import {
  type Column,
  type Message,
  MessageReader,
  MessageWriter,
  parseColumns,
  parseCompletion,
  parseFailure,
  parseRow,
  type ServerFailure,
} from './wire-messages.ts';
import { closed, endPointOfSocket, openSocket } from './wire-socket.ts';

/** Counted over all connections of a pool; the bench and tests read it. */
export interface TripCounter {
  /** waits for an answer; statements sent together are one */
  roundTrips: number;
}

type Caller = Pick<Asked, 'resolve' | 'reject'>;

/** After these failures the session is useless: its prepared statements have changed, or the server takes no writes. */
const STALE: Readonly<Record<string, string>> = {
  '0A000': 'the server has changed a statement',
  [READ_ONLY]: 'the server has become read-only',
};

/** The server's state when it is ready and in no transaction. */
const IDLE = 'I'.charCodeAt(0);

let connectionsOpened = 0;

export class PostgresConnection {
  readonly openedAt = performance.now();
  /** tells the connections of this process apart */
  readonly number = connectionsOpened++;
  readonly host: PostgresHost;
  readonly #limits: PostgresLimits;
  readonly #counter: TripCounter;
  readonly #handshake: Handshake;
  readonly #reader = new MessageReader();
  readonly #writer = new MessageWriter();
  readonly #statements = new PreparedStatements();
  readonly #flights: Flight[] = [];
  #gathered: Asked[] = [];
  #socket: Socket | undefined;
  #starting: { resolve(): void; reject(error: Error): void } | undefined;
  #lost: Error | undefined;
  #heardAt = 0;
  #silenceMs: number;
  #isPatient = false;
  #isInTransaction = false;
  /** of the session that was set up; undefined: it was not */
  #guards: Guards | undefined;
  /** what is gathered needs a guard, and has none yet */
  #isGuardDue = false;
  /** a statement has failed: perhaps another session could not even prepare it, or has other tables */
  #isDoubted = false;
  #plannedAt = this.openedAt;

  private constructor(
    host: PostgresHost,
    handshake: Handshake,
    limits: PostgresLimits,
    counter: TripCounter,
  ) {
    this.host = host;
    this.#limits = limits;
    this.#counter = counter;
    this.#handshake = handshake;
    this.#silenceMs = limits.statementMs + limits.silenceMs;
  }

  /**
   * Connects to the first host that takes writes, as libpq does with `target_session_attrs=read-write`. Rejects with the server's
   * or system's own error, or with what each host said. `isBare`: the session stays as it is, for one who only looks.
   */
  static async open(
    address: PostgresAddress,
    limits: PostgresLimits,
    counter: TripCounter,
    { isBare = false } = {},
  ): Promise<PostgresConnection> {
    const failures: HostFailure[] = [];
    for (const host of address.hosts) {
      try {
        const handshake = new Handshake(address, await findPassword(address, host).catch(asError));
        const connection = new PostgresConnection(host, handshake, limits, counter);
        await connection.#open(address, isBare);
        return connection;
      } catch (error) {
        failures.push({ host, error: asError(error) });
      }
    }
    throw noHost(failures);
  }

  async #open(address: PostgresAddress, isBare: boolean): Promise<void> {
    const timer = setTimeout(() => this.lose(connectTimedOut()), this.#limits.connectMs);
    try {
      const socket = await openSocket(this.host, address, (made) => this.#own(made));
      await this.#start(socket);
      if (isBare) assertTakesWrites(await this.script(READ_WRITABILITY));
      else this.#guards = await setUpSession((text) => this.query(text), this.#limits);
    } catch (error) {
      const reason = this.#lost ?? asError(error);
      this.lose(reason);
      throw reason;
    } finally {
      clearTimeout(timer);
    }
  }

  get isUsable(): boolean {
    return this.#lost === undefined;
  }

  /** Why it is not usable. */
  get lostBy(): Error | undefined {
    return this.#lost;
  }

  /** Whether the connection can be lent again: nothing is pending, and no transaction is open. */
  get isIdle(): boolean {
    return this.#flights.length === 0 && this.#gathered.length === 0 && !this.#isInTransaction;
  }

  /** One statement; `$1` … are the parameters. Prepared at its first use. */
  query(text: string, parameters: readonly SqlValue[] = []): Promise<SqlResult> {
    return this.#ask((caller) => {
      const statement = this.#statements.find(text, this.#guards);
      if (this.#gathered.length === 0) {
        queueMicrotask(() => this.#send());
        this.#isGuardDue = statement.guard !== 'none' && this.#wantedGuards !== undefined;
      }
      const { guard, isKnown } = statement;
      if (guard === 'before' || (guard === 'within' && (!isKnown || this.#isDoubted))) this.#gatherGuard();
      else if (guard === 'within') this.#isGuardDue = false;
      this.#gather(statement, parameters, caller);
    });
  }

  /** Ends the transaction, or else the connection: one in an unknown state goes nowhere near another request. */
  async rollback(): Promise<void> {
    if (this.#lost === undefined) await this.query('ROLLBACK').catch((error) => this.lose(asError(error)));
  }

  /** Several statements without parameters; the answer is the last one's. */
  script(text: string): Promise<SqlResult> {
    return this.#ask((caller) => {
      this.#send();
      const sent = guardScript(text, this.#wantedGuards);
      this.#flights.push({ asked: [ask(undefined, caller)], answered: 0, failure: undefined });
      this.#socket?.write(this.#writer.script(sent).take());
    });
  }

  /** Called before other work: makes the server plan its statements again if the plans are old. Costs no round trip. */
  renewPlans(): void {
    const now = performance.now();
    if (now - this.#plannedAt < this.#limits.plansMs) return;
    this.#plannedAt = now;
    // If the connection is lost, the next statement reports it.
    this.script('DISCARD PLANS').catch(() => undefined);
  }

  /** Runs `work`, whose statements have no time limit but `patienceMs` in all: for migrations. */
  async withPatience<T>(patienceMs: number, work: () => Promise<T>): Promise<T> {
    this.#silenceMs = patienceMs + this.#limits.silenceMs;
    this.#isPatient = true;
    try {
      return await work();
    } finally {
      this.#isPatient = false;
      this.#silenceMs = this.#limits.statementMs + this.#limits.silenceMs;
    }
  }

  /** For the pool's watch: gives the connection up if an answer is pending and nothing has arrived for too long. */
  checkSilence(): void {
    const silentMs = this.#silentNow;
    if (silentMs >= this.#silenceMs) this.lose(unanswered(silentMs));
  }

  /** How long an answer has been awaited while nothing arrived; 0: none is awaited, or it may take any time. */
  get silentMs(): number {
    return this.#isPatient ? 0 : this.#silentNow;
  }

  get #silentNow(): number {
    return this.#flights.length === 0 ? 0 : performance.now() - this.#heardAt;
  }

  /** Ends the connection at once; pending statements reject with `error`. */
  lose(error: Error): void {
    if (this.#lost !== undefined) return;
    this.#lost = error;
    const flights = this.#flights.splice(0);
    const gathered = this.#gathered.splice(0);
    this.#starting?.reject(error);
    for (const { asked, failure } of flights) for (const { reject } of asked) reject(failure ?? error);
    for (const { reject } of gathered) reject(error);
    this.#socket?.destroy();
  }

  /** Tells the server, then ends the connection. Call it when nothing is pending. */
  async end(): Promise<void> {
    const socket = this.#socket;
    if (this.#lost !== undefined || socket === undefined) return;
    this.#lost = Object.assign(new Error('the connection has ended'), { code: 'CONNECTION_ENDED' });
    // The server has a second to close the connection.
    const timer = setTimeout(() => socket.destroy(), 1_000);
    const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.end(this.#writer.terminate().take());
    await ended;
    clearTimeout(timer);
  }

  #ask(send: (caller: Caller) => void): Promise<SqlResult> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost);
    if (this.#flights.length === 0 && this.#gathered.length === 0) {
      this.#counter.roundTrips += 1;
      this.#heardAt = performance.now();
    }
    return new Promise((resolve, reject) => send({ resolve, reject }));
  }

  /** Undefined while the same session is certain, because a transaction is open. */
  get #wantedGuards(): Guards | undefined {
    return this.#isInTransaction && this.#flights.length === 0 ? undefined : this.#guards;
  }

  /** If it fails, the server skips the flight, and every statement of it rejects. */
  #gatherGuard(): void {
    if (!this.#isGuardDue || this.#guards === undefined) return;
    this.#isGuardDue = false;
    this.#isDoubted = false;
    this.#gather(this.#statements.find(this.#guards.leading, undefined), [], NOBODY);
  }

  #gather(statement: Prepared, parameters: readonly SqlValue[], caller: Caller): void {
    try {
      writeStatement(this.#writer, statement, parameters);
    } catch (error) {
      // The server would take the rest of a half-written message for something else.
      this.lose(asError(error));
      throw error;
    }
    this.#gathered.push(ask(statement, caller));
  }

  #send(): void {
    if (this.#gathered.length === 0 || this.#lost !== undefined) return;
    this.#gatherGuard();
    this.#flights.push({ asked: this.#gathered, answered: 0, failure: undefined });
    this.#gathered = [];
    this.#socket?.write(this.#writer.sync().take());
  }

  #own(socket: Socket): void {
    if (this.#lost !== undefined) socket.destroy();
    this.#socket = socket;
    let failure: Error | undefined;
    socket.on('error', (error) => {
      failure ??= error;
    });
    socket.on('close', () => {
      // The plain socket under TLS closes first, but the error of TLS says more.
      if (this.#socket === socket) this.lose(failure ?? closed('the connection was closed'));
    });
  }

  #start(socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) throw this.#lost;
      this.#starting = { resolve, reject };
      socket.on('data', (bytes) => this.#hear(bytes as Uint8Array));
      socket.write(this.#handshake.begin(endPointOfSocket(socket)));
    });
  }

  #hear(bytes: Uint8Array): void {
    this.#heardAt = performance.now();
    try {
      for (const message of this.#reader.read(bytes)) {
        if (this.#starting === undefined) this.#handle(message);
        else this.#handleStart(message, this.#starting);
      }
    } catch (error) {
      const failure = asError(error);
      this.lose(
        codeOf(error) === undefined ? Object.assign(failure, { code: 'CONNECTION_CLOSED' }) : failure,
      );
    }
  }

  #handleStart(message: Message, starting: { resolve(): void }): void {
    if (message.type === 'R') {
      const answer = this.#handshake.answer(message);
      if (answer !== undefined) this.#socket?.write(answer);
    } else if (message.type === 'E') {
      this.lose(parseFailure(message));
    } else if (message.type === 'Z') {
      this.#handshake.assertDone();
      this.#starting = undefined;
      starting.resolve();
    }
  }

  #handle(message: Message): void {
    const [flight] = this.#flights;
    const asked = flight?.asked[flight.answered];
    if (flight === undefined) {
      // No statement waits for this: the server says why it closes the connection.
      if (message.type === 'E') this.lose(parseFailure(message));
    } else if (message.type === 'Z') this.#land(flight, message);
    else if (message.type === 'E') this.#fail(flight, parseFailure(message));
    else if (asked !== undefined) this.#answer(flight, asked, message);
  }

  #answer(flight: Flight, asked: Asked, message: Message): void {
    const { type } = message;
    if (type === 'D') asked.rows.push(parseRow(message, asked.columns));
    else if (type === 'T') this.#describe(asked, parseColumns(message));
    else if (type === 'n') this.#describe(asked, []);
    else if (type === '2' && asked.statement !== undefined) asked.columns = asked.statement.columns;
    else if (type === 'C' || type === 'I') this.#complete(flight, asked, message);
  }

  #describe(asked: Asked, columns: readonly Column[]): void {
    asked.columns = columns;
    if (asked.statement === undefined) return;
    asked.statement.columns = columns;
    asked.statement.isKnown = true;
  }

  #complete(flight: Flight, asked: Asked, message: Message): void {
    const { command, count } = message.type === 'C' ? parseCompletion(message) : { command: '', count: 0 };
    asked.answer = { rows: asked.rows, command, count };
    if (asked.statement === undefined) {
      // In a script another statement may follow, and the last one gives the answer.
      asked.rows = [];
      return;
    }
    flight.answered += 1;
  }

  /** The first failure of a flight is the reason; the server skips the statements after it. */
  #fail(flight: Flight, failure: ServerFailure): void {
    flight.answered = flight.asked.length;
    flight.failure ??= failure;
    this.#isDoubted = true;
    this.#statements.forgetUnknown();
  }

  /** All statements of the flight are answered, and committed unless a transaction is open. */
  #land(flight: Flight, { bytes, start }: Message): void {
    this.#flights.shift();
    this.#isInTransaction = bytes[start] !== IDLE;
    settle(flight);
    const { failure } = flight;
    const stale = failure && STALE[failure.code];
    if (isPooled(failure)) this.lose(failure as ServerFailure);
    else if (stale !== undefined) this.lose(closed(stale));
  }
}

/** The caller of a guard: those of its flight hear of its failure. */
const NOBODY: Caller = { resolve: () => undefined, reject: () => undefined };
