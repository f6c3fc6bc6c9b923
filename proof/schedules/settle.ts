/** Once everything in a Space is given back, nothing stays: no row, no object. */

import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { Core } from '../../packages/server/core/core.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { HOUR_MS } from '../row-rot/world.ts';
import { DOMAINS } from './play.ts';

/** Longer than an abandoned upload, an unclaimed pack, a late PUT or a tombstone is kept. */
const SETTLED_HOURS = 24 * 9;
const SETTLING_ROUNDS = 3;
const NODES_PER_GC = 1000;
const ROOT_REFS_MAX = 100;
const STEPS_MAX = 50;

interface Settled {
  readonly core: Core;
  readonly clock: { now: number };
  /** names of all stored objects */
  objects(): readonly string[];
}

export async function untilDone(step: () => Promise<boolean>): Promise<void> {
  for (let steps = 0; await step(); steps += 1) {
    if (steps > STEPS_MAX) throw new Error('this never ends');
  }
}

/** Resolves with what is wrong. */
export async function settle({ core, clock, objects }: Settled, space: Space): Promise<string[]> {
  const isEmpty = async (): Promise<boolean> =>
    (await core.metadata.readCounters(space)).nodeCount === 0 && objects().length === 0;
  try {
    for (const domain of DOMAINS) {
      const { items } = await listRootRefs(core, space, domain, { limit: ROOT_REFS_MAX });
      const changes = items.map(({ hash, refCount }) => ({ hash, delta: -refCount }));
      if (changes.length > 0) await updateRootRefs(core, space, domain, { requestId: 'the last', changes });
    }
    let isSettled = await isEmpty();
    for (let round = 0; round < SETTLING_ROUNDS && !isSettled; round += 1) {
      clock.now += SETTLED_HOURS * HOUR_MS;
      await untilDone(async () => (await runGc(core, space, NODES_PER_GC)).deleted > 0);
      await untilDone(async () => (await sweep(core)).moreToDo);
      isSettled = await isEmpty();
    }
    return isSettled ? [] : [`nodes or objects stay: ${objects().join(', ')}`];
  } catch (error) {
    return [`it does not settle: ${error instanceof Error ? error.stack : String(error)}`];
  }
}
