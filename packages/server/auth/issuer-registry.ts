/** This process's copy of the registered issuers, never used when older than `REGISTRY_STALE_MS_MAX` (docs/api.md, Capabilities). */
import { type Algorithm, REGISTRY_STALE_MS_MAX } from '@holdfast/protocol';
import {
  REGISTRY_LOOK_AGAIN_MS,
  REGISTRY_READ_MS_MAX,
  REGISTRY_RELOAD_MS,
  registryUnavailable,
} from './auth-limits.ts';
import type { AuthWorld } from './auth-world.ts';
import { indexRevocations, type Revocations } from './capability.ts';
import { type KeySource, StaticKeySource, UrlKeySource } from './jwks-source.ts';
import { KeySetPlaces } from './key-set.ts';
import type { AppKeys, AppRecord, AppState, Quotas, RegistryStore } from './registry-store.ts';

/** The data that an App's capabilities are verified against. The object stays the same while the App's row is unchanged. */
export interface Registration {
  readonly appId: string;
  readonly issuer: string;
  readonly audience: string;
  readonly algorithms: readonly Algorithm[] | undefined;
  readonly tokenLifetimeMsMax: number;
  readonly keys: AppKeys;
  readonly keySource: KeySource;
}

export interface RegisteredIssuer {
  readonly registration: Registration;
  readonly status: AppState;
  readonly revocations: Revocations | undefined;
}

/** The limits that apply in a Space: its own, and those of all Spaces of its App together. */
export interface SpaceLimits {
  readonly space: Quotas | undefined;
  readonly app: Quotas | undefined;
}

interface AppLimits {
  readonly app: Quotas | undefined;
  readonly spaces: ReadonlyMap<string, Quotas>;
}

/** By issuer. */
export type RegistrySnapshot = ReadonlyMap<string, RegisteredIssuer>;

/** Keeps a snapshot, read every `REGISTRY_RELOAD_MS` outside any request. A request that finds it too old waits for a read. */
export class IssuerRegistry {
  readonly #store: RegistryStore;
  readonly #world: AuthWorld;
  readonly #places = new KeySetPlaces();
  #snapshot: RegistrySnapshot = new Map();
  #apps: ReadonlyMap<string, RegisteredIssuer> = new Map();
  /** by App; only Apps that have limits */
  #limits: ReadonlyMap<string, AppLimits> = new Map();
  #records: readonly AppRecord[] | undefined;
  /** monotonic ms, by App, for `stoppedForMs`; Apps that are active again stay in it */
  readonly #stoppedAt = new Map<string, number>();
  /** monotonic ms at the start of the read */
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** monotonic ms at the start of the last extra read */
  #lookedAgainAt = Number.NEGATIVE_INFINITY;
  #lookingAgain: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(store: RegistryStore, world: AuthWorld) {
    this.#store = store;
    this.#world = world;
  }

  /** Reads the rows for the first time and keeps reading them until `close`. Rejects if the first read fails. */
  async start(): Promise<void> {
    await this.#readOnce();
    this.#scheduleReload();
  }

  /** Returns the snapshot itself, without a promise, while it is young enough. Rejects with ApiError `registry_unavailable` (row 5). */
  read(): RegistrySnapshot | Promise<RegistrySnapshot> {
    return this.#isYoung() ? this.#snapshot : this.#readBeforeAnswering();
  }

  /** The App as last read; call `read` first. */
  findApp(appId: string): RegisteredIssuer | undefined {
    return this.#apps.get(appId);
  }

  /** The limits of a Space as last read; usually undefined. */
  findLimits({
    appId,
    spaceId,
  }: {
    readonly appId: string;
    readonly spaceId: string;
  }): SpaceLimits | undefined {
    const limits = this.#limits.get(appId);
    if (limits === undefined) return undefined;
    const space = limits.spaces.get(spaceId);
    return space === undefined && limits.app === undefined ? undefined : { space, app: limits.app };
  }

  /** For an unknown issuer, whose App may be new. All share one read per `REGISTRY_LOOK_AGAIN_MS`; in between they get the snapshot. */
  async readAgain(): Promise<RegistrySnapshot> {
    const now = this.#world.monotonicNow();
    if (this.#lookingAgain === undefined && now - this.#lookedAgainAt >= REGISTRY_LOOK_AGAIN_MS) {
      this.#lookedAgainAt = now;
      this.#lookingAgain = this.#lookAgain().finally(() => {
        this.#lookingAgain = undefined;
      });
    }
    // After a failure the snapshot may still be young enough: `read` judges its age.
    await this.#lookingAgain?.catch(() => undefined);
    return this.read();
  }

  /** Starts a new read: one that started before the request may miss an App that was added since. */
  async #lookAgain(): Promise<void> {
    await this.#reading?.catch(() => undefined);
    await this.#readOnce();
  }

  /** Whether the App was registered at the last read. Only for metrics by App; it decides nothing. */
  isRegistered(appId: string): boolean {
    return this.#apps.has(appId);
  }

  /** Whether a row was damaged at the last read. Until the row is repaired, no issuer is known to be unknown. */
  hasDamage(): boolean {
    return this.#records?.some(({ status }) => status === 'damaged') ?? false;
  }

  /** Monotonic ms since the start of the first read that did not show the App active; infinite if no read ever showed it active. */
  stoppedForMs(appId: string): number {
    if (this.#apps.get(appId)?.status === 'active') return 0;
    return this.#world.monotonicNow() - (this.#stoppedAt.get(appId) ?? Number.NEGATIVE_INFINITY);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer?.();
    for (const { registration } of this.#snapshot.values()) registration.keySource.close();
  }

  #isYoung(): boolean {
    return this.#world.monotonicNow() - this.#readAt <= REGISTRY_STALE_MS_MAX;
  }

  async #readBeforeAnswering(): Promise<RegistrySnapshot> {
    try {
      await this.#readOnce();
    } catch (error) {
      throw registryUnavailable('the registered Apps cannot be read; try again shortly', error);
    }
    // The read may have started so long ago that its snapshot is already too old.
    if (!this.#isYoung()) throw registryUnavailable('the registered Apps cannot be read in time; try again');
    return this.#snapshot;
  }

  #readOnce(): Promise<void> {
    this.#reading ??= this.#readRows().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readRows(): Promise<void> {
    const startedAt = this.#world.monotonicNow();
    const timedOut = Promise.withResolvers<never>();
    const cancel = this.#world.schedule(
      () => timedOut.reject(new Error(`no answer from the registry within ${REGISTRY_READ_MS_MAX} ms`)),
      REGISTRY_READ_MS_MAX,
    );
    try {
      this.#apply(await Promise.race([this.#store.readAll(), timedOut.promise]), startedAt);
      this.#readAt = startedAt;
    } finally {
      cancel();
    }
  }

  #apply(records: readonly AppRecord[], startedAt: number): void {
    if (this.#isClosed || records === this.#records) return;
    const active = new Set(records.flatMap(({ appId, status }) => (status === 'active' ? [appId] : [])));
    for (const [appId, { status }] of this.#apps)
      if (status === 'active' && !active.has(appId)) this.#stoppedAt.set(appId, startedAt);
    const previous = this.#snapshot;
    const next = new Map<string, RegisteredIssuer>();
    for (const record of records) {
      const known = previous.get(record.issuer)?.registration;
      const registration =
        known !== undefined && saysTheSame(known, record)
          ? known
          : register(record, this.#world, this.#places);
      const { status } = record;
      next.set(record.issuer, { registration, status, revocations: indexRevocations(record.revocations) });
    }
    for (const [issuer, { registration }] of previous) {
      if (next.get(issuer)?.registration !== registration) registration.keySource.close();
    }
    this.#snapshot = next;
    this.#apps = new Map([...next.values()].map((each) => [each.registration.appId, each]));
    this.#limits = indexLimits(records);
    this.#records = records;
  }

  #scheduleReload(): void {
    if (this.#isClosed) return;
    this.#cancelTimer = this.#world.schedule(() => {
      // A failed read is not reported to requests until the snapshot is too old, because the next read may succeed.
      this.#readOnce().then(
        () => this.#scheduleReload(),
        () => this.#scheduleReload(),
      );
    }, REGISTRY_RELOAD_MS);
  }
}

function indexLimits(records: readonly AppRecord[]): ReadonlyMap<string, AppLimits> {
  const limits = new Map<string, AppLimits>();
  for (const { appId, quotas, spaceQuotas } of records) {
    const isLimited = Object.values(quotas).some((limit) => limit !== undefined);
    const app = isLimited ? quotas : undefined;
    const spaces = new Map(spaceQuotas.map((each) => [each.spaceId, each]));
    if (app !== undefined || spaces.size > 0) limits.set(appId, { app, spaces });
  }
  return limits;
}

function register(record: AppRecord, world: AuthWorld, places: KeySetPlaces): Registration {
  const { appId, issuer, audience, algorithms, tokenLifetimeMsMax, keys } = record;
  const keySource =
    keys.kind === 'static' ? new StaticKeySource(keys.jwks) : new UrlKeySource(keys.url, world, places);
  return { appId, issuer, audience, algorithms, tokenLifetimeMsMax, keys, keySource };
}

function saysTheSame(registration: Registration, record: AppRecord): boolean {
  return (
    registration.appId === record.appId &&
    registration.audience === record.audience &&
    registration.tokenLifetimeMsMax === record.tokenLifetimeMsMax &&
    registration.algorithms?.join() === record.algorithms?.join() &&
    registration.keys.kind === record.keys.kind &&
    keysText(registration.keys) === keysText(record.keys)
  );
}

function keysText(keys: AppKeys): string {
  return keys.kind === 'static' ? keys.jwks : keys.url;
}
