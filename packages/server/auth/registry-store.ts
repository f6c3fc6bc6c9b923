/** The port to the registered Apps. Engine-neutral; every engine passes engine/test/registry-store-suite.ts. */
import type { Algorithm } from '@holdfast/protocol';

export type AppStatus = 'active' | 'suspended';

/** `damaged`: a row of the App, of its quotas or of its revocations is not as it was written. Nothing of it is believed. */
export type AppState = AppStatus | 'damaged';

/** Where an App's verification keys come from. */
export type AppKeys =
  /** a JSON Web Key Set as text, copied in when the App was added */
  | { readonly kind: 'static'; readonly jwks: string }
  /** fetched while in use */
  | { readonly kind: 'url'; readonly url: string };

/** Limits on what is stored; `undefined`: none. */
export interface Quotas {
  /** bytes that are stored: ready and waiting nodes, canonical; and what was received and is not judged */
  readonly maxBytes: number | undefined;
  readonly maxNodes: number | undefined;
  /** commits of root refs that are kept */
  readonly maxCommits?: number | undefined;
}

export interface SpaceQuotas extends Quotas {
  readonly spaceId: string;
}

/** The claim by which tokens are revoked: one token, or all tokens of a subject. */
export type RevokedClaim = 'jti' | 'sub';

export interface Revocation {
  readonly claim: RevokedClaim;
  readonly value: string;
  /** ms since the epoch; afterwards the revocation no longer counts */
  readonly until: number;
}

export interface AppRecord {
  readonly appId: string;
  /** belongs to exactly one App */
  readonly issuer: string;
  readonly audience: string;
  readonly status: AppState;
  readonly keys: AppKeys;
  /** narrower than the supported list; `undefined`: every supported one */
  readonly algorithms: readonly Algorithm[] | undefined;
  readonly tokenLifetimeMsMax: number;
  /** on all Spaces of the App together */
  readonly quotas: Quotas;
  /** only Spaces with a limit of their own, ordered by the UTF-8 bytes of `spaceId` */
  readonly spaceQuotas: readonly SpaceQuotas[];
  /** ordered by claim, then by the UTF-8 bytes of the value */
  readonly revocations: readonly Revocation[];
  /** ms since the epoch */
  readonly createdAt: number;
  /** ms since the epoch; last change of any kind */
  readonly updatedAt: number;
}

/** A limit that is left out stays as it is; `null` lifts it. */
export interface QuotaChange {
  readonly maxBytes?: number | null | undefined;
  readonly maxNodes?: number | null | undefined;
  readonly maxCommits?: number | null | undefined;
}

/** `app-unknown`: there is no such App; `too-many`: the App has as many entries of the kind as it may. */
export type LimitOutcome = 'changed' | 'app-unknown' | 'too-many';

/** Spaces of one App with a quota of their own: every process keeps all of them in memory. */
export const SPACE_QUOTAS_MAX = 10_000;
/** Revocations of one App that have not expired. */
export const REVOCATIONS_MAX = 10_000;

type Awaitable<T> = T | Promise<T>;

/**
 * Rows of the registry, shared by any number of processes. A change is durable when its verb resolves, and every later reading
 * sees it, in every process. Verbs throw only if the store fails. Each change is atomic: if two processes add the same App or
 * the same issuer at once, one succeeds and the other gets an answer that says so.
 */
export interface RegistryStore {
  /**
   * Every App, ordered by the UTF-8 bytes of `appId`. May return the same array again while nothing has changed: callers
   * compare by identity to save work.
   */
  readAll(): Awaitable<readonly AppRecord[]>;
  /** An App of that id that was removed has left its quotas and revocations, and those of `record` are added to them. */
  insert(record: AppRecord): Awaitable<'inserted' | 'app-exists' | 'issuer-taken'>;
  /** Replaces everything except `status`, `createdAt`, quotas and revocations. */
  replace(record: AppRecord): Awaitable<'replaced' | 'app-unknown' | 'issuer-taken'>;
  /** False when there is no such App. True also if the App has that status already. */
  setStatus(appId: string, status: AppStatus, updatedAt: number): Awaitable<boolean>;
  /**
   * Removes the App's row; its id and issuer are free at once. Its quotas and revocations stay, as its data does: they hold again
   * when it is added again, so that nobody gets back a token that was revoked. False when there is no such App.
   */
  remove(appId: string): Awaitable<boolean>;
  /** Changes the quotas of a Space, or with `undefined` those of the App. */
  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): Awaitable<LimitOutcome>;
  /** Adds a revocation or changes its end. Those of the App that have expired at `now` are removed. */
  revoke(appId: string, revocation: Revocation, now: number): Awaitable<LimitOutcome>;
  /** False when there is no such revocation. */
  liftRevocation(appId: string, claim: RevokedClaim, value: string): Awaitable<boolean>;
  /** When the App was last suspended or removed, by the store's own clock, ms; `undefined`: never, or before this was kept. */
  findStoppedAt(appId: string): Awaitable<number | undefined>;
  close(): Awaitable<void>;
}
