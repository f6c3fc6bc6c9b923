/**
 * The hashes of which this process saw an upload last. It decides nothing: a lease of such a hash most likely looks at that upload, so
 * it neither tries to renew a ready row first nor counts uploads as if it would open one. If another process has changed the hash, the
 * lease takes more round trips once.
 */
import type { Hash } from '@holdfast/protocol';
import type { SpaceKey } from '../../core/model.ts';

const SEEN_MAX = 16_384;

export class SeenUploads {
  /** the oldest first */
  readonly #seen = new Set<string>();

  has(space: SpaceKey, hash: Hash): boolean {
    return this.#seen.has(space + hash);
  }

  note(space: SpaceKey, hash: Hash, isThere: boolean): void {
    if (!isThere) this.#seen.delete(space + hash);
    else if (this.#seen.add(space + hash).size > SEEN_MAX) {
      for (const oldest of this.#seen) return void this.#seen.delete(oldest);
    }
  }
}
