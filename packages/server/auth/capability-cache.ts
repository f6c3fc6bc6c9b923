/** Verified capabilities by a digest of their token, so that a signature is checked once (docs/api.md, Capabilities). */
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

/**
 * Two halves: what is asked for moves to the newer one; when that is full the older is dropped and the newer takes its place.
 * So what nobody asked for leaves first, and finding an entry again, as nearly every request does, changes nothing. Only
 * what was verified gets in: a failure is never remembered.
 */
export class CapabilityCache {
  #newer = new Map<string, VerifiedCapability>();
  #older = new Map<string, VerifiedCapability>();
  readonly #halfMax: number;

  /** `entriesMax`: 2 at least */
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

/** The key of a token, written as `plainCredential` gives it: a SHA-256, so that no token stays in memory for the cache's sake. */
export function digestCredential(credential: string): string {
  return Bun.SHA256.hash(credential, 'base64');
}
