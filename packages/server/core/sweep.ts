/**
 * The background sweep: what nobody asks for any more goes without anyone asking (contract sections 5 and 7): waiting
 * parents and unfinished uploads past their time, objects of closed generations, claims of interrupted passes, old
 * root-ref history. Bounded per call, and harmless when two run at once.
 */
import { findLeftoverClaims, finishClaims } from './collection.ts';
import { closeContent } from './contents.ts';
import type { Core } from './core.ts';
import { removeNodeWithEdges } from './edges.ts';
import type { Space } from './model.ts';
import type { SpaceTransaction, SweepCutoffs } from './ports.ts';

const SPACES_PER_SWEEP_MAX = 32;
const ROWS_PER_TRANSACTION_MAX = 100;

/** One bounded step. A failure in one Space does not keep the others from being swept; the first is thrown at the end. */
export async function sweep(core: Core): Promise<{ readonly moreToDo: boolean }> {
  const now = core.clock.now();
  const { abandonedAfterMs, rootRefHistoryMs } = core.settings;
  const cutoffs: SweepCutoffs = {
    now,
    abandonedAt: now - abandonedAfterMs,
    historyAt: now - rootRefHistoryMs,
  };
  const failures: unknown[] = [];
  const attempt = async (step: () => Promise<boolean>): Promise<boolean> => {
    try {
      return await step();
    } catch (error) {
      failures.push(error);
      return false;
    }
  };
  const spaces = await core.metadata.findSpacesToSweep(cutoffs, SPACES_PER_SWEEP_MAX);
  let moreToDo = spaces.length === SPACES_PER_SWEEP_MAX;
  for (const space of spaces) {
    moreToDo = (await attempt(() => sweepSpace(core, space, cutoffs))) || moreToDo;
  }
  await attempt(async () => {
    await core.content.sweep((generations) => core.metadata.findKnownGenerations(generations));
    return false;
  });
  moreToDo = (await attempt(() => core.metadata.maintain(cutoffs))) || moreToDo;
  if (failures.length > 0) throw failures[0];
  return { moreToDo };
}

async function sweepSpace(core: Core, space: Space, cutoffs: SweepCutoffs): Promise<boolean> {
  const dropped = await core.metadata.transact(space, (tx) => dropAbandoned(core, tx, cutoffs));
  const discarded = await deleteDiscards(core, space);
  const leftovers = await core.metadata.transact(space, (tx) =>
    findLeftoverClaims(tx, ROWS_PER_TRANSACTION_MAX),
  );
  await finishClaims(core, space, leftovers.claimed);
  return [dropped, discarded, leftovers.examined].some((count) => count >= ROWS_PER_TRANSACTION_MAX);
}

async function dropAbandoned(core: Core, tx: SpaceTransaction, cutoffs: SweepCutoffs): Promise<number> {
  const parents = await tx.findAbandonedWaiting(cutoffs.abandonedAt, ROWS_PER_TRANSACTION_MAX);
  for (const { hash } of parents) {
    // Read again: dropping one parent changes the counts of another that is its child.
    const parent = await tx.findNode(hash);
    if (parent?.state !== 'waiting') continue;
    await closeContent(tx, parent.generation, parent.inline);
    await removeNodeWithEdges(tx, parent);
  }
  const uploads = await tx.findAbandonedUploads(cutoffs.abandonedAt, ROWS_PER_TRANSACTION_MAX);
  for (const upload of uploads) {
    const { upload: target } = core.content;
    if (target.kind === 'server' && target.receiver.isReceiving(upload.generation)) continue;
    await tx.deleteUpload(upload);
    const { evidence } = upload;
    if (evidence?.verdict !== 'bad') await closeContent(tx, upload.generation, evidence?.inline ?? false);
  }
  return Math.max(parents.length, uploads.length);
}

/** Deletes outside any transaction, then forgets the records of what is gone. */
async function deleteDiscards(core: Core, space: Space): Promise<number> {
  const discards = await core.metadata.transact(space, (tx) => tx.findDiscards(ROWS_PER_TRANSACTION_MAX));
  for (const generation of discards) await core.content.delete(generation, space);
  if (discards.length > 0) {
    await core.metadata.transact(space, async (tx) => {
      for (const generation of discards) await tx.removeDiscard(generation);
    });
  }
  return discards.length;
}
