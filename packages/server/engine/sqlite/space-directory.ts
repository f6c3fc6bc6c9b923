/** The integer ids of Spaces. An id is given by the first write of a Space and never changes, so it may be remembered. */
import type { Space } from '../../core/model.ts';
import { isSum, mixValues } from '../../core/rows/row-sums.ts';
import { SpaceMap } from '../../core/space-map.ts';
import { damagedRow } from './rows.ts';
import type { SqlRow } from './statements.ts';

/** The sum of what never changes in the row of a Space. */
export function spaceNameSum(id: number, { appId, spaceId }: Space): number {
  return mixValues([id, appId, spaceId]);
}

/** The Spaces and domains of damaged rows. It can be copied to a thread. */
export interface LostNames {
  readonly spaces: readonly LostSpace[];
  readonly domains: readonly LostDomain[];
  /** the table or its index cannot be read: any name may have a row that is not found */
  readonly isSpaceUnknown: boolean;
  readonly isDomainUnknown: boolean;
}

/** `isProven`: the Space has this name. Otherwise one of the two ids is wrong, and it is unknown which. */
interface LostSpace extends Space {
  readonly isProven: boolean;
}

interface LostDomain {
  readonly spaceId: number;
  readonly domain: string;
  readonly isProven: boolean;
}

const NONE_LOST: LostNames = { spaces: [], domains: [], isSpaceUnknown: false, isDomainUnknown: false };

export interface NameLook {
  look(): LostNames;
  /** changes if another process changes the file; absent if others may change it at any time */
  findVersion?(): number;
}

/** Holds only ids that are committed. */
export class SpaceDirectory extends SpaceMap<number> {
  #lost: LostNames;
  readonly #again: NameLook | undefined;
  #version: number | undefined;
  #nextLookAt = 0;

  /** `lost`: as they were when the database was opened */
  constructor(lost: LostNames = NONE_LOST, again?: NameLook) {
    super(20_000);
    this.#lost = lost;
    this.#again = again;
  }

  /** The id in a row; undefined if `row` is null. @throws StoreUnavailable, as damage, if there is one that is damaged */
  idOf(space: Space, row: SqlRow | null): number | undefined {
    if (row === null) {
      const { isSpaceUnknown, spaces } = this.#findLost();
      const isLost = ({ appId, spaceId, isProven }: LostSpace): boolean =>
        isOneOf(isProven, appId === space.appId, spaceId === space.spaceId);
      if (isSpaceUnknown || spaces.some(isLost)) throw damagedSpace(space);
      return undefined;
    }
    const id = row.id as number;
    if (!isSum(row.name_sum, spaceNameSum(id, space))) throw damagedSpace(space);
    return id;
  }

  /** Call if a domain has no row. @throws StoreUnavailable, as damage, if its row is there with another name */
  assertNoneLost(spaceId: number, domain: string): void {
    const { isDomainUnknown, domains } = this.#findLost();
    const isLost = (lost: LostDomain): boolean =>
      isOneOf(lost.isProven, lost.spaceId === spaceId, lost.domain === domain);
    if (isDomainUnknown || domains.some(isLost)) throw damagedRow('the domain', JSON.stringify(domain));
  }

  /** A value may have become wrong since the database was opened. */
  #findLost(): LostNames {
    const { isSpaceUnknown, isDomainUnknown } = this.#lost;
    if (this.#again === undefined || (isSpaceUnknown && isDomainUnknown)) return this.#lost;
    const startedAt = performance.now();
    const version = this.#again.findVersion?.();
    if (version === this.#version && startedAt < this.#nextLookAt) return this.#lost;
    this.#version = version;
    const found = this.#again.look();
    this.#lost = {
      ...found,
      isSpaceUnknown: isSpaceUnknown || found.isSpaceUnknown,
      isDomainUnknown: isDomainUnknown || found.isDomainUnknown,
    };
    const tookMs = performance.now() - startedAt;
    // The next look waits 100 times as long as this one took, unless the file changed. A look that took over 50 ms is the last
    // one.
    this.#nextLookAt = tookMs > 50 ? Number.POSITIVE_INFINITY : startedAt + 100 * tookMs;
    return this.#lost;
  }
}

const isOneOf = (isProven: boolean, first: boolean, second: boolean): boolean =>
  isProven ? first && second : first || second;

const damagedSpace = ({ spaceId }: Space) => damagedRow('the Space', JSON.stringify(spaceId));

const namesOf = (row: SqlRow): Space => ({
  appId: row.app_id as string,
  spaceId: row.space_id as string,
});

/** The names in a row. undefined: there is no row, or it is damaged, so nobody can ask for the Space. */
export function findSpaceOf(row: SqlRow | null): Space | undefined {
  if (row === null) return undefined;
  const space = namesOf(row);
  return isSum(row.name_sum, spaceNameSum(row.id as number, space)) ? space : undefined;
}
