/** Verified capabilities by a digest of their token, so that a signature is checked once (docs/api.md, Capabilities). */
import type { Capability, Validity } from './capability.ts';
import type { KeySet } from './key-set.ts';

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
