/**
 * A collection of a Space with damaged rows. Its candidates cannot be asked for, because one damaged row fails the whole query. So
 * the nodes are read in the order of their hashes, around those that cannot be read, and each that may go is claimed by its hash.
 */
import type { Hash } from '@holdfast/protocol';
import { type Claims, claimNodes } from './collection.ts';
import type { Core } from './core.ts';
import { isEligible } from './eligibility.ts';
import type { Space } from './model.ts';
import { isDamage } from './store-failure.ts';

const PAGE_ROWS = 500;
/** Few, so that damage fails few claims. */
const CLAIMS_PER_TRANSACTION = 8;

export interface ClaimsAround {
  readonly claims: readonly Claims[];
  /** after which the next page begins; undefined: this was the last one */
  readonly next: Hash | undefined;
}

/** Claims at most `limit` nodes of the page after `after`. A node whose claim meets damage stays as it is. */
export async function claimAround(
  core: Core,
  space: Space,
  after: Hash | undefined,
  limit: number,
): Promise<ClaimsAround> {
  const { hashes, next } = await core.metadata.inspect(space, async (snapshot) => {
    const page = await snapshot.readNodesAround(after, PAGE_ROWS);
    const takable = page.nodes.filter(({ row }) => row.state === 'claimed' || isEligible(row, snapshot.now));
    return { hashes: takable.map(({ row }) => row.hash), next: page.next };
  });
  const wanted = hashes.slice(0, limit);
  const claims: Claims[] = [];
  for (let start = 0; start < wanted.length; start += CLAIMS_PER_TRANSACTION) {
    claims.push(...(await claimSome(core, space, wanted.slice(start, start + CLAIMS_PER_TRANSACTION))));
  }
  return { claims, next };
}

async function claimSome(core: Core, space: Space, hashes: readonly Hash[]): Promise<readonly Claims[]> {
  try {
    return [await core.metadata.transact(space, claimNodes, hashes)];
  } catch (error) {
    if (!isDamage(error)) throw error;
    if (hashes.length <= 1) return [];
    const claims: Claims[] = [];
    for (const hash of hashes) claims.push(...(await claimSome(core, space, [hash])));
    return claims;
  }
}
