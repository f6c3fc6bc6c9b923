/**
 * The background sweep: what nobody asks for any more goes without anyone asking (contract sections 5 and 7): waiting
 * parents and unfinished uploads past their time, objects of closed generations, claims of interrupted passes, old
 * root-ref history. Bounded per call, and harmless when two run at once.
 */
import { findLeftoverClaims, finishClaims, holdingClaims } from './collection.ts';
import { closeContent, deleteObjects } from './contents.ts';
import type { Core } from './core.ts';
import { removeNodeWithEdges } from './edges.ts';
import type { Space } from './model.ts';
import type { SpaceTransaction, SweepCutoffs } from './ports.ts';

const SPACES_PER_SWEEP_MAX = 32;
const ROWS_PER_TRANSACTION_MAX = 100;

/** Runs a part of the step; a failure is kept for the end. Resolves true when more is left to do. */
type Attempt = (part: () => Promise<boolean>) => Promise<boolean>;

/** One bounded step. A failure in one part does not keep the others from being swept; the first is thrown at the end. */
export async function sweep(core: Core): Promise<{ readonly moreToDo: boolean }> {
  const now = core.clock.now();
  const { abandonedAfterMs, rootRefHistoryMs } = core.settings;
  const cutoffs: SweepCutoffs = {
    now,
    abandonedAt: now - abandonedAfterMs,
    historyAt: now - rootRefHistoryMs,
  };
  const failures: unknown[] = [];
  const attempt: Attempt = async (part) => {
    try {
      return await part();
    } catch (error) {
      failures.push(error);
      return false;
    }
  };
  const spaces = await core.metadata.findSpacesToSweep(cutoffs, SPACES_PER_SWEEP_MAX);
  let moreToDo = spaces.length === SPACES_PER_SWEEP_MAX;
  for (const space of spaces) {
    moreToDo = (await sweepSpace(core, space, cutoffs, attempt)) || moreToDo;
  }
  await attempt(async () => {
    await core.content.sweep((generations) => core.metadata.findKnownGenerations(generations));
    return false;
  });
  moreToDo = (await attempt(() => core.metadata.maintain(cutoffs))) || moreToDo;
  if (failures.length > 0) throw failures[0];
  return { moreToDo };
}

async function sweepSpace(
  core: Core,
  space: Space,
  cutoffs: SweepCutoffs,
  attempt: Attempt,
): Promise<boolean> {
  const parts: readonly (() => Promise<number>)[] = [
    () => core.metadata.transact(space, (tx) => dropAbandoned(core, tx, cutoffs)),
    () => deleteDiscards(core, space),
    () => finishLeftovers(core, space),
  ];
  let moreToDo = false;
  for (const part of parts) {
    moreToDo = (await attempt(async () => (await part()) >= ROWS_PER_TRANSACTION_MAX)) || moreToDo;
  }
  return moreToDo;
}

function finishLeftovers(core: Core, space: Space): Promise<number> {
  return holdingClaims(async (held) => {
    const { claimed } = await core.metadata.transact(space, (tx) =>
      findLeftoverClaims(tx, ROWS_PER_TRANSACTION_MAX, held),
    );
    await finishClaims(core, space, claimed);
    return claimed.length;
  });
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
  const { deleted, failure } = await deleteObjects(core, space, discards);
  if (deleted.size > 0) {
    await core.metadata.transact(space, async (tx) => {
      for (const generation of deleted) await tx.removeDiscard(generation);
    });
  }
  if (failure !== undefined) throw failure;
  return discards.length;
}
