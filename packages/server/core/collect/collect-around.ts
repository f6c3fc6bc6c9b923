/** Collection in a Space with damaged rows: a query for candidates fails as a whole, so all nodes are read in order and picked by hash. */
import { groupsOf, type Hash, refsToHashes } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import type { Core } from '../core.ts';
import type { NodeRow, Space } from '../model.ts';
import { isEligible } from '../node-row.ts';
import { orIfDamaged } from '../store-failure.ts';

export interface WalkAround {
  isWanted(row: NodeRow, now: number): boolean;
  /** where the walk starts; it wraps around from the first node to there; absent: at the first node */
  readonly start?: Hash;
  /** left out: all */
  readonly pagesMax?: number;
}

/** The nodes that a collection may take or has claimed before. */
export const mayGo: WalkAround['isWanted'] = (row, now) => row.state === 'claimed' || isEligible(row, now);

export interface PageAround {
  /** the wanted nodes of the page */
  readonly rows: readonly NodeRow[];
  /** its nodes that cannot be read */
  readonly unreadable: readonly Hash[];
}

/** Reads the nodes of a Space page by page. Rejects with damage if that leaves no way on. */
export async function* findAround(
  core: Core,
  space: Space,
  { isWanted, start, pagesMax = Number.POSITIVE_INFINITY }: WalkAround,
): AsyncGenerator<PageAround, void> {
  let after = start;
  let isLastPart = start === undefined;
  for (let page = 0; page < pagesMax; page += 1) {
    const from = after;
    const { next, ...found } = await core.metadata.inspect(space, async (snapshot) => {
      const { nodes, unreadable, next } = await snapshot.readNodesAround(from, 500);
      const rows = nodes.map(({ row }) => row).filter((row) => isWanted(row, snapshot.now));
      return { rows, unreadable: hashesOf(unreadable), next };
    });
    yield found;
    if (isLastPart && (next === undefined || (start !== undefined && next >= start))) return;
    isLastPart ||= next === undefined;
    after = next;
  }
}

/** Takes nodes, then the children of those that `take` reports as deleted. `findRoom`: how many more may be tried; ends at 0. */
export async function takeDown(
  hashes: readonly Hash[],
  findRoom: () => Awaitable<number>,
  take: (few: readonly Hash[]) => Promise<readonly NodeRow[]>,
): Promise<void> {
  const left = hashes.toReversed();
  while (left.length > 0) {
    const room = Math.min(await findRoom(), 100);
    if (room <= 0) return;
    const some = new Set(left.splice(-room).reverse());
    for (const { refs } of await forFew([...some], take)) left.push(...refsToHashes(refs));
  }
}

/** Runs `work` for a few of `hashes` at a time. On damage it runs for each alone, and skips the damaged. */
export async function forFew<T>(
  hashes: readonly Hash[],
  work: (few: readonly Hash[]) => Promise<readonly T[]>,
): Promise<readonly T[]> {
  const done: T[] = [];
  // Eight at a time, so that a damaged one fails few others.
  for (const few of groupsOf(hashes, 8)) done.push(...(await orOneByOne(few, work)));
  return done;
}

async function orOneByOne<T>(
  hashes: readonly Hash[],
  work: (few: readonly Hash[]) => Promise<readonly T[]>,
): Promise<readonly T[]> {
  return orIfDamaged(
    () => work(hashes),
    async () => {
      if (hashes.length <= 1) return [];
      const done: T[] = [];
      for (const hash of hashes) done.push(...(await orOneByOne([hash], work)));
      return done;
    },
  );
}

export const hashesOf = (rows: readonly { readonly hash: Hash }[]): readonly Hash[] =>
  rows.map(({ hash }) => hash);
