/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import type { Space } from '../../core/model.ts';

const SPACES_REMEMBERED_MAX = 20_000;

/** Ids hold no control characters (contract section 3), and even if they did, the length keeps two pairs apart. */
export function spaceKey(space: Space): string {
  return `${space.appId.length}:${space.appId}:${space.spaceId}`;
}

export class SpaceDirectory {
  readonly #ids = new Map<string, number>();

  find(space: Space): number | undefined {
    return this.#ids.get(spaceKey(space));
  }

  /** Only ids that are committed. */
  remember(space: Space, id: number): void {
    if (this.#ids.size >= SPACES_REMEMBERED_MAX) {
      const oldest = this.#ids.keys().next().value;
      if (oldest !== undefined) this.#ids.delete(oldest);
    }
    this.#ids.set(spaceKey(space), id);
  }
}
