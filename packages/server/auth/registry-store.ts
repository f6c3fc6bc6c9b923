/** The port to the registered Apps. Engine-neutral; every engine passes engine/test/registry-store-suite.ts. */
import type { Algorithm } from '@holdfast/protocol';

export type AppStatus = 'active' | 'suspended';

/** `damaged`: a row of the App, its quotas or its revocations is not as it was written. None of its data is used. */
export type AppState = AppStatus | 'damaged';

export type AppKeys =
  /** the text of a JSON Web Key Set */
  | { readonly kind: 'static'; readonly jwks: string }
  /** fetched while in use */
  | { readonly kind: 'url'; readonly url: string };

/** Limits on what is stored; `undefined`: none. */
export interface Quotas {
  /** stored bytes: ready and waiting nodes in canonical form, and received bytes that are not judged yet */
  readonly maxBytes: number | undefined;
  readonly maxNodes: number | undefined;
  /** retained commits of root refs */
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
  /** ms since the epoch; the revocation ends then */
  readonly until: number;
}

export interface AppRecord {
  readonly appId: string;
  /** unique to one App */
  readonly issuer: string;
  readonly audience: string;
  readonly status: AppState;
  readonly keys: AppKeys;
  /** a subset of the supported algorithms; undefined: all of them */
  readonly algorithms: readonly Algorithm[] | undefined;
  readonly tokenLifetimeMsMax: number;
  /** of all Spaces of the App together */
  readonly quotas: Quotas;
  /** only Spaces with a limit of their own, ordered by the UTF-8 bytes of `spaceId` */
  readonly spaceQuotas: readonly SpaceQuotas[];
  /** ordered by claim, then by the UTF-8 bytes of the value */
  readonly revocations: readonly Revocation[];
  readonly createdAt: number;
  /** ms since the epoch; last change of any kind */
  readonly updatedAt: number;
}

/** An absent limit stays as it is; `null` removes it. */
export interface QuotaChange {
  readonly maxBytes?: number | null | undefined;
  readonly maxNodes?: number | null | undefined;
  readonly maxCommits?: number | null | undefined;
}

/** `app-unknown`: the App does not exist; `too-many`: the App already has the maximum number of entries of this kind. */
export type LimitOutcome = 'changed' | 'app-unknown' | 'too-many';

/** Spaces of one App with a quota of their own. Every process keeps all of them in memory. */
export const SPACE_QUOTAS_MAX = 10_000;
/** Unexpired revocations of one App. */
export const REVOCATIONS_MAX = 10_000;

type Awaitable<T> = T | Promise<T>;

/**
 * Rows of the registry, shared by any number of processes. A change is durable when its verb resolves, and every later read in any
 * process sees it. Verbs throw only if the store fails. Each change is atomic: if two processes add the same App or issuer at once, one
 * succeeds and the other gets the outcome that says so.
 */
export interface RegistryStore {
  /** Every App, by the UTF-8 bytes of `appId`. The same array while nothing has changed: callers compare by identity. */
  readAll(): Awaitable<readonly AppRecord[]>;
  /** If an App of this id was removed before, its quotas and revocations still exist; those of `record` are added. */
  insert(record: AppRecord): Awaitable<'inserted' | 'app-exists' | 'issuer-taken'>;
  /** Replaces everything except `status`, `createdAt`, quotas and revocations. */
  replace(record: AppRecord): Awaitable<'replaced' | 'app-unknown' | 'issuer-taken'>;
  /** Returns false if the App does not exist, and true if it has that status already. */
  setStatus(appId: string, status: AppStatus, updatedAt: number): Awaitable<boolean>;
  /** Frees id and issuer at once. Quotas stay, and revocations, so that no revoked token becomes valid. Returns false if there is none. */
  remove(appId: string): Awaitable<boolean>;
  /** Changes the quotas of a Space, or those of the App if `spaceId` is undefined. */
  setQuotas(appId: string, spaceId: string | undefined, change: QuotaChange): Awaitable<LimitOutcome>;
  /** Adds a revocation or changes its end. Removes the App's revocations that have expired at `now`. */
  revoke(appId: string, revocation: Revocation, now: number): Awaitable<LimitOutcome>;
  /** Returns false if the revocation does not exist. */
  liftRevocation(appId: string, claim: RevokedClaim, value: string): Awaitable<boolean>;
  /** When the App was last suspended or removed, by the store's clock, ms; undefined if never or not recorded. */
  findStoppedAt(appId: string): Awaitable<number | undefined>;
  close(): Awaitable<void>;
}
