/**
 * The connections of one process: at most `connectionsMax`, each lent to one piece of work at a time. Further work waits, for a bounded
 * time and in bounded number; beyond that it is refused. Connections are shared out among Apps and Spaces. So a slow store sheds load
 * instead of gathering it.
 */
import type { Space } from '../../../core/model.ts';
import { isDamage, StoreUnavailable } from '../../../core/store-failure.ts';
import { ENGINE_UP, METRICS, POOL_CONNECTIONS, SQL_DURATION } from '../../../metrics/server-metrics.ts';
import { FairPlaces } from '../../../shares/fair-places.ts';
import type { PostgresAddress, PostgresHost } from '../../address.ts';
import { locateDamage } from '../damage.ts';
import { isLostAlone, isPooled, isTimeout, storageError, unanswered } from '../failure.ts';
import { PostgresConnection, type TripCounter } from './connection.ts';
import type { PostgresLimits } from './limits.ts';
import { assertOwnSessions } from './own-sessions.ts';
import type { SqlResult, SqlValue } from './wire-messages.ts';

/** ms between looks whether a pooler in transaction mode is still in between */
const POOLED_LOOK_MS = 5_000;

/** Work that is no Space's, such as that of the background. */
const OWN_WORK: Space = { appId: '', spaceId: '' };

/** All that are open in this process: metrics are their sum. */
const POOLS = new Set<PostgresPool>();

const SQL_SECONDS = SQL_DURATION.with({ engine: 'postgres' });

export class PostgresPool {
  readonly counter: TripCounter = { roundTrips: 0 };
  readonly connectionsMax: number;
  readonly #address: PostgresAddress;
  readonly #limits: PostgresLimits;
  /** The one used last is lent first, since its caches are warm. Those that are not needed are ended when they are old. */
  readonly #idle: { readonly connection: PostgresConnection; readonly since: number }[] = [];
  readonly #lent = new Set<PostgresConnection>();
  readonly #places: FairPlaces;
  readonly #watch: ReturnType<typeof setInterval>;
  readonly #stopCounting: () => void;
  #isProving = false;
  /** when a proof last ended with an answer */
  #provenAt = Number.NEGATIVE_INFINITY;
  /** why the last attempt to connect failed; undefined: it did not */
  #unreachable: Error | undefined;
  /** a pooler in transaction mode was seen: no work is let in until a look finds none */
  #pooled: { readonly error: Error; lookAt: number } | undefined;
  #isClosing = false;
  #whenEmpty: (() => void) | undefined;

  constructor(address: PostgresAddress, limits: PostgresLimits) {
    this.#address = address;
    this.#limits = {
      ...limits,
      ...(address.connectMs === undefined ? {} : { connectMs: address.connectMs }),
    };
    this.connectionsMax = address.connectionsMax;
    this.#places = new FairPlaces({
      resource: 'connections',
      placesMax: address.connectionsMax,
      waitingMax: limits.waitingMax,
      waitMsMax: limits.admissionMs,
      inVain: () => this.#exhausted(),
    });
    this.#watch = setInterval(() => this.#look(), Math.min(500, limits.silenceMs));
    this.#watch.unref();
    this.#stopCounting = METRICS.readBefore(countAll);
    POOLS.add(this);
  }

  /** Another pool on the same database, for work with limits of its own. The caller closes it. */
  openAlike({ connectionsMax, limits }: { connectionsMax: number; limits: Partial<PostgresLimits> }) {
    return new PostgresPool({ ...this.#address, connectionsMax }, { ...this.#limits, ...limits });
  }

  /** what the server calls the sessions */
  get applicationName(): string {
    return this.#address.applicationName;
  }

  /** ms work may wait for its turn */
  get admissionMs(): number {
    return this.#limits.admissionMs;
  }

  /** ms one statement may take */
  get statementMs(): number {
    return this.#limits.statementMs;
  }

  /**
   * Lends a connection to `work` alone, of the share of `space`. Work that fails in the middle of a transaction must end it, or `lose` the
   * connection. Rejects with StoreUnavailable if there is no connection; an error of `work` comes back unchanged.
   */
  async lend<T>(
    work: (connection: PostgresConnection) => Promise<T>,
    { appId, spaceId }: Space = OWN_WORK,
  ): Promise<T> {
    if (this.#isClosing) throw closing();
    const place = this.#places.take(appId, spaceId);
    if (place !== undefined) await place;
    let connection: PostgresConnection | undefined;
    const startedAt = performance.now();
    try {
      if (this.#pooled !== undefined) await this.#lookForPooler(this.#pooled);
      connection = this.#takeIdle() ?? (await this.#open());
      connection.renewPlans();
      return await work(connection);
    } finally {
      SQL_SECONDS.observe((performance.now() - startedAt) / 1000);
      if (connection !== undefined) this.#giveBack(connection);
      this.#places.leave(appId, spaceId);
      if (this.#places.taken === 0) this.#whenEmpty?.();
    }
  }

  /** One statement by itself. Rejects with StoreUnavailable or InvariantViolation. */
  async run(doing: string, text: string, parameters: readonly SqlValue[], space?: Space): Promise<SqlResult> {
    try {
      return await this.lend((connection) => connection.query(text, parameters), space);
    } catch (error) {
      return await this.#explain(error, doing);
    }
  }

  /** Runs a statement that changes nothing or may run twice: if the connection is lost, once more on another one. */
  async read(
    doing: string,
    text: string,
    parameters: readonly SqlValue[],
    space?: Space,
  ): Promise<SqlResult> {
    try {
      return await this.lend((connection) => connection.query(text, parameters), space);
    } catch (error) {
      if (!isLostAlone(error) || this.#isClosing) return await this.#explain(error, doing);
    }
    return this.run(doing, text, parameters, space);
  }

  /** If `work` fails by damage, asks PostgreSQL what is damaged. The error then names it. */
  async locating<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (!isDamage(error)) throw error;
      throw await this.lend((connection) => locateDamage(connection, error)).catch(() => error);
    }
  }

  /** The error for callers. */
  #explain(error: unknown, doing: string): Promise<never> {
    return this.locating(Promise.reject(storageError(error, doing)));
  }

  /** Refuses new work, waits for work under way, then closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#places.refuseAll(closing());
    if (this.#places.taken > 0) {
      const timer = setTimeout(() => this.#abandon(), 10_000);
      await new Promise<void>((resolve) => {
        this.#whenEmpty = resolve;
      });
      clearTimeout(timer);
    }
    clearInterval(this.#watch);
    this.#stopCounting();
    POOLS.delete(this);
    await Promise.all(this.#idle.splice(0).map(({ connection }) => connection.end()));
  }

  #takeIdle(): PostgresConnection | undefined {
    for (let entry = this.#idle.pop(); entry !== undefined; entry = this.#idle.pop()) {
      if (!entry.connection.isUsable) continue;
      this.#lent.add(entry.connection);
      return entry.connection;
    }
    return undefined;
  }

  /** Rejects with StoreUnavailable while a pooler gives connections the sessions of others, and until that is known. */
  async assertOwnSessions(): Promise<void> {
    try {
      await assertOwnSessions(this.#address, this.#limits);
    } catch (error) {
      throw storageError(error, 'opening a session');
    }
  }

  async #lookForPooler(pooled: { readonly error: Error; lookAt: number }): Promise<void> {
    if (now() < pooled.lookAt) throw pooled.error;
    pooled.lookAt = now() + POOLED_LOOK_MS;
    await this.assertOwnSessions();
    this.#pooled = undefined;
  }

  async #open(): Promise<PostgresConnection> {
    try {
      const connection = await PostgresConnection.open(this.#address, this.#limits, this.counter);
      this.#lent.add(connection);
      this.#unreachable = undefined;
      ENGINE_UP.set({ engine: 'postgres' }, 1);
      return connection;
    } catch (error) {
      ENGINE_UP.set({ engine: 'postgres' }, 0);
      this.#unreachable = storageError(error, 'connecting');
      throw this.#unreachable;
    }
  }

  #giveBack(connection: PostgresConnection): void {
    this.#lent.delete(connection);
    if (isPooled(connection.lostBy)) {
      ENGINE_UP.set({ engine: 'postgres' }, 0);
      const error = storageError(connection.lostBy, 'looking at the session');
      this.#pooled ??= { error, lookAt: now() + POOLED_LOOK_MS };
    }
    if (!connection.isUsable) {
      // A restart, a failover or a dead network has most likely ended the resting connections too, though it does not show yet.
      for (const { connection: resting } of this.#idle.splice(0)) resting.lose(othersLost());
      return;
    }
    if (!connection.isIdle) {
      connection.lose(leftOpen());
      return;
    }
    const since = now();
    if (since - connection.openedAt > this.#limits.lifetimeMs) connection.end().catch(() => undefined);
    else this.#idle.push({ connection, since });
  }

  count(): Readonly<Record<'lent' | 'idle' | 'max' | 'waiting', number>> {
    return {
      lent: this.#lent.size,
      idle: this.#idle.length,
      max: this.connectionsMax,
      waiting: this.#places.waiting,
    };
  }

  #look(): void {
    for (const connection of this.#lent) connection.checkSilence();
    const silent = this.#longestSilent();
    const { doubtMs } = this.#limits;
    const isDoubted = silent !== undefined && silent.silentMs >= doubtMs && now() - this.#provenAt >= doubtMs;
    if (isDoubted) void this.#prove(silent.host);
    const lookedAt = now();
    const kept = this.#idle.filter(({ connection, since }) => {
      if (!connection.isUsable) return false;
      if (lookedAt - since < this.#limits.idleMs) return true;
      connection.end().catch(() => undefined);
      return false;
    });
    this.#idle.splice(0, this.#idle.length, ...kept);
  }

  #longestSilent(): PostgresConnection | undefined {
    let longest: PostgresConnection | undefined;
    for (const connection of this.#lent) {
      if (connection.silentMs > (longest?.silentMs ?? 0)) longest = connection;
    }
    return longest;
  }

  /**
   * A slow statement is silent, and so is every statement of a server that hangs. A connection of its own tells which it is: if that
   * gets no answer either, the wait ends.
   */
  async #prove(host: PostgresHost): Promise<void> {
    if (this.#isProving) return;
    this.#isProving = true;
    const startedAt = now();
    try {
      const limits = { ...this.#limits, connectMs: this.#limits.proofMs };
      const proof = await PostgresConnection.open({ ...this.#address, hosts: [host] }, limits, this.counter);
      this.#provenAt = now();
      await proof.end();
    } catch (error) {
      // Any other failure is an answer.
      if (isTimeout(error)) this.#giveUp(host, now() - startedAt);
      else this.#provenAt = now();
    } finally {
      this.#isProving = false;
    }
  }

  #giveUp(host: PostgresHost, silentMs: number): void {
    ENGINE_UP.set({ engine: 'postgres' }, 0);
    if (this.#address.hosts.length === 1)
      this.#places.refuseAll(storageError(unanswered(silentMs), 'waiting'));
    for (const connection of this.#lent) {
      if (connection.host === host && connection.silentMs >= silentMs)
        connection.lose(unanswered(connection.silentMs));
    }
  }

  /** More connections help only if those that are lent are answered. */
  #exhausted(): Error {
    if (this.#unreachable !== undefined) return this.#unreachable;
    const { silentMs = 0 } = this.#longestSilent() ?? {};
    return silentMs < this.#limits.doubtMs ? exhausted() : slow();
  }

  #abandon(): void {
    for (const connection of this.#lent) connection.lose(closing());
  }
}

const now = (): number => performance.now();
const leftOpen = (): Error => new Error('a connection came back in the middle of its work');
const othersLost = (): Error => new Error('another connection to the server was lost');
const closing = (): StoreUnavailable => new StoreUnavailable('the store is closing: try again');
const slow = (): StoreUnavailable =>
  new StoreUnavailable(
    'PostgreSQL is slow or hangs: no connection is free, and some have waited for its answer for seconds: check its load, its disk and the network',
  );
const exhausted = (): StoreUnavailable =>
  new StoreUnavailable('every connection to PostgreSQL is in use: try again, or allow each process more');

function countAll(): void {
  for (const state of ['lent', 'idle', 'max', 'waiting'] as const) {
    let sum = 0;
    for (const pool of POOLS) sum += pool.count()[state];
    POOL_CONNECTIONS.set({ state }, sum);
  }
}
