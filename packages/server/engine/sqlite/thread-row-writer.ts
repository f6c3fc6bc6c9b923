/**
 * The writer of rows in a thread of its own, so that nobody here waits for the disk. What arrives in one turn of the event loop
 * goes there in one message. An answer brings with it what was committed, and that is made known first.
 */
import type { Space } from '../../core/model.ts';
import { StoreUnavailable, type SweepCutoffs, type TransactionBody } from '../../core/ports.ts';
import { TRANSACTIONS } from '../../core/transactions.ts';
import type { RowWriter, RowWriterEvents, RowWriterSettings } from './row-writer.ts';
import { unpackError } from './thread-errors.ts';
import {
  type FromWriter,
  type Order,
  packMessage,
  unpackMessage,
  type WriterVerb,
} from './writer-messages.ts';

/** The thread's first file. It lies beside this one in the sources and, under the same name, in what is built of them. */
const ENTRY = import.meta.url.endsWith('.ts') ? './writer-thread.ts' : './writer-thread.js';
const NAMES = new Map<unknown, string>(Object.entries(TRANSACTIONS).map(([name, body]) => [body, name]));

/** For others to join, the thread is left alone for a part of the time that it took last, and so many ms at most. */
const REST_SHARE = 0.1;
const REST_MS_MAX = 3;
/** a timer takes no less */
const TIMER_MS = 1;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class ThreadRowWriter implements RowWriter {
  readonly #events: RowWriterEvents;
  readonly #thread: Worker;
  readonly #ended: Promise<void>;
  readonly #waiting = new Map<number, Waiting>();
  #orders: Order[] = [];
  #lastId = 0;
  #isSendDue = false;
  #sentAt = 0;
  #restUntil = 0;
  #isClosing = false;
  #fatal: Error | undefined;
  #idle: (() => void) | undefined;

  constructor(settings: RowWriterSettings, events: RowWriterEvents) {
    this.#events = events;
    this.#thread = new Worker(new URL(ENTRY, import.meta.url));
    this.#thread.addEventListener('message', ({ data }: MessageEvent<unknown>) =>
      this.#hear(unpackMessage(data)),
    );
    this.#thread.addEventListener('error', ({ message }) => {
      this.#fail(new Error(`the thread that writes rows failed: ${message}`));
    });
    this.#ended = new Promise((resolve) => {
      this.#thread.addEventListener('close', () => {
        if (!this.#isClosing) this.#fail(new Error('the thread that writes rows has ended'));
        resolve();
      });
    });
    this.#thread.postMessage(settings);
  }

  transact<T, I>(space: Space, body: TransactionBody<T, I>, input: I): Promise<T> {
    const name = NAMES.get(body);
    if (name === undefined)
      return Promise.reject(new Error('only transactions with a name cross to another thread'));
    return this.#order('transact', space, name, input);
  }

  maintain(cutoffs: SweepCutoffs): Promise<boolean> {
    return this.#order('maintain', cutoffs);
  }

  insertStoreValue(name: string, value: string): Promise<string> {
    return this.#order('insertStoreValue', name, value);
  }

  removeStoreValue(name: string): Promise<void> {
    return this.#order('removeStoreValue', name);
  }

  async drain(): Promise<void> {
    this.#isClosing = true;
    if (this.#waiting.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
  }

  close(): Promise<void> {
    this.#send(true);
    return this.#ended;
  }

  #order<T>(verb: WriterVerb, ...parameters: unknown[]): Promise<T> {
    if (this.#fatal !== undefined) return Promise.reject(this.#fatal);
    if (this.#isClosing) return Promise.reject(new StoreUnavailable('the store is closing: try again later'));
    return new Promise<T>((resolve, reject) => {
      this.#lastId += 1;
      this.#waiting.set(this.#lastId, { resolve: resolve as (value: unknown) => void, reject });
      this.#orders.push([this.#lastId, verb, ...parameters]);
      this.#sendSoon();
    });
  }

  /**
   * While the thread is at work, all that comes waits for it, and then shares a commit. Those who were just answered may ask
   * again: they have two turns of the event loop to join, and where there are several, a part of the time a commit takes.
   */
  #sendSoon(): void {
    if (this.#isSendDue || this.#orders.length === 0 || this.#waiting.size > this.#orders.length) return;
    this.#isSendDue = true;
    setImmediate(this.#sendRested);
  }

  readonly #sendRested = (): void => {
    const restMs = this.#restUntil - performance.now();
    if (restMs >= TIMER_MS) setTimeout(this.#sendRested, restMs);
    else setImmediate(() => this.#send(false));
  };

  #send(isLast: boolean): void {
    this.#isSendDue = false;
    if (this.#orders.length === 0 && !isLast) return;
    this.#thread.postMessage(packMessage({ orders: this.#orders, isLast }));
    this.#orders = [];
    this.#sentAt = performance.now();
  }

  /** Reads that come after an answer see what it speaks of: so first what was committed, then the answers. */
  #hear({ commits, outcomes, fatal }: FromWriter): void {
    for (const committed of commits) this.#events.onCommitted(committed);
    for (const [id, isDone, value] of outcomes) {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (isDone) waiting?.resolve(value);
      else waiting?.reject(unpackError(value));
    }
    if (fatal !== undefined) this.#fail(unpackError(fatal));
    const now = performance.now();
    const isCrowd = outcomes.length > 1 || this.#orders.length > 0;
    this.#restUntil = isCrowd ? now + Math.min((now - this.#sentAt) * REST_SHARE, REST_MS_MAX) : 0;
    if (this.#waiting.size === 0) this.#idle?.();
    else this.#sendSoon();
  }

  /** After this nothing is written any more; the process is to end and begin again from what is durable. */
  #fail(error: Error): void {
    if (this.#fatal !== undefined) return;
    this.#fatal = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    this.#idle?.();
    this.#events.onFatal(error);
  }
}
