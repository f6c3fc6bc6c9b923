/** Runs bodies as transactions, again where other transactions were in the way, and gives up in bounded time. */
import type { Space, SpaceKey } from '../../../core/model.ts';
import { type Awaitable, type SpaceTransaction, StoreUnavailable } from '../../../core/ports.ts';
import { spaceKeyOf } from '../../../core/space-key.ts';
import type { PostgresConnection } from './connection.ts';
import type { PostgresPool } from './connection-pool.ts';
import { isLost, isRepeatable, storageError } from './failure.ts';
import { PostgresSpaceTransaction } from './space-transaction.ts';
import { NowUnknown, RunAgain, TransactionWire } from './transaction-wire.ts';
import type { UploadLimit } from './upload-limit.ts';

/** ms after which nothing is tried again */
const REPEAT_MS_MAX = 8_000;
const ATTEMPTS_MAX = 12;
const PAUSE_MS_MIN = 2;
const PAUSE_MS_MAX = 250;
/** A lost connection is tried again once: the server may just have restarted. */
const LOST_ATTEMPTS_MAX = 2;
/** Spaces whose names are known to be written; past it all are forgotten, which costs a statement each. */
const SPACES_KNOWN_MAX = 100_000;

interface TransactionsOptions {
  readonly pool: PostgresPool;
  readonly uploadLimit: UploadLimit;
  slotOf(connection: PostgresConnection): number;
}

/** What the body itself threw: nobody's business here. */
type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

export class Transactions {
  readonly #options: TransactionsOptions;
  readonly #known = new Map<SpaceKey, Space>();
  #isClosed = false;

  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  /** `clock`: what a test's clock says; null: the database's is asked. */
  async run<T>(space: Space, clock: number | null, body: (tx: SpaceTransaction) => Awaitable<T>): Promise<T> {
    if (this.#isClosed) throw new StoreUnavailable('the store is closing: try again');
    const { pool, slotOf } = this.#options;
    const outcome = await repeatWhereSafe('a transaction', () =>
      pool.lend((connection) =>
        this.#attempt(space, new TransactionWire(connection, slotOf(connection), clock), body),
      ),
    );
    if (outcome.ok) return outcome.value;
    throw outcome.error;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  async #attempt<T>(
    space: Space,
    wire: TransactionWire,
    body: (tx: SpaceTransaction) => Awaitable<T>,
  ): Promise<Outcome<T>> {
    const spaceKey = spaceKeyOf(space);
    const { uploadLimit } = this.#options;
    const isSpaceKnown = this.#isKnown(spaceKey, space);
    const open = () => new PostgresSpaceTransaction({ wire, space, spaceKey, isSpaceKnown, uploadLimit });
    let tx = open();
    let outcome = await outcomeOf(() => body(tx));
    if (wire.failure instanceof NowUnknown) {
      await outcomeOf(() => wire.begin());
      tx = open();
      outcome = await outcomeOf(() => body(tx));
    }
    // What went wrong with the transaction itself goes before what the body made of it.
    if (wire.failure !== undefined || !outcome.ok) {
      await wire.rollback();
      if (wire.failure !== undefined) throw wire.failure;
      return outcome;
    }
    const writes = tx.takeWrites();
    if (writes.length === 0 && !tx.hasFlushed) {
      await wire.rollback();
      return outcome;
    }
    await wire.commit(writes);
    if (tx.isSpaceWritten) this.#remember(spaceKey, space);
    return outcome;
  }

  /** Also that these are its names: another Space with the same key is no known one. */
  #isKnown(key: SpaceKey, { appId, spaceId }: Space): boolean {
    const known = this.#known.get(key);
    return known?.appId === appId && known.spaceId === spaceId;
  }

  #remember(key: SpaceKey, space: Space): void {
    if (this.#known.has(key)) return;
    if (this.#known.size >= SPACES_KNOWN_MAX) this.#known.clear();
    this.#known.set(key, space);
  }
}

async function outcomeOf<T>(work: () => Awaitable<T>): Promise<Outcome<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    return { ok: false, error };
  }
}

/**
 * Runs `work` again after failures that changed nothing, with growing pauses by chance, so that those who met do not meet again.
 * A lost connection counts as one, once: `work` must be the same run twice, or make StoreUnavailable of what it lost while a
 * commit was under way.
 */
export async function repeatWhereSafe<T>(doing: string, work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + REPEAT_MS_MAX;
  let lost = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (isLost(error)) lost += 1;
      const mayRepeat =
        error instanceof RunAgain || isRepeatable(error) || (isLost(error) && lost < LOST_ATTEMPTS_MAX);
      if (!mayRepeat) throw storageError(error, doing);
      if (attempt === ATTEMPTS_MAX || performance.now() > giveUpAt) throw outOfAttempts(doing, error);
      // The first time at once: most who met are past each other already.
      if (attempt > 1) await pause(attempt);
    }
  }
}

function pause(attempt: number): Promise<void> {
  const longest = Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** attempt);
  return new Promise((resolve) => setTimeout(resolve, Math.random() * longest));
}

function outOfAttempts(doing: string, cause: unknown): StoreUnavailable {
  const failure = storageError(cause, doing);
  return new StoreUnavailable(`${doing} kept meeting others that change the same rows: try again`, {
    cause: failure,
  });
}
