/** Keys of Spaces that were computed before: a digest costs more than all else that is done here for the renewal of a lease. */
import type { Space, SpaceKey } from '../../../core/model.ts';
import { spaceKeyOf } from '../../../core/space-key.ts';

/** past it all are forgotten, which costs a digest each */
const SPACES_KNOWN_MAX = 10_000;

export class SpaceKeys {
  readonly #known = new Map<string, SpaceKey>();

  of(space: Space): SpaceKey {
    const { appId, spaceId } = space;
    // The length keeps ids that run together apart.
    const name = `${appId.length}:${appId}${spaceId}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    if (this.#known.size >= SPACES_KNOWN_MAX) this.#known.clear();
    const key = spaceKeyOf(space);
    this.#known.set(name, key);
    return key;
  }
}
