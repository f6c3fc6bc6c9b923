/** A bounded map from Space to value that builds no string to find one. */
import { bytesToHash } from '@holdfast/protocol';
import type { Space, SpaceKey } from './model.ts';
import { sha256 } from './signer.ts';

/** The length before the first id tells apart pairs of ids that would join to the same text. */
export function spaceKeyOf({ appId, spaceId }: Space): SpaceKey {
  return bytesToHash(sha256(`${appId.length}:${appId}${spaceId}`)).slice(0, 32);
}

export class SpaceMap<T> {
  readonly #apps = new Map<string, Map<string, T>>();
  readonly #spacesMax: number;
  #size = 0;

  /** Beyond `spacesMax` the map forgets all Spaces of the App that was added first. */
  constructor(spacesMax: number) {
    this.#spacesMax = spacesMax;
  }

  find({ appId, spaceId }: Space): T | undefined {
    return this.#apps.get(appId)?.get(spaceId);
  }

  remember({ appId, spaceId }: Space, value: T): void {
    if (this.#size >= this.#spacesMax) this.#forgetOldestApp();
    const spaces = this.#apps.get(appId) ?? new Map<string, T>();
    if (!spaces.has(spaceId)) this.#size += 1;
    this.#apps.set(appId, spaces.set(spaceId, value));
  }

  #forgetOldestApp(): void {
    for (const [appId, spaces] of this.#apps) {
      this.#apps.delete(appId);
      this.#size -= spaces.size;
      return;
    }
  }
}
