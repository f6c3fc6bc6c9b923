/**
 * Removes everything in a Space whose App is not served. Root refs go first, then uploads and nodes from the roots down, as a
 * collection takes them, but leases do not protect. Each step is bounded and leaves all counts true: a purge that ends at any
 * instant goes on with the next call, and a Space that is served again meanwhile has fewer nodes and nothing wrong.
 */
import { type Claims, claimCandidates, findLeftoverClaims, finishClaims } from './collection.ts';
import type { Core } from './core.ts';
import type { Space } from './model.ts';
import { sweepPacks } from './packs/sweep-packs.ts';
import type { SpaceTransaction } from './ports.ts';
import { isDamage } from './store-failure.ts';
import { deleteDiscards, findAbandoned, forgetAbandoned, ROWS_PER_TRANSACTION_MAX } from './sweep.ts';

/** Everything is as old as that. */
const EVER = Number.MAX_SAFE_INTEGER;

export interface PurgeStep {
  /** nodes removed by this call */
  readonly nodes: number;
  readonly isFinished: boolean;
}

/** Works until nothing is left, or until `mayGoOn` says no. Throws what a store throws; everything done before stays done. */
export async function purgeSpace(
  core: Core,
  space: Space,
  mayGoOn: () => Promise<boolean>,
): Promise<PurgeStep> {
  const steps: readonly (() => Promise<number>)[] = [
    () => core.metadata.transact(space, takeRootRefs, ROWS_PER_TRANSACTION_MAX),
    async () => {
      const ended = await core.metadata.transact(space, findAbandoned, EVER);
      const uploads = core.content.upload.kind;
      return core.metadata.transact(space, forgetAbandoned, { abandonedAt: EVER, ended, uploads });
    },
    () => finishLeftovers(core, space),
    () => takeNodes(core, space),
    () => sweepPacks(core, space, EVER),
    () => deleteDiscards(core, space),
    () => core.metadata.transact(space, removeHistory, ROWS_PER_TRANSACTION_MAX),
  ];
  const count = async (): Promise<number> => (await core.metadata.readCounters(space)).nodeCount;
  const before = await count();
  for (const step of steps) {
    do {
      if (!(await mayGoOn())) return { nodes: before - (await count()), isFinished: false };
    } while ((await step()) > 0);
  }
  const left = await count();
  return { nodes: before - left, isFinished: left === 0 };
}

/** Balances go in all domains together, so that no aggregate becomes negative on the way. */
export async function takeRootRefs(tx: SpaceTransaction, limit: number): Promise<number> {
  const hashes = await tx.purging.takeBalances(limit);
  for (const row of await tx.findNodes(hashes)) {
    if (row !== undefined) await tx.updateNode(row, { ...row, rootRefCount: 0, heldDomainCount: 0 });
  }
  return hashes.length;
}

export async function removeHistory(tx: SpaceTransaction, limit: number): Promise<number> {
  return tx.purging.removeHistory(limit);
}

async function takeNodes(core: Core, space: Space): Promise<number> {
  const claim = (isDamaged: boolean): Promise<Claims> =>
    core.metadata.transact(space, claimCandidates, {
      ...{ limit: ROWS_PER_TRANSACTION_MAX, uploads: core.content.upload.kind },
      ...{ isDamaged, withLeased: true },
    });
  const claims = await claim(false).catch((error: unknown) => {
    if (!isDamage(error)) throw error;
    return claim(true);
  });
  await finish(core, space, claims);
  return claims.found;
}

async function finishLeftovers(core: Core, space: Space): Promise<number> {
  const claims = await core.metadata.transact(space, findLeftoverClaims, {
    limit: ROWS_PER_TRANSACTION_MAX,
    withHeld: true,
  });
  await finish(core, space, claims);
  return claims.found;
}

async function finish(core: Core, space: Space, claims: Claims): Promise<void> {
  const { failure } = await finishClaims(core, space, claims);
  if (failure !== undefined) throw failure;
}
