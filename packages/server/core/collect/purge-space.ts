/**
 * Removes everything in a Space whose App is not served. Root refs go first, then uploads and nodes from the roots down, as a
 * collection takes them, but leases do not protect. Each step is bounded and leaves all counts true: a purge that ends at any
 * instant goes on with the next call, and a Space that is served again meanwhile has fewer nodes and nothing wrong.
 */
import { ApiError, countOf, type Hash } from '@holdfast/protocol';
import { PAGE_ROWS, ROWS_PER_TRANSACTION_MAX } from '../batches.ts';
import { replacementRulesOf } from '../contents.ts';
import type { Core } from '../core.ts';
import type { NodeRow, Space } from '../model.ts';
import { isCollectable } from '../node-row.ts';
import type { SpaceTransaction } from '../ports.ts';
import { isDamage, orIfDamaged } from '../store-failure.ts';
import { PUT_DURATION_MS_MAX } from '../upload-ports.ts';
import { findAround, forFew, hashesOf, takeDown } from './collect-around.ts';
import { type Claims, claimCandidates, claimNodes, findLeftoverClaims, finishClaims } from './collection.ts';
import { deleteDiscards, findAbandoned, forgetAbandoned } from './sweep.ts';
import { sweepPacks } from './sweep-packs.ts';

/** Everything is as old as that. */
const EVER = Number.MAX_SAFE_INTEGER;
export interface PurgeStep {
  readonly nodes: number;
  readonly left: number;
  readonly isFinished: boolean;
}

/** Whether the purge may continue now. `isAround`: it has met damage, so the next call would start again. */
type MayGoOn = (isAround: boolean) => Promise<boolean>;

interface Part {
  /** each bounded; resolves with 0 when nothing is left of it */
  readonly steps: readonly (() => Promise<number>)[];
  /** all that can be done of the part beside damaged rows, once a step has met one; left out: nothing */
  around?(mayGoOn: MayGoOn): Promise<void>;
}

/** Works until nothing is left or `mayGoOn` says no. Completed work stays done. Damage affects only its part; then it throws 503. */
export async function purgeSpace(core: Core, space: Space, mayGoOn: MayGoOn): Promise<PurgeStep> {
  // The other counts look at rows of nodes, which may be damaged.
  const count = () =>
    core.metadata.inspect(space, async (snapshot) => (await snapshot.readKeptCounters()).nodeCount);
  const before = await count();
  let damage: unknown;
  /** Resolves with what is damaged; undefined if it met no damage. */
  const orDamage = (work: () => Promise<void>): Promise<unknown> => orIfDamaged(work, (met) => met);
  for (const { steps, around } of partsOf(core, space)) {
    const met = await orDamage(async () => {
      for (const step of steps) while ((await mayGoOn(damage !== undefined)) && (await step()) > 0);
    });
    damage ??= met;
    if (met !== undefined && around !== undefined) await orDamage(() => around(mayGoOn));
    if (!(await mayGoOn(damage !== undefined))) {
      const left = await count();
      return { nodes: Math.max(0, before - left), left, isFinished: false };
    }
  }
  const left = await count();
  // More may have come meanwhile than was removed.
  const removed = Math.max(0, before - left);
  // Rows that are not believed are passed over, and nothing else is left: another call would find the same.
  if (damage !== undefined || left > 0) throw incomplete(removed, left, damage);
  return { nodes: removed, left, isFinished: true };
}

function incomplete(removed: number, left: number, cause: unknown): ApiError {
  const counted = `${countOf(removed, 'node was', 'nodes were')} removed, and ${countOf(left, 'is', 'are')} left`;
  const message =
    cause === undefined
      ? `${counted}: some came during the purge, or their counts are wrong; run the same command again, and holdfast check if they stay`
      : `rows of this Space cannot be read: ${counted} that are damaged or keep others; mend what is damaged, then run the same command again`;
  return new ApiError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds: 2, cause });
}

function partsOf(core: Core, space: Space): readonly Part[] {
  return [
    {
      steps: [() => core.metadata.transact(space, takeRootRefs, { limit: ROWS_PER_TRANSACTION_MAX })],
      around: (mayGoOn) => takeRootRefsAround(core, space, mayGoOn),
    },
    {
      steps: [
        () => dropUnpublished(core, space),
        () => finishLeftovers(core, space),
        makeTakeNodes(core, space),
      ],
      around: async (mayGoOn) => {
        // Without the waiting parents, which are left to the walk over the nodes.
        while ((await mayGoOn(true)) && (await dropUnpublished(core, space, [])) > 0);
        while ((await takeNodesAround(core, space, mayGoOn)) > 0);
      },
    },
    { steps: [() => sweepPacks(core, space, EVER, { ...replacementRulesOf(core), keepReplacedMs: 0 })] },
    {
      steps: [
        () => core.metadata.transact(space, hastenDiscards, ROWS_PER_TRANSACTION_MAX),
        makeDeleteDiscards(core, space),
      ],
    },
    {
      steps: [
        () => core.metadata.transact(space, removeHistory, ROWS_PER_TRANSACTION_MAX),
        () => core.metadata.transact(space, finishPurge),
      ],
    },
  ];
}

/** An object whose URL is still good is deleted once: the sweep deletes it again until the URL ends. */
function makeDeleteDiscards(core: Core, space: Space): () => Promise<number> {
  let judgedAt: number | undefined;
  return async () => {
    judgedAt ??= await core.metadata.readClock();
    return deleteDiscards(core, space, judgedAt);
  };
}

interface RootRefsWanted {
  readonly limit: number;
  /** only those of these nodes */
  readonly hashes?: readonly Hash[];
}

/** Balances go in all domains together, so that no aggregate becomes negative on the way. */
export async function takeRootRefs(
  tx: SpaceTransaction,
  { limit, hashes: given }: RootRefsWanted,
): Promise<number> {
  const hashes = await tx.purging.takeBalances(given ?? limit);
  for (const row of await tx.findNodes(hashes)) {
    if (row !== undefined) await tx.update('node', row, { ...row, rootRefCount: 0, heldDomainCount: 0 });
  }
  return hashes.length;
}

/** An unreadable node keeps its balances: after its repair both are removed together. */
async function takeRootRefsAround(core: Core, space: Space, mayGoOn: MayGoOn): Promise<void> {
  const domains = await core.metadata.inspect(space, async (snapshot) => snapshot.readDomains());
  for (const { domain } of domains) {
    for (let after: Hash | undefined; await mayGoOn(true); ) {
      const from = after;
      const page = await core.metadata.inspect(space, async (snapshot) =>
        snapshot.readBalances(domain, from, PAGE_ROWS),
      );
      const hashes = hashesOf(page);
      await forFew(hashes, async (few) => {
        await core.metadata.transact(space, takeRootRefs, { limit: few.length, hashes: few });
        return few;
      });
      after = hashes.at(-1);
      if (page.length < PAGE_ROWS) break;
    }
  }
}

/** Retained replaced bytes are deleted now. Uploads that may still be in progress are left to the sweep, which waits for them. */
export async function hastenDiscards(tx: SpaceTransaction, limit: number): Promise<number> {
  const kept = await tx.purging.findKeptDiscards(tx.now + PUT_DURATION_MS_MAX, limit);
  for (const row of kept) await tx.insert('discard', { ...row, dueAt: tx.now });
  return kept.length;
}

export async function removeHistory(tx: SpaceTransaction, limit: number): Promise<number> {
  return tx.purging.removeHistory(limit);
}

/** Resolves with 0: nothing is left of it. */
export async function finishPurge(tx: SpaceTransaction): Promise<number> {
  await tx.purging.finish();
  return 0;
}

/** Uploads, and the parents that wait: those that are given, or all. */
async function dropUnpublished(core: Core, space: Space, parents?: readonly Hash[]): Promise<number> {
  const ended = await core.metadata.transact(space, findAbandoned, EVER);
  const uploads = core.content.upload.kind;
  const given = parents === undefined ? {} : { parents };
  return core.metadata.transact(space, forgetAbandoned, { abandonedAt: EVER, ended, uploads, ...given });
}

function makeTakeNodes(core: Core, space: Space): () => Promise<number> {
  let from = 0;
  const claim = (isDamaged: boolean): Promise<Claims> =>
    core.metadata.transact(space, claimCandidates, {
      ...{ limit: ROWS_PER_TRANSACTION_MAX, uploads: core.content.upload.kind },
      ...{ isDamaged, withLeased: true, from },
    });
  const take = async (): Promise<number> => {
    const claims = await orIfDamaged(
      () => claim(false),
      () => claim(true),
    );
    const isFromStart = from === 0;
    from = Math.min(claims.next, await finish(core, space, claims));
    return claims.found > 0 || isFromStart ? claims.found : take();
  };
  return take;
}

async function finishLeftovers(core: Core, space: Space): Promise<number> {
  const claims = await core.metadata.transact(space, findLeftoverClaims, {
    limit: ROWS_PER_TRANSACTION_MAX,
    withHeld: true,
  });
  await finish(core, space, claims);
  return claims.found;
}

async function finish(core: Core, space: Space, claims: Claims): Promise<number> {
  const { failure, next } = await finishClaims(core, space, claims);
  if (failure !== undefined) throw failure;
  return next;
}

/** Removes the top nodes, then the nodes that they kept. Resolves with the number of removed nodes. */
async function takeNodesAround(core: Core, space: Space, mayGoOn: MayGoOn): Promise<number> {
  let count = 0;
  const findRoom = async (): Promise<number> => ((await mayGoOn(true)) ? ROWS_PER_TRANSACTION_MAX : 0);
  const isWanted = (row: NodeRow): boolean =>
    row.state === 'waiting' || row.state === 'claimed' || isCollectable(row);
  for await (const { rows } of findAround(core, space, { isWanted })) {
    const take = async (few: readonly Hash[]): Promise<readonly NodeRow[]> => {
      const waiting = rows.filter(({ state, hash }) => state === 'waiting' && few.includes(hash));
      if (waiting.length > 0) await dropUnpublished(core, space, hashesOf(waiting));
      const claims = await core.metadata.transact(space, claimNodes, { hashes: few, withLeased: true });
      const { forgotten, failure } = await finishClaims(core, space, claims);
      if (failure !== undefined && !isDamage(failure)) throw failure;
      count += waiting.length + forgotten.length;
      return [...waiting, ...forgotten];
    };
    await takeDown(hashesOf(rows), findRoom, take);
    if ((await findRoom()) === 0) return 0;
  }
  return count;
}
