/** Authorization: the checks of the table in docs/api.md, Capabilities, in its order, once per request. */
import { ALGORITHMS, type Algorithm, ApiError, isAlgorithm } from '@holdfast/protocol';
import { compactVerify } from 'jose';
import { CACHE_REQUESTS } from '../metrics/server-metrics.ts';
import { FairShares } from '../shares/fair-shares.ts';
import {
  JWKS_WAITERS_MAX,
  KEY_SET_WAITERS,
  KeySetUnavailable,
  keySetCrowded,
  registryUnavailable,
  unauthorized,
} from './auth-limits.ts';
import { type AuthWorld, REAL_AUTH_WORLD } from './auth-world.ts';
import {
  type Capability,
  checkClaims,
  checkHeader,
  checkRevocations,
  checkScope,
  type ParsedToken,
  parseToken,
  plainCredential,
  type RequestedOperation,
  type Revocations,
  readBearerToken,
  type ScopeTarget,
  type Validity,
} from './capability.ts';
import { IssuerRegistry, type RegisteredIssuer, type Registration } from './issuer-registry.ts';
import { findKey, type KeySet } from './key-set.ts';
import type { AppState, RegistryStore, RevokedClaim } from './registry-store.ts';

const HITS = CACHE_REQUESTS.with({ cache: 'capabilities', result: 'hit' });
const MISSES = CACHE_REQUESTS.with({ cache: 'capabilities', result: 'miss' });

export interface Authorizer {
  readonly registry: IssuerRegistry;
  readonly cache: CapabilityCache;
  readonly world: AuthWorld;
  /** requests that wait for a key set */
  readonly waiters: FairShares;
  /** Stops the background reads of the registry and of key sets. The caller owns the store and closes it. */
  close(): void;
}

/** Reads the registry once, so that a server that cannot read it does not start. Rejects with the store's error. */
export async function openAuthorizer(
  store: RegistryStore,
  world: AuthWorld = REAL_AUTH_WORLD,
): Promise<Authorizer> {
  const registry = new IssuerRegistry(store, world);
  await registry.start();
  return {
    registry,
    // Verified capabilities remembered by one process; about 1 KiB each.
    cache: new CapabilityCache(16_384),
    world,
    waiters: new FairShares({ resource: KEY_SET_WAITERS, capacity: JWKS_WAITERS_MAX }),
    close: () => registry.close(),
  };
}

/** Records whose request it is, also if the request is refused. */
interface Witness {
  capability: Capability | undefined;
  /** the share that the request uses until it is verified */
  readonly peerShare?: (() => string) | undefined;
}

/**
 * Judges one request. `authorization` is the raw header, or null if absent. `appId` and `spaceId` are the decoded ids of the path, or
 * undefined if invalid. Throws or rejects with the ApiError of the first check that fails, in the order of the table. Returns the
 * verdict without a promise if nothing must be read.
 */
export function authorize(
  authorizer: Authorizer,
  authorization: string | null,
  appId: string | undefined,
  spaceId: string | undefined,
  operation: RequestedOperation,
  witness?: Witness,
): Capability | Promise<Capability> {
  const credential = plainCredential(authorization);
  const digest = digestCredential(credential);
  const target: ScopeTarget = { appId, spaceId };
  const known = findStanding(authorizer, digest, witness);
  if (known === undefined) {
    MISSES.add();
    return authorizeUnknown(authorizer, readBearerToken(credential), digest, target, operation, witness);
  }
  HITS.add();
  checkScope(known, target, operation);
  return known;
}

/**
 * Returns a capability that was verified before if nothing has changed since: its App is active with the same registration and the same
 * key set, and it has not expired. Otherwise returns undefined, and the caller makes every check again in order. Throws if only a
 * revocation makes it invalid.
 */
function findStanding(
  authorizer: Authorizer,
  digest: string,
  witness: Witness | undefined,
): Capability | undefined {
  const entry = authorizer.cache.find(digest);
  if (entry === undefined) return undefined;
  const snapshot = authorizer.registry.read();
  if (snapshot instanceof Promise) return leaveToSlowPath(snapshot);
  const registered = snapshot.get(entry.issuer);
  if (registered === undefined || !isStanding(entry, registered)) return undefined;
  const keySet = registered.registration.keySource.read();
  if (keySet instanceof Promise) return leaveToSlowPath(keySet);
  if (keySet !== entry.keySet) return undefined;
  const now = authorizer.world.now();
  if (now < entry.validity.from || now >= entry.validity.until) return undefined;
  if (witness !== undefined) witness.capability = entry.capability;
  checkRevocations(registered.revocations, entry.capability, entry.validity, now);
  return entry.capability;
}

function isStanding(entry: VerifiedCapability, registered: RegisteredIssuer): boolean {
  return registered.registration === entry.registration && registered.status === 'active';
}

/** Ignores the promise, because `authorizeUnknown` waits for the same work and reports its failure. */
function leaveToSlowPath(pending: Promise<unknown>): undefined {
  pending.catch(() => undefined);
  return undefined;
}

async function authorizeUnknown(
  authorizer: Authorizer,
  token: string,
  digest: string,
  target: ScopeTarget,
  operation: RequestedOperation,
  witness?: Witness,
): Promise<Capability> {
  const parsed = parseToken(token);
  const { algorithm } = parsed;
  if (!isAlgorithm(algorithm)) {
    throw unauthorized('unsupported_algorithm', `the token's "alg" is not one of ${ALGORITHMS.join(', ')}`);
  }
  const { registration } = await readRegistered(authorizer, parsed.issuer);
  const keySet = await readKeySet(authorizer, registration, witness);
  // The first fetch of the keys may have taken so long that the registry rows are too old now.
  const latest = await readRegistered(authorizer, parsed.issuer);
  if (latest.registration !== registration) {
    throw registryUnavailable("the token's App was changed during this request; try again");
  }
  checkApp(registration, latest.status, algorithm);
  await verifySignature(parsed, algorithm, keySet);
  const now = authorizer.world.now();
  const { capability, validity } = checkClaims(parsed.claims, registration, now);
  authorizer.cache.store(digest, { capability, validity, issuer: parsed.issuer, registration, keySet });
  // The token is proven even if an operator has revoked it.
  if (witness !== undefined) witness.capability = capability;
  checkRevocations(latest.revocations, capability, validity, now);
  checkScope(capability, target, operation);
  return capability;
}

/** Row 5. A wait for the key set holds a bounded place. Nothing is proven yet, so peers share places first, then the Apps they name. */
async function readKeySet(
  { waiters }: Authorizer,
  { appId, keySource }: Registration,
  witness: Witness | undefined,
): Promise<KeySet> {
  const failOfApp = (error: unknown): never => {
    throw error instanceof ApiError ? new KeySetUnavailable(appId, error) : error;
  };
  let keySet: KeySet | Promise<KeySet>;
  try {
    keySet = keySource.read();
  } catch (error) {
    return failOfApp(error);
  }
  if (!(keySet instanceof Promise)) return keySet;
  const place = waiters.tryAcquire(witness?.peerShare?.() ?? '', appId, 1);
  if (place === undefined) {
    keySet.catch(() => undefined);
    throw keySetCrowded();
  }
  try {
    return await keySet.catch(failOfApp);
  } finally {
    place.release();
  }
}

/** Row 4, and row 5 for the registry. */
async function readRegistered(authorizer: Authorizer, issuer: string): Promise<RegisteredIssuer> {
  const { registry } = authorizer;
  const registered = (await registry.read()).get(issuer) ?? (await registry.readAgain()).get(issuer);
  if (registered?.status === 'damaged') throw appDamaged();
  if (registered === undefined) {
    // The damaged row may be that of this issuer.
    if (registry.hasDamage()) throw appDamaged();
    throw unauthorized('unknown_issuer', "the token's issuer is not registered for any App");
  }
  return registered;
}

const appDamaged = (): ApiError =>
  registryUnavailable("what is registered of the token's App is damaged; ask the operator to mend it");

/** Row 6, then the second step of row 3. */
function checkApp(registration: Registration, status: AppState, algorithm: Algorithm): void {
  if (status !== 'active') {
    throw new ApiError('APP_SUSPENDED', "the token's App is suspended; ask the operator to resume it");
  }
  if (registration.algorithms !== undefined && !registration.algorithms.includes(algorithm)) {
    throw unauthorized('unsupported_algorithm', `the token's issuer may not sign with ${algorithm}`);
  }
}

/** The first part of row 7. */
async function verifySignature(token: ParsedToken, algorithm: Algorithm, keySet: KeySet): Promise<void> {
  const { kid } = checkHeader(token.header);
  const key = findKey(keySet, algorithm, kid);
  if (key === undefined) {
    const reason = 'not exactly one registered key fits its "kid" and "alg"';
    throw unauthorized('invalid_token', `the token is not valid: ${reason}`);
  }
  try {
    await compactVerify(token.compact, await key.import(algorithm), { algorithms: [algorithm] });
  } catch {
    // A wrong key and a wrong signature mean the same: the capability is not proven. `error` is dropped, because it may quote the token.
    throw unauthorized('invalid_token', 'the token is not valid: its signature does not match');
  }
}

/** The state when the signature was checked. It is valid only while registration and key set are the same objects. */
export interface VerifiedCapability {
  readonly capability: Capability;
  readonly validity: Validity;
  readonly issuer: string;
  /** compared by identity: the registry keeps the object while the App's row is unchanged */
  readonly registration: object;
  /** compared by identity: key sources keep the object while the keys are unchanged */
  readonly keySet: KeySet;
}

/** An LRU in two halves: a hit moves an entry to the newer half, and a full newer half replaces the older one. Failures are not stored. */
export class CapabilityCache {
  #newer = new Map<string, VerifiedCapability>();
  #older = new Map<string, VerifiedCapability>();
  readonly #halfMax: number;

  /** `entriesMax`: at least 2 */
  constructor(entriesMax: number) {
    this.#halfMax = Math.floor(entriesMax / 2);
  }

  find(digest: string): VerifiedCapability | undefined {
    const entry = this.#newer.get(digest);
    if (entry !== undefined) return entry;
    const older = this.#older.get(digest);
    if (older !== undefined) this.store(digest, older);
    return older;
  }

  store(digest: string, entry: VerifiedCapability): void {
    this.#older.delete(digest);
    if (!this.#newer.has(digest) && this.#newer.size >= this.#halfMax) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(digest, entry);
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }
}

/** The cache key: a SHA-256 of what `plainCredential` returns, so that the cache holds no token. */
export function digestCredential(credential: string): string {
  return Bun.SHA256.hash(credential, 'base64');
}

export interface GivenUpload {
  readonly appId: string;
  /** ms */
  readonly expiresAt: number;
  /** the same for all URLs issued to one capability; undefined if the capability has no claim by which it can be revoked */
  readonly holder: string | undefined;
  isHeldBy(claim: RevokedClaim, value: string): boolean;
}

/** The end of each holder's revocation, ms; 0 if none. The registry keeps the revocations of an App while nothing has changed. */
const revokedUntil = new WeakMap<Revocations, Map<string, number>>();

/** Reads no row: it uses the process's copy of the registry. Rejects with FORBIDDEN, or `registry_unavailable` if that is too old. */
export function checkGivenUpload(authorizer: Authorizer, upload: GivenUpload): void | Promise<void> {
  const read = authorizer.registry.read();
  if (read instanceof Promise) return read.then(() => check(authorizer, upload));
  check(authorizer, upload);
}

function check({ registry, world }: Authorizer, upload: GivenUpload): void {
  const registered = registry.findApp(upload.appId);
  if (registered?.status !== 'active') throw refused('its App is suspended or removed');
  if (isRevoked(registered, upload, world.now())) throw refused('the operator has revoked its token');
}

function isRevoked({ revocations }: RegisteredIssuer, upload: GivenUpload, now: number): boolean {
  if (revocations === undefined || upload.holder === undefined) return false;
  const known = revokedUntil.get(revocations) ?? new Map<string, number>();
  revokedUntil.set(revocations, known);
  let until = known.get(upload.holder);
  if (until === undefined) {
    until = findEnd(revocations, upload);
    if (known.size >= 10_000) known.clear();
    known.set(upload.holder, until);
  }
  // A URL that ends before the revocation stays refused, even if clocks differ.
  return now < until || (until > 0 && upload.expiresAt <= until);
}

function findEnd(revocations: Revocations, upload: GivenUpload): number {
  let end = 0;
  for (const claim of ['jti', 'sub'] as const) {
    for (const [value, until] of revocations[claim]) {
      if (until > end && upload.isHeldBy(claim, value)) end = until;
    }
  }
  return end;
}

const refused = (why: string): ApiError =>
  new ApiError('FORBIDDEN', `this upload URL is not good any more: ${why}; lease the node with a good token`);
