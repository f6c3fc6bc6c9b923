/** runGc: one bounded pass over one Space (spec runGc, contract section 7). */
import type { GcResult } from '@holdfast/protocol';
import { type Claims, claimCandidates, findLeftoverClaims, finishClaims } from './collection.ts';
import type { Core } from './core.ts';
import type { NodeRow, Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

/** One transaction claims at most this many, so that a large pass never holds the writer for long. */
const CLAIMS_PER_TRANSACTION_MAX = 100;

type Take = (tx: SpaceTransaction, limit: number) => Promise<Claims>;

/** `maxNodes` is positive and already within its limit. Leftover claims first, then the oldest expired leases. */
export async function runGc(core: Core, space: Space, maxNodes: number): Promise<GcResult> {
  const pass = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  // Leftovers are taken once each: one that another pass is finishing right now would be met again and again.
  await takeOnce(core, space, findLeftoverClaims, maxNodes, pass);
  let took = 0;
  do {
    took = await takeOnce(core, space, claimCandidates, maxNodes - pass.examined, pass);
  } while (took > 0);
  return pass;
}

async function takeOnce(
  core: Core,
  space: Space,
  take: Take,
  bound: number,
  pass: { examined: number; deleted: number; reclaimedContentBytes: number },
): Promise<number> {
  const limit = Math.min(bound, CLAIMS_PER_TRANSACTION_MAX);
  if (limit <= 0) return 0;
  const claims = await core.metadata.transact(space, (tx) => take(tx, limit));
  pass.examined += claims.examined;
  count(pass, claims.forgotten);
  count(pass, await finishClaims(core, space, claims.claimed));
  return claims.examined;
}

function count(pass: { deleted: number; reclaimedContentBytes: number }, gone: readonly NodeRow[]): void {
  pass.deleted += gone.length;
  for (const row of gone) pass.reclaimedContentBytes += row.size;
}
