/** Lists what a pass of runGc would delete now: it runs the pass itself in one transaction that always ends in an error. */
import { type GcResult, type Hash, refsToHashes } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { NodeRow, Space } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { isPageDamage, orIfDamaged } from '../store-failure.ts';
import type { UploadKind } from '../upload-ports.ts';
import { findAround, hashesOf, mayGo } from './collect-around.ts';
import {
  type Claims,
  claimCandidates,
  claimNodes,
  type FinishedClaims,
  findLeftoverClaims,
  settleClaims,
} from './collection.ts';
import { Pass, type PassSteps } from './run-gc.ts';

export interface GcPlan extends GcResult {
  /** in the order in which the pass forgets them */
  readonly nodes: readonly { readonly hash: Hash; readonly contentBytes: number }[];
  /** why nodes are left out that cannot be read; undefined: none are */
  readonly damage: unknown;
}

/** Ends the transaction of a plan, and carries its result out of it. */
export class OnlyPlanned extends Error {
  override readonly name = 'OnlyPlanned';
  readonly plan: GcPlan;

  constructor(plan: GcPlan) {
    super('a plan of a collection changes nothing');
    this.plan = plan;
  }
}

/** Holds the Space's writer. Assumes that every object can be deleted. Damaged nodes are left out, with the parents that they keep. */
export async function planGc(core: Core, space: Space, maxNodes: number): Promise<GcPlan> {
  const plan = async (around?: NodesAround): Promise<GcPlan> => {
    const uploads = core.content.upload.kind;
    try {
      return await core.metadata.transact(space, planPass, { maxNodes, uploads, around });
    } catch (error) {
      if (error instanceof OnlyPlanned) return error.plan;
      throw error;
    }
  };
  const planAround = async (damage: unknown): Promise<GcPlan> => {
    const hashes: Hash[] = [];
    const unreadable = new Set<Hash>();
    for await (const page of findAround(core, space, { isWanted: mayGo })) {
      hashes.push(...hashesOf(page.rows));
      for (const hash of page.unreadable) unreadable.add(hash);
    }
    const parts = await planParts(hashes, (some) =>
      plan({ hashes: some, unreadable, areUndoubted: isPageDamage(damage) }),
    );
    return { ...sumOf(parts, maxNodes), damage };
  };
  return orIfDamaged(plan, planAround);
}

/** In one part if there is no damage; else in halves, down to the nodes that cannot be planned. */
async function planParts(
  hashes: readonly Hash[],
  plan: (some: readonly Hash[]) => Promise<GcPlan>,
): Promise<readonly GcPlan[]> {
  const planHalves = async (): Promise<readonly GcPlan[]> => {
    if (hashes.length <= 1) return [];
    const middle = hashes.length >> 1;
    return [
      ...(await planParts(hashes.slice(0, middle), plan)),
      ...(await planParts(hashes.slice(middle), plan)),
    ];
  };
  return orIfDamaged(async () => [await plan(hashes)], planHalves);
}

function sumOf(parts: readonly GcPlan[], maxNodes: number): Omit<GcPlan, 'damage'> {
  const nodes = parts.flatMap((part) => part.nodes).slice(0, maxNodes);
  const examined = parts.reduce((sum, part) => sum + part.examined, 0);
  const reclaimedContentBytes = nodes.reduce((sum, { contentBytes }) => sum + contentBytes, 0);
  return { examined: Math.min(examined, maxNodes), deleted: nodes.length, reclaimedContentBytes, nodes };
}

interface PlannedPass {
  readonly maxNodes: number;
  readonly uploads: UploadKind;
  /** of a Space with damaged rows */
  readonly around: NodesAround | undefined;
}

interface NodesAround {
  /** of the collectable nodes */
  readonly hashes: readonly Hash[];
  /** no row of these is looked at */
  readonly unreadable: ReadonlySet<Hash>;
  /** as in `NodesWanted` */
  readonly areUndoubted: boolean;
}

/** @throws OnlyPlanned always */
export async function planPass(
  tx: SpaceTransaction,
  { maxNodes, uploads, around }: PlannedPass,
): Promise<never> {
  const nodes: { hash: Hash; contentBytes: number }[] = [];
  const finish = async ({ claimed, claimedAt }: Claims): Promise<FinishedClaims> => {
    const deleted = new Set(claimed.map(({ generation }) => generation));
    const settled = await settleClaims(tx, { claims: claimed, claimedAt, deleted, uploads });
    return { ...settled, failed: 0, failure: undefined };
  };
  const steps: PassSteps =
    around === undefined
      ? {
          findLeftovers: (wanted) => findLeftoverClaims(tx, wanted),
          claim: (limit, from) => claimCandidates(tx, { limit, uploads, isDamaged: false, from }),
          finish,
        }
      : stepsAround(tx, around, finish);
  const pass = new Pass(steps, maxNodes, (rows) => {
    for (const { hash, size } of rows) nodes.push({ hash, contentBytes: size });
  });
  throw new OnlyPlanned({ ...(await pass.run()), nodes, damage: undefined });
}

/** Claims nodes by hash, and then the children of those that went. */
function stepsAround(
  tx: SpaceTransaction,
  { hashes, unreadable, areUndoubted }: NodesAround,
  finish: PassSteps['finish'],
): PassSteps {
  const left = [...hashes];
  const isFree = ({ refs }: NodeRow): boolean => !refsToHashes(refs).some((hash) => unreadable.has(hash));
  return {
    findLeftovers: async () => NOTHING,
    claim: async (limit) => {
      for (;;) {
        const some = left.splice(-limit).filter((hash) => !unreadable.has(hash));
        if (some.length === 0 && left.length === 0) return NOTHING;
        const rows = (await tx.findNodes(some)).filter((row) => row !== undefined).filter(isFree);
        const claims = await claimNodes(tx, { hashes: hashesOf(rows), areUndoubted });
        if (claims.found > 0) return claims;
      }
    },
    finish: async (claims) => {
      const finished = await finish(claims);
      for (const { refs } of finished.forgotten) left.push(...refsToHashes(refs));
      return finished;
    },
  };
}

const NOTHING: Claims = { found: 0, forgotten: [], claimed: [], claimedAt: 0, next: 0 };
