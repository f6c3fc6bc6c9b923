/**
 * One connection to PostgreSQL. Statements sent in one turn travel together (pipelined) and are answered in order. When it
 * is lost, everything it was asked rejects and it is of no use any more: the pool opens another.
 */
import { readFileSync } from 'node:fs';
import { createConnection, isIP, type Socket } from 'node:net';
import postgres from 'postgres';
import type { PostgresAddress } from './address.ts';
import type { PostgresLimits } from './limits.ts';
import { type SqlResult, type SqlRow, type SqlValue, WIRE_TYPES } from './sql-values.ts';

/** Counted over all connections of a pool; the bench and tests read it. */
export interface TripCounter {
  /** waits for an answer; statements sent together are one */
  roundTrips: number;
}

const KEEP_ALIVE_MS = 30_000;

let connectionsOpened = 0;

export class PostgresConnection {
  readonly openedAt = performance.now();
  /** tells the connections of this process apart */
  readonly number = connectionsOpened++;
  readonly #sql: postgres.Sql;
  readonly #socket: Socket;
  readonly #limits: PostgresLimits;
  readonly #counter: TripCounter;
  readonly #pending = new Set<(error: Error) => void>();
  /** statements this connection has described to the server: the first use of one costs a round trip more */
  readonly #described = new Set<string>();
  #progressAt = 0;
  #lost: Error | undefined;
  #silenceMs: number;

  private constructor(sql: postgres.Sql, socket: Socket, limits: PostgresLimits, counter: TripCounter) {
    this.#sql = sql;
    this.#socket = socket;
    this.#limits = limits;
    this.#counter = counter;
    this.#silenceMs = limits.statementMs + limits.silenceMs;
  }

  /** Rejects with the driver's or system's own error. */
  static async open(
    address: PostgresAddress,
    limits: PostgresLimits,
    counter: TripCounter,
  ): Promise<PostgresConnection> {
    const socket = connect(address);
    const sql = postgres(driverOptions(address, limits, socket));
    const connection = new PostgresConnection(sql, socket, limits, counter);
    watchSocket(socket, (error) => connection.lose(error));
    const timer = setTimeout(() => connection.lose(connectTimedOut()), limits.connectMs);
    try {
      await connection.query(settingsOf(limits));
      return connection;
    } catch (error) {
      connection.lose(error instanceof Error ? error : new Error('no connection'));
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  get isUsable(): boolean {
    return this.#lost === undefined;
  }

  /** Without parameters the text may hold several statements; the rows are then those of the last. */
  query(text: string, parameters: readonly SqlValue[] = []): Promise<SqlResult> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost);
    this.#count(text, parameters.length > 0);
    return new Promise<SqlResult>((resolve, reject) => {
      this.#pending.add(reject);
      const settle = (): void => {
        this.#pending.delete(reject);
        this.#progressAt = performance.now();
      };
      this.#statement(text, parameters).then(
        (result) => {
          settle();
          resolve(toResult(result));
        },
        (error) => {
          settle();
          reject(error);
        },
      );
    });
  }

  /** Runs `work`, whose statements have no time limit but `patienceMs` in all: for migrations. */
  async withPatience<T>(patienceMs: number, work: () => Promise<T>): Promise<T> {
    this.#silenceMs = patienceMs + this.#limits.silenceMs;
    try {
      return await work();
    } finally {
      this.#silenceMs = this.#limits.statementMs + this.#limits.silenceMs;
    }
  }

  /** For the pool's watch: gives the connection up when an answer is owed and nothing has come for too long. */
  checkSilence(): void {
    if (this.#pending.size === 0 || performance.now() - this.#progressAt < this.#silenceMs) return;
    this.lose(Object.assign(new Error('the network or the server hangs'), { code: 'CONNECTION_CLOSED' }));
  }

  /** Ends it at once; what is pending rejects with `error`. */
  lose(error: Error): void {
    if (this.#lost !== undefined) return;
    this.#lost = error;
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const reject of pending) reject(error);
    this.#socket.destroy();
    // The driver only has to let go of what it holds; there is nobody left whom its complaints could reach.
    this.#sql.end({ timeout: 0 }).catch(() => undefined);
  }

  /** Ends it in order: the server is told. Call when nothing is pending. */
  async end(): Promise<void> {
    if (this.#lost !== undefined) return;
    this.#lost = Object.assign(new Error('the connection has ended'), { code: 'CONNECTION_ENDED' });
    await this.#sql.end({ timeout: 1 });
    this.#socket.destroy();
  }

  #statement(text: string, parameters: readonly SqlValue[]): PromiseLike<postgres.RowList<postgres.Row[]>> {
    const statement = this.#sql.unsafe(text, parameters as never[], { prepare: parameters.length > 0 });
    // The driver keeps something for ever for each such array that fails: one array per text, not one per call.
    return Object.assign(statement, { strings: stringsOf(text) });
  }

  #count(text: string, hasParameters: boolean): void {
    if (this.#pending.size === 0) {
      this.#counter.roundTrips += 1;
      this.#progressAt = performance.now();
    }
    if (hasParameters && !this.#described.has(text)) {
      this.#described.add(text);
      this.#counter.roundTrips += 1;
    }
  }
}

const stringsByText = new Map<string, readonly string[]>();

/** Texts are constants of statements.ts and migrations, so this stays small. */
function stringsOf(text: string): readonly string[] {
  const known = stringsByText.get(text);
  if (known !== undefined) return known;
  const strings = [text];
  stringsByText.set(text, strings);
  return strings;
}

/** Made here, so that it can be destroyed here. */
function connect({ host, port }: PostgresAddress): Socket {
  return createConnection({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
}

/** The driver takes all listeners off a socket it encrypts, and misses one that fails before it listens. */
function watchSocket(socket: Socket, onClosed: (error: Error) => void): void {
  let failure: Error | undefined;
  const listen = (): void => {
    socket.on('error', (error) => {
      failure ??= error;
    });
    socket.on('close', () => {
      onClosed(
        failure ?? Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' }),
      );
    });
  };
  const removeAllListeners = socket.removeAllListeners.bind(socket);
  socket.removeAllListeners = (event?: string) => {
    removeAllListeners(event);
    listen();
    return socket;
  };
  listen();
}

function driverOptions(
  address: PostgresAddress,
  limits: PostgresLimits,
  socket: Socket,
): postgres.Options<Record<string, never>> {
  const options = {
    host: address.host,
    port: address.port,
    database: address.database,
    username: address.user,
    password: address.password ?? '',
    ssl: tlsOptions(address),
    // One connection each: pooling, admission and the watch over hanging networks are ours.
    max: 1,
    socket: () => Object.assign(socket, { host: address.host }),
    connect_timeout: limits.connectMs / 1_000,
    idle_timeout: 0,
    max_lifetime: null,
    backoff: () => 0,
    fetch_types: false,
    no_subscribe: true,
    types: WIRE_TYPES,
    connection: { application_name: 'holdfast' },
    onnotice: () => undefined,
  };
  return options as unknown as postgres.Options<Record<string, never>>;
}

function tlsOptions({ tls, host, tlsRootFile }: PostgresAddress): unknown {
  if (tls === 'disable') return false;
  if (tls === 'prefer') return 'prefer';
  if (tls === 'require') return { rejectUnauthorized: false };
  const ca = tlsRootFile === undefined ? {} : { ca: readFileSync(tlsRootFile) };
  return { rejectUnauthorized: true, ...(isIP(host) === 0 ? { servername: host } : {}), ...ca };
}

/**
 * Set by a statement, since poolers refuse parameters of the start they do not know; those this server does not know are left
 * out. Every statement of this engine is a search by key, so one plan serves all values, and a plan made while a table was small
 * must not turn into a scan when it has grown.
 */
function settingsOf(limits: PostgresLimits): string {
  const settings = {
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    default_transaction_isolation: 'read committed',
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    jit: 'off',
  };
  const wanted = Object.entries(settings).map(([name, value]) => `('${name}', '${value}')`);
  return `SELECT set_config(wanted.name, wanted.value, false) FROM (VALUES ${wanted.join(', ')}) AS wanted (name, value)
    JOIN pg_settings USING (name)`;
}

function toResult(result: postgres.RowList<postgres.Row[]>): SqlResult {
  // Several statements in one text give one result each.
  const last = Array.isArray(result[0]) ? (result.at(-1) as unknown as typeof result) : result;
  return { rows: last as unknown as SqlRow[], count: last.count ?? 0, command: last.command };
}

const connectTimedOut = (): Error =>
  Object.assign(new Error('PostgreSQL did not answer in time'), { code: 'CONNECT_TIMEOUT' });
