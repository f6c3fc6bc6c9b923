/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import type { Space } from '../../core/model.ts';
import { isSum, mixValues } from '../../core/rows/row-sum.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import { SpaceMap } from '../../core/space-map.ts';
import { damagedRow } from './rows.ts';
import type { SqlRow } from './statements.ts';

/** The sum of what never changes in the row of a Space. */
export function spaceNameSum(id: number, { appId, spaceId }: Space): number {
  return mixValues([id, appId, spaceId]);
}

/** What damaged rows were the rows of. */
export interface LostNames {
  /** by `spaceKeyOf` */
  readonly spaces: ReadonlySet<string>;
  /** the id of the Space, a space, and the domain */
  readonly domains: ReadonlySet<string>;
  /** there are rows that may have been those of any name */
  readonly isSpaceUnknown: boolean;
  readonly isDomainUnknown: boolean;
}

const NONE_LOST: LostNames = {
  ...{ spaces: new Set(), domains: new Set(), isSpaceUnknown: false, isDomainUnknown: false },
};

/** Holds only ids that are committed. */
export class SpaceDirectory extends SpaceMap<number> {
  readonly #lost: LostNames;

  constructor(lost: LostNames = NONE_LOST) {
    super(20_000);
    this.#lost = lost;
  }

  /** What a row says. `null`: there is none. @throws StoreUnavailable, as damage, if there is one that is damaged */
  idOf(space: Space, row: SqlRow | null): number | undefined {
    if (row === null) {
      const { isSpaceUnknown, spaces } = this.#lost;
      if (isSpaceUnknown || spaces.has(spaceKeyOf(space))) throw damagedSpace(space);
      return undefined;
    }
    const id = row.id as number;
    if (!isSum(row.name_sum, spaceNameSum(id, space))) throw damagedSpace(space);
    return id;
  }

  /** Call if a domain has no row. @throws StoreUnavailable, as damage, if its row is there with another name */
  assertNoneLost(spaceId: number, domain: string): void {
    const { isDomainUnknown, domains } = this.#lost;
    if (isDomainUnknown || (domains.size > 0 && domains.has(`${spaceId} ${domain}`)))
      throw damagedRow('the domain', JSON.stringify(domain));
  }
}

const damagedSpace = ({ spaceId }: Space) => damagedRow('the Space', JSON.stringify(spaceId));

const namesOf = (row: SqlRow): Space => ({
  appId: row.app_id as string,
  spaceId: row.space_id as string,
});

export function isSpaceSound(row: SqlRow): boolean {
  return isSum(row.name_sum, spaceNameSum(row.id as number, namesOf(row)));
}

/** The names of the row. @throws StoreUnavailable, as damage */
export function spaceOf(row: SqlRow): Space {
  if (isSpaceSound(row)) return namesOf(row);
  throw damagedSpace(namesOf(row));
}
