/**
 * Keeps roots leased for as long as a job, a page or a mount needs them. The keeper renews every lease well before it ends, at a
 * random point, so that many keepers do not ask at the same time. After sleep or a changed clock it renews all leases at once and
 * tells which of them lapsed.
 */

import {
  type Hash,
  isHash,
  LEASE_DURATION_MS_MAX,
  LEASE_DURATION_MS_MIN,
  type LeaseResponse,
} from '@holdfast/protocol';
import { checkFunction, checkMethod, checkNumber, checkObject } from './arguments.ts';
import type { Client } from './client.ts';
import { type Clock, systemClock } from './deadline.ts';
import { CasError } from './errors.ts';
import { KEEPER_RETRY_MS_MAX, KEEPER_TICK_MS, LEASE_DURATION_MS_DEFAULT } from './limits.ts';

export type LeaseKeeperEvent =
  | { readonly type: 'renewed'; readonly hash: Hash; readonly safeUntil: number }
  /** The lease ended, at `lapsedAt`, before it was renewed. The keeper goes on trying: `renewed` or `lost` follows. */
  | { readonly type: 'lapsed'; readonly hash: Hash; readonly lapsedAt: number }
  /** The root is not ready any more, as `state` says: it takes no lease. Put it and `add` it again; until then it is left. */
  | { readonly type: 'lost'; readonly hash: Hash; readonly state: LeaseResponse['state'] }
  /** A renewal failed and is tried again at `retryAt`. */
  | { readonly type: 'failed'; readonly hash: Hash; readonly error: unknown; readonly retryAt: number }
  /** The clock is `jumpMs` from where it should be: sleep, or someone set it. Everything is renewed at once. */
  | { readonly type: 'clock-jumped'; readonly jumpMs: number };

export interface LeaseKeeperOptions {
  readonly client: Pick<Client, 'leaseNode'>;
  /** 60 s to 24 h, clamped; 1 h when left out */
  readonly leaseDurationMs?: number | undefined;
  /** Renewals on their way at once; 4 when left out. */
  readonly concurrency?: number | undefined;
  /** Told of everything, as it happens. Must not throw. */
  readonly onEvent?: ((event: LeaseKeeperEvent) => void) | undefined;
  /** Instead of the system's clock and timers. */
  readonly clock?: Clock | undefined;
  /** Instead of `Math.random`, for the jitter. */
  readonly random?: (() => number) | undefined;
}

/** All instants are ms since the epoch by the keeper's own clock: the server's may differ. */
export interface LeaseKeeper {
  /**
   * Keeps `hash` leased from now on; leases it at once unless `safeUntil` says until when it is leased already. Adding it
   * again is harmless, and takes up a lost root again. Throws CasError INVALID_ARGUMENT for what is no hash.
   */
  add(hash: Hash, options?: { readonly safeUntil?: number | undefined }): void;
  /** Renews `hash` no more. Its lease just ends in time: nothing can release it. */
  remove(hash: Hash): void;
  /** The instant up to which every root is leased; undefined while one is not (new, lapsed, lost), or there is none. */
  readonly safeUntil: number | undefined;
  /** Renews every root now and settles when each was tried once; the events tell how it went. */
  renewAll(): Promise<void>;
  /** Ends all renewing, requests on their way too. No event comes after it has settled. */
  stop(): Promise<void>;
}

interface Root {
  readonly hash: Hash;
  /** leased until then at least; 0: never yet, or lost */
  safeUntil: number;
  /** when to renew; infinite while that is under way and when lost */
  dueAt: number;
  isLost: boolean;
  hasToldLapse: boolean;
  failureCount: number;
}

/** Starts a keeper without roots. It runs, and keeps the process alive, until `stop`. */
export function startLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  checkKeeperOptions(options);
  return new RunningKeeper(options);
}

function checkKeeperOptions(options: LeaseKeeperOptions): void {
  const call = { name: 'startLeaseKeeper', requestOperation: 'leaseNode' } as const;
  checkObject(call, 'the options', options);
  const { client, leaseDurationMs, concurrency, onEvent } = options;
  checkMethod(call, 'client', client, 'leaseNode');
  if (leaseDurationMs !== undefined) checkNumber(call, 'leaseDurationMs', leaseDurationMs, 1);
  if (concurrency !== undefined) checkNumber(call, 'concurrency', concurrency, 1);
  if (onEvent !== undefined) checkFunction(call, 'onEvent', onEvent);
}

class RunningKeeper implements LeaseKeeper {
  readonly #client: Pick<Client, 'leaseNode'>;
  readonly #leaseDurationMs: number;
  readonly #concurrency: number;
  readonly #onEvent: (event: LeaseKeeperEvent) => void;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #roots = new Map<Hash, Root>();
  readonly #running = new Map<Root, Promise<void>>();
  readonly #stopping = new AbortController();
  #stopTimer: (() => void) | undefined;
  /** The time that the clock should show when the timer fires. */
  #expectedAt: number;

  constructor(options: LeaseKeeperOptions) {
    const wanted = options.leaseDurationMs ?? LEASE_DURATION_MS_DEFAULT;
    this.#client = options.client;
    this.#leaseDurationMs = Math.min(
      LEASE_DURATION_MS_MAX,
      Math.max(LEASE_DURATION_MS_MIN, Math.trunc(wanted)),
    );
    this.#concurrency = Math.max(1, options.concurrency ?? 4);
    this.#onEvent = options.onEvent ?? (() => undefined);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#expectedAt = this.#clock.now();
    this.#startTimer();
  }

  add(hash: Hash, { safeUntil }: { readonly safeUntil?: number | undefined } = {}): void {
    if (!isHash(hash)) throw invalid('a hash is 64 lowercase hexadecimal characters');
    if (this.#stopping.signal.aborted) throw invalid('this keeper was stopped: start another one');
    const known = this.#roots.get(hash);
    if (known !== undefined && !known.isLost) {
      if (safeUntil !== undefined && safeUntil > known.safeUntil) this.#holdUntil(known, safeUntil);
      return;
    }
    const root = { hash, safeUntil: 0, dueAt: 0, isLost: false, hasToldLapse: false, failureCount: 0 };
    this.#roots.set(hash, root);
    if (safeUntil !== undefined && safeUntil > this.#clock.now()) this.#holdUntil(root, safeUntil);
    this.#startDue();
  }

  remove(hash: Hash): void {
    this.#roots.delete(hash);
  }

  get safeUntil(): number | undefined {
    const now = this.#clock.now();
    let earliest = Number.POSITIVE_INFINITY;
    for (const { safeUntil } of this.#roots.values()) {
      if (safeUntil <= now) return undefined;
      earliest = Math.min(earliest, safeUntil);
    }
    return this.#roots.size === 0 ? undefined : earliest;
  }

  async renewAll(): Promise<void> {
    const roots = [...this.#roots.values()].filter(({ isLost }) => !isLost);
    const waiting = new Set(roots);
    for (const root of roots) if (!this.#running.has(root)) root.dueAt = 0;
    while (waiting.size > 0 && !this.#stopping.signal.aborted) {
      this.#startDue();
      for (const root of waiting) {
        const isTried = !this.#running.has(root) && root.dueAt > 0;
        if (isTried || this.#roots.get(root.hash) !== root) waiting.delete(root);
      }
      if (waiting.size > 0) await Promise.race(this.#running.values());
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the lease keeper was stopped'));
    this.#stopTimer?.();
    await Promise.all(this.#running.values());
  }

  #tick(): void {
    const now = this.#clock.now();
    const jumpMs = now - this.#expectedAt;
    // A clock that is 20 s off from what its timer says has jumped. A busy machine is late by less.
    if (Math.abs(jumpMs) > 20_000) this.#takeJump(jumpMs);
    for (const root of this.#roots.values()) this.#noticeLapse(root, now);
    this.#startDue();
    this.#startTimer();
  }

  /** A clock that jumped forward may have passed the end of leases. After a jump back the ends that we remember are too late. */
  #takeJump(jumpMs: number): void {
    this.#onEvent({ type: 'clock-jumped', jumpMs });
    for (const root of this.#roots.values()) {
      if (jumpMs < 0) root.safeUntil += jumpMs;
      if (!root.isLost && !this.#running.has(root)) root.dueAt = 0;
    }
  }

  #noticeLapse(root: Root, now: number): void {
    if (root.isLost || root.hasToldLapse || root.safeUntil === 0 || root.safeUntil > now) return;
    root.hasToldLapse = true;
    this.#onEvent({ type: 'lapsed', hash: root.hash, lapsedAt: root.safeUntil });
  }

  #startDue(): void {
    const now = this.#clock.now();
    for (const root of this.#roots.values()) {
      if (this.#running.size >= this.#concurrency || this.#stopping.signal.aborted) return;
      if (root.dueAt > now) continue;
      root.dueAt = Number.POSITIVE_INFINITY;
      const renewal = this.#renew(root).finally(() => {
        this.#running.delete(root);
        this.#startDue();
      });
      this.#running.set(root, renewal);
    }
  }

  async #renew(root: Root): Promise<void> {
    const { hash } = root;
    const sentAt = this.#clock.now();
    try {
      const options = { signal: this.#stopping.signal };
      const lease = await this.#client.leaseNode(hash, { leaseDurationMs: this.#leaseDurationMs }, options);
      if (!this.#isKept(root)) return;
      // The lapse is told first: the server may just have begun a new lease instead of renewing the old one.
      this.#noticeLapse(root, this.#clock.now());
      if (lease.state === 'ready') return this.#takeLease(root, sentAt);
      root.isLost = true;
      root.safeUntil = 0;
      this.#onEvent({ type: 'lost', hash, state: lease.state });
    } catch (error) {
      if (this.#isKept(root)) this.#takeFailure(root, error);
    }
  }

  /** Counted from before the request: whatever the server's clock says, the lease it gave lasts at least until then. */
  #takeLease(root: Root, sentAt: number): void {
    this.#holdUntil(root, sentAt + this.#leaseDurationMs);
    this.#onEvent({ type: 'renewed', hash: root.hash, safeUntil: root.safeUntil });
  }

  #takeFailure(root: Root, error: unknown): void {
    root.failureCount += 1;
    const bound = Math.min(KEEPER_RETRY_MS_MAX, 2_000 * 2 ** (root.failureCount - 1));
    const asked = error instanceof CasError ? (error.retryAfterMs ?? 0) : 0;
    // Whatever a server asks for, the lease goes on running out.
    const waitMs = Math.max(Math.min(asked, KEEPER_RETRY_MS_MAX), bound / 2) + (this.#random() * bound) / 2;
    root.dueAt = this.#clock.now() + waitMs;
    this.#onEvent({ type: 'failed', hash: root.hash, error, retryAt: root.dueAt });
  }

  #holdUntil(root: Root, safeUntil: number): void {
    const now = this.#clock.now();
    root.safeUntil = safeUntil;
    root.hasToldLapse = false;
    root.failureCount = 0;
    // Renewal begins after 40 to 60 % of a lease, so that there is time for two more attempts.
    const share = 0.4 + 0.2 * this.#random();
    root.dueAt = now + (safeUntil - now) * share;
  }

  #isKept(root: Root): boolean {
    return !this.#stopping.signal.aborted && this.#roots.get(root.hash) === root;
  }

  /** A steady beat: what a tick finds is how far the clock went since the last one. */
  #startTimer(): void {
    if (this.#stopping.signal.aborted) return;
    this.#expectedAt = this.#clock.now() + KEEPER_TICK_MS;
    this.#stopTimer = this.#clock.startTimer(KEEPER_TICK_MS, () => this.#tick());
  }
}

function invalid(reason: string): CasError {
  const details = { code: 'INVALID_ARGUMENT', requestOperation: 'leaseNode' } as const;
  return new CasError(`lease keeper: ${reason}`, details);
}
