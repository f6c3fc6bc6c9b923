/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import type { Space } from '../../core/model.ts';

const SPACES_REMEMBERED_MAX = 20_000;

/** Ids hold no control characters (contract section 3), and even if they did, the length keeps two pairs apart. */
export function spaceKey(space: Space): string {
  return `${space.appId.length}:${space.appId}:${space.spaceId}`;
}

export class SpaceDirectory {
  /** App → Space → id: nothing is put together for a look */
  readonly #apps = new Map<string, Map<string, number>>();
  #size = 0;

  find(space: Space): number | undefined {
    return this.#apps.get(space.appId)?.get(space.spaceId);
  }

  /** Only ids that are committed. */
  remember({ appId, spaceId }: Space, id: number): void {
    if (this.#size >= SPACES_REMEMBERED_MAX) this.#forgetOldestApp();
    let spaces = this.#apps.get(appId);
    if (spaces === undefined) {
      spaces = new Map();
      this.#apps.set(appId, spaces);
    }
    if (!spaces.has(spaceId)) this.#size += 1;
    spaces.set(spaceId, id);
  }

  #forgetOldestApp(): void {
    for (const [appId, spaces] of this.#apps) {
      this.#apps.delete(appId);
      this.#size -= spaces.size;
      return;
    }
  }
}
