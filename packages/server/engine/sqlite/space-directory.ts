/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import { SpaceMap } from '../../core/space-map.ts';

const SPACES_REMEMBERED_MAX = 20_000;

/** Holds only ids that are committed. */
export class SpaceDirectory extends SpaceMap<number> {
  constructor() {
    super(SPACES_REMEMBERED_MAX);
  }
}
