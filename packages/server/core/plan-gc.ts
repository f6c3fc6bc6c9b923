/**
 * What a pass of runGc would delete right now: the pass itself, run on the rows in one transaction that always ends in an error.
 * So nothing of it stays, and no rule of a collection is written twice.
 */
import type { GcResult, Hash } from '@holdfast/protocol';
import { claimCandidates, findLeftoverClaims, settleClaims } from './collection.ts';
import type { Core } from './core.ts';
import type { Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';
import { Pass } from './run-gc.ts';
import { isDamage } from './store-failure.ts';
import type { UploadKind } from './upload-ports.ts';

export interface GcPlan extends GcResult {
  /** in the order in which the pass forgets them */
  readonly nodes: readonly { readonly hash: Hash; readonly contentBytes: number }[];
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

/** `maxNodes` as of runGc. The Space's writer is held meanwhile. Supposes that every object can be deleted. */
export async function planGc(core: Core, space: Space, maxNodes: number): Promise<GcPlan> {
  const plan = async (isDamaged: boolean): Promise<GcPlan> => {
    const wanted = { maxNodes, uploads: core.content.upload.kind, isDamaged };
    try {
      return await core.metadata.transact(space, planPass, wanted);
    } catch (error) {
      if (error instanceof OnlyPlanned) return error.plan;
      throw error;
    }
  };
  try {
    return await plan(false);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return await plan(true);
  }
}

interface PlannedPass {
  readonly maxNodes: number;
  readonly uploads: UploadKind;
  /** as of ClaimsWanted */
  readonly isDamaged: boolean;
}

/** @throws OnlyPlanned always */
export async function planPass(
  tx: SpaceTransaction,
  { maxNodes, uploads, isDamaged }: PlannedPass,
): Promise<never> {
  const nodes: { hash: Hash; contentBytes: number }[] = [];
  const steps = {
    findLeftovers: findLeftoverClaims.bind(undefined, tx),
    claim: (limit: number) => claimCandidates(tx, { limit, uploads, isDamaged }),
    finish: async ({ claimed, claimedAt }: Awaited<ReturnType<typeof claimCandidates>>) => {
      const deleted = new Set(claimed.map(({ generation }) => generation));
      const settled = await settleClaims(tx, { claims: claimed, claimedAt, deleted, uploads });
      return { ...settled, failed: 0, failure: undefined };
    },
  };
  const pass = new Pass(steps, maxNodes, (rows) => {
    for (const { hash, size } of rows) nodes.push({ hash, contentBytes: size });
  });
  throw new OnlyPlanned({ ...(await pass.run()), nodes });
}
