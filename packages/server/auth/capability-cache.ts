/** Verified capabilities by a digest of their token, so that a signature is checked once (contract section 3). */
import type { Capability, Validity } from './capability.ts';
import type { KeySet } from './key-set.ts';

/** What was true when the signature was checked. It stands only while registration and key set are the very same. */
export interface VerifiedCapability {
  readonly capability: Capability;
  readonly validity: Validity;
  readonly issuer: string;
  /** compared by identity: the registry keeps the object while the App's row says the same */
  readonly registration: object;
  /** compared by identity: key sources keep the object while the keys are the same */
  readonly keySet: KeySet;
}

/** Least recently used entries leave first. Only what was verified gets in: a failure is never remembered. */
export class CapabilityCache {
  readonly #entries = new Map<string, VerifiedCapability>();
  readonly #entriesMax: number;

  constructor(entriesMax: number) {
    this.#entriesMax = entriesMax;
  }

  find(digest: string): VerifiedCapability | undefined {
    const entry = this.#entries.get(digest);
    if (entry === undefined) return undefined;
    // A Map keeps the order of insertion: to the end with what is used.
    this.#entries.delete(digest);
    this.#entries.set(digest, entry);
    return entry;
  }

  store(digest: string, entry: VerifiedCapability): void {
    this.#entries.delete(digest);
    this.#entries.set(digest, entry);
    if (this.#entries.size <= this.#entriesMax) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }

  get size(): number {
    return this.#entries.size;
  }
}

/** The key of a token: its SHA-256, so that no token stays in memory for the cache's sake. */
export function digestToken(token: string): string {
  return Bun.CryptoHasher.hash('sha256', token, 'base64');
}
