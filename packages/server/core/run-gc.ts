/** runGc: one bounded pass over one Space (docs/api.md, runGc). */
import type { GcResult } from '@holdfast/protocol';
import {
  CLAIM_HOLD_MS,
  type Claims,
  type ClaimsWanted,
  claimCandidates,
  findLeftoverClaims,
  finishClaims,
} from './collection.ts';
import type { Core } from './core.ts';
import type { NodeRow, Space } from './model.ts';
import type { SpaceTransaction } from './ports.ts';

/** One transaction claims at most this many, so that a large pass never holds the writer for long. */
const CLAIMS_PER_TRANSACTION_MAX = 100;
/** ms between looks at claims that others hold */
const HELD_LOOK_MS = 250;

type Take = (tx: SpaceTransaction, wanted: ClaimsWanted) => Promise<Claims>;

interface Pass {
  readonly core: Core;
  readonly space: Space;
  readonly result: { examined: number; deleted: number; reclaimedContentBytes: number };
}

/**
 * `maxNodes` is positive and already within its limit. Leftover claims first, then the oldest expired leases. Claims that others
 * hold are waited for with `rest`, as long as a hold lasts: whoever died in the middle of a pass leaves them to the next.
 */
export async function runGc(
  core: Core,
  space: Space,
  maxNodes: number,
  rest?: (ms: number) => Promise<unknown>,
): Promise<GcResult> {
  const result = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  const pass: Pass = { core, space, result };
  for (let restedMs = 0; ; restedMs += HELD_LOOK_MS) {
    const othersHold = await takeAll(pass, findLeftoverClaims, maxNodes);
    await takeAll(pass, claimCandidates, maxNodes);
    if (rest === undefined || !othersHold || restedMs > CLAIM_HOLD_MS) return result;
    await rest(HELD_LOOK_MS);
  }
}

/** Resolves whether others hold claims, by the last look. */
async function takeAll({ core, space, result }: Pass, take: Take, maxNodes: number): Promise<boolean> {
  for (;;) {
    const limit = Math.min(maxNodes - result.examined, CLAIMS_PER_TRANSACTION_MAX);
    if (limit <= 0) return false;
    const wanted = { limit, uploads: core.content.upload.kind };
    const claims = await core.metadata.transact(space, take, wanted);
    result.examined += claims.examined;
    count(result, claims.forgotten);
    count(result, await finishClaims(core, space, claims.claimed));
    if (claims.examined === 0) return claims.othersHold;
  }
}

function count(result: Pass['result'], gone: readonly NodeRow[]): void {
  result.deleted += gone.length;
  for (const row of gone) result.reclaimedContentBytes += row.size;
}
