/** The port to the registered Apps. Engine-neutral; every engine passes engine/contract/registry-store-suite.ts. */
import type { Algorithm } from '@holdfast/protocol';

export type AppStatus = 'active' | 'suspended';

/** Where an App's verification keys come from. */
export type AppKeys =
  /** a JSON Web Key Set as text, copied in when the App was added */
  | { readonly kind: 'static'; readonly jwks: string }
  /** fetched while in use */
  | { readonly kind: 'url'; readonly url: string };

export interface AppRecord {
  readonly appId: string;
  /** belongs to exactly one App */
  readonly issuer: string;
  readonly audience: string;
  readonly status: AppStatus;
  readonly keys: AppKeys;
  /** narrower than the supported list; `undefined`: every supported one */
  readonly algorithms: readonly Algorithm[] | undefined;
  readonly tokenLifetimeMsMax: number;
  /** ms since the epoch */
  readonly createdAt: number;
  /** ms since the epoch; last change of any kind */
  readonly updatedAt: number;
}

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
  insert(record: AppRecord): Awaitable<'inserted' | 'app-exists' | 'issuer-taken'>;
  /** Replaces everything except `status` and `createdAt`. */
  replace(record: AppRecord): Awaitable<'replaced' | 'app-unknown' | 'issuer-taken'>;
  /** False when there is no such App. True also if the App has that status already. */
  setStatus(appId: string, status: AppStatus, updatedAt: number): Awaitable<boolean>;
  /** Removes the App's row; its id and issuer are free at once. False when there is no such App. */
  remove(appId: string): Awaitable<boolean>;
  close(): Awaitable<void>;
}
