/** runGc: one bounded pass over one Space (spec runGc, contract section 7). */
import type { GcResult } from '@holdfast/protocol';
import { type Claims, claimCandidates, findLeftoverClaims, finishClaims } from './collection.ts';
import type { Core } from './core.ts';
import type { NodeRow, Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

/** One transaction claims at most this many, so that a large pass never holds the writer for long. */
const CLAIMS_PER_TRANSACTION_MAX = 100;

type Take = (tx: SpaceTransaction, limit: number) => Promise<Claims>;

interface Pass {
  readonly core: Core;
  readonly space: Space;
  readonly result: { examined: number; deleted: number; reclaimedContentBytes: number };
}

/** `maxNodes` is positive and already within its limit. Leftover claims first, then the oldest expired leases. */
export async function runGc(core: Core, space: Space, maxNodes: number): Promise<GcResult> {
  const result = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  const pass: Pass = { core, space, result };
  const claim: Take = (tx, limit) => claimCandidates(core, tx, limit);
  for (const take of [findLeftoverClaims, claim]) {
    while ((await takeOnce(pass, take, maxNodes - result.examined)) > 0);
  }
  return result;
}

async function takeOnce({ core, space, result }: Pass, take: Take, bound: number): Promise<number> {
  const limit = Math.min(bound, CLAIMS_PER_TRANSACTION_MAX);
  if (limit <= 0) return 0;
  const claims = await core.metadata.transact(space, (tx) => take(tx, limit));
  result.examined += claims.examined;
  count(result, claims.forgotten);
  count(result, await finishClaims(core, space, claims.claimed));
  return claims.examined;
}

function count(result: Pass['result'], gone: readonly NodeRow[]): void {
  result.deleted += gone.length;
  for (const row of gone) result.reclaimedContentBytes += row.size;
}
