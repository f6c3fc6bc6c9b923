/** Remembers the keys of Spaces: computing the digest costs more than everything else this process does for a renewal. */
import type { Space, SpaceKey } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import { SpaceMap } from '../../core/space-map.ts';

export class SpaceKeys {
  readonly #known = new SpaceMap<SpaceKey>(10_000);

  of(space: Space): SpaceKey {
    return this.#known.find(space) ?? this.#learn(space);
  }

  #learn(space: Space): SpaceKey {
    const key = spaceKeyOf(space);
    this.#known.remember(space, key);
    return key;
  }
}
