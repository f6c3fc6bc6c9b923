/** Remembers the keys of Spaces: computing the digest costs more than everything else this process does for a renewal. */
import type { Space, SpaceKey } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import { SpaceMap } from '../../core/space-map.ts';

const SPACES_KNOWN_MAX = 10_000;

export class SpaceKeys {
  readonly #known = new SpaceMap<SpaceKey>(SPACES_KNOWN_MAX);

  of(space: Space): SpaceKey {
    return this.#known.find(space) ?? this.#learn(space);
  }

  #learn(space: Space): SpaceKey {
    const key = spaceKeyOf(space);
    this.#known.remember(space, key);
    return key;
  }
}
