/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import type { Space } from '../../core/model.ts';
import { SpaceMap } from '../../core/space-map.ts';

const SPACES_REMEMBERED_MAX = 20_000;

/** Ids hold no control characters (contract section 3), and even if they did, the length keeps two pairs apart. */
export function spaceKey(space: Space): string {
  return `${space.appId.length}:${space.appId}:${space.spaceId}`;
}

/** Only of ids that are committed. */
export class SpaceDirectory extends SpaceMap<number> {
  constructor() {
    super(SPACES_REMEMBERED_MAX);
  }
}
