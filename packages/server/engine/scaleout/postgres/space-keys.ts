/** Keys of Spaces that were computed before: a digest costs more than all else that is done here for the renewal of a lease. */
import type { Space, SpaceKey } from '../../../core/model.ts';
import { spaceKeyOf } from '../../../core/space-key.ts';

/** past it all are forgotten, which costs a digest each */
const SPACES_KNOWN_MAX = 10_000;

export class SpaceKeys {
  /** by App, then by Space */
  readonly #known = new Map<string, Map<string, SpaceKey>>();
  #count = 0;

  of(space: Space): SpaceKey {
    return this.#known.get(space.appId)?.get(space.spaceId) ?? this.#learn(space);
  }

  #learn(space: Space): SpaceKey {
    if (this.#count >= SPACES_KNOWN_MAX) {
      this.#known.clear();
      this.#count = 0;
    }
    const key = spaceKeyOf(space);
    const ofApp = this.#known.get(space.appId) ?? new Map<string, SpaceKey>();
    this.#known.set(space.appId, ofApp.set(space.spaceId, key));
    this.#count += 1;
    return key;
  }
}
