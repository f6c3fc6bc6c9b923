/**
 * The background sweep removes what no request removes (docs/design.md, What the sweep removes): waiting parents and unfinished
 * uploads past their time, objects of closed generations, claims of interrupted passes, old root-ref history and commits. Each call is
 * bounded, and two at once do no harm.
 */
import type { Hash } from '@holdfast/protocol';
import { ROWS_PER_TRANSACTION_MAX } from '../batches.ts';
import { closeContent, findUrlExpiries, urlExpiryOf } from '../contents.ts';
import type { Core } from '../core.ts';
import { removeNodesWithEdges } from '../edges.ts';
import type { DiscardRow, Generation, NodeRow, Space } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import type { Maintained, SweepCutoffs, WalkKeeper } from '../upkeep-ports.ts';
import type { UploadKind } from '../upload-ports.ts';
import { findLeftoverClaims, finishClaims } from './collection.ts';
import { sweepPacks } from './sweep-packs.ts';

const SPACES_PER_SWEEP_MAX = 32;
const WALK_NOTE = 'stray-walk';

/** Runs a part of the step and keeps its failure for the end. Resolves true when more is left to do. */
type Attempt = (part: () => Promise<boolean>) => Promise<boolean>;

/** One bounded step. A failed part does not stop the others; the first failure is thrown at the end. */
export async function sweep(core: Core): Promise<Maintained> {
  const now = (await core.clocks?.assertAgree()) ?? (await core.metadata.readClock());
  const { abandonedAfterMs, rootRefHistoryMs, commitRecordsKeptMs } = core.settings;
  const cutoffs: SweepCutoffs = {
    now,
    abandonedAt: now - abandonedAfterMs,
    // History is dated by the start of a commit. Until the commit ends, walks still begin at the revision before it.
    historyAt: now - rootRefHistoryMs - 60_000,
    commitRecordsKeptMs,
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
  let moreToDo = await attempt(async () => {
    const { spaces, failure } = await core.metadata.page('spacesToSweep', {
      cutoffs,
      limit: SPACES_PER_SWEEP_MAX,
    });
    if (failure !== undefined) failures.push(failure);
    let isMoreLeft = spaces.length === SPACES_PER_SWEEP_MAX;
    for (const space of spaces) {
      isMoreLeft = (await sweepSpace(core, space, cutoffs, attempt)) || isMoreLeft;
    }
    return isMoreLeft;
  });
  await attempt(async () => {
    await core.content.sweep(
      (keys) => core.metadata.page('knownGenerations', keys),
      now,
      keeperOf(core, now),
    );
    return false;
  });
  let forgottenCommits = 0;
  const maintain = async (): Promise<boolean> => {
    const maintained = await core.metadata.maintain(cutoffs);
    forgottenCommits = maintained.forgottenCommits;
    return maintained.moreToDo;
  };
  moreToDo = (await attempt(maintain)) || moreToDo;
  if (failures.length > 0) throw failures[0];
  return { moreToDo, forgottenCommits };
}

/** After a restart the walk over all objects resumes. */
function keeperOf({ metadata, strays }: Core, now: number): WalkKeeper {
  return {
    findKept: (keys) => strays.findKept(metadata, keys, now),
    readPlace: async () => (await metadata.page('note', WALK_NOTE)) || undefined,
    notePlace: async (place) => {
      if (place === undefined) strays.begin();
      await metadata.settle('note', { name: WALK_NOTE, value: place ?? '' });
    },
  };
}

async function sweepSpace(
  core: Core,
  space: Space,
  cutoffs: SweepCutoffs,
  attempt: Attempt,
): Promise<boolean> {
  const parts: readonly (() => Promise<number>)[] = [
    () => dropAbandoned(core, space, cutoffs),
    () => sweepPacks(core, space, cutoffs.abandonedAt),
    () => deleteDiscards(core, space, cutoffs.now),
    () => finishLeftovers(core, space),
  ];
  let moreToDo = false;
  for (const part of parts) {
    moreToDo = (await attempt(async () => (await part()) >= ROWS_PER_TRANSACTION_MAX)) || moreToDo;
  }
  return moreToDo;
}

async function finishLeftovers(core: Core, space: Space): Promise<number> {
  const claims = await core.metadata.transact(space, findLeftoverClaims, {
    limit: ROWS_PER_TRANSACTION_MAX,
    withHeld: false,
  });
  const { failure } = await finishClaims(core, space, claims);
  if (failure !== undefined) throw failure;
  return claims.found;
}

/** The URL of an abandoned upload has expired, so no PUT can start; one may still be in progress. */
async function dropAbandoned(core: Core, space: Space, { abandonedAt }: SweepCutoffs): Promise<number> {
  const { upload } = core.content;
  const found = await core.metadata.transact(space, findAbandoned, abandonedAt);
  const isReceived = (generation: Generation): boolean =>
    upload.kind === 'server' && upload.receiver.isReceiving(generation);
  const ended = found.filter((generation) => !isReceived(generation));
  return core.metadata.transact(space, forgetAbandoned, { abandonedAt, ended, uploads: upload.kind });
}

export async function findAbandoned(tx: SpaceTransaction, abandonedAt: number): Promise<Generation[]> {
  const uploads = await tx.due('uploads', abandonedAt, ROWS_PER_TRANSACTION_MAX);
  return uploads.map(({ generation }) => generation);
}

interface Abandoned {
  readonly abandonedAt: number;
  /** uploads that have no PUT under way */
  readonly ended: readonly Generation[];
  readonly uploads: UploadKind;
  /** waiting parents to use instead of the due ones: one damaged row fails the query for those */
  readonly parents?: readonly Hash[];
}

export async function forgetAbandoned(
  tx: SpaceTransaction,
  { abandonedAt, ended, uploads: kind, parents: given }: Abandoned,
): Promise<number> {
  const [parents, uploads] = await Promise.all([
    given === undefined ? tx.due('waiting', abandonedAt, ROWS_PER_TRANSACTION_MAX) : findWaiting(tx, given),
    tx.due('uploads', abandonedAt, ROWS_PER_TRANSACTION_MAX),
  ]);
  const expiries = await findUrlExpiries(tx, parents, kind);
  for (const [index, { generation, storage }] of parents.entries()) {
    await closeContent(tx, { generation, storage, urlExpiresAt: expiries[index] ?? 0 });
  }
  await removeNodesWithEdges(tx, parents);
  for (const upload of uploads) {
    if (!ended.includes(upload.generation)) continue;
    await tx.delete('upload', upload);
    const { evidence, generation } = upload;
    if (evidence?.verdict === 'bad') continue;
    await closeContent(tx, {
      generation,
      storage: evidence?.inline ? 'inline' : 'object',
      urlExpiresAt: urlExpiryOf(kind, upload),
    });
  }
  return Math.max(parents.length, uploads.length);
}

async function findWaiting(tx: SpaceTransaction, hashes: readonly Hash[]): Promise<readonly NodeRow[]> {
  const rows = await tx.findNodes(hashes);
  return rows.filter((row) => row !== undefined).filter(({ state }) => state === 'waiting');
}

/** Deletes objects, then forgets discards whose objects are gone. `judgedAt`: ms, else now; what is due later is left. */
export async function deleteDiscards(core: Core, space: Space, judgedAt?: number): Promise<number> {
  const { now, due } = await core.metadata.transact(space, findDueDiscards, judgedAt);
  if (due.length === 0) return 0;
  const { deleted, failure } = await core.content.delete(
    space,
    due.map(({ generation }) => generation),
  );
  await core.metadata.transact(space, settleDiscards, { due, deleted, deletedAfter: now });
  if (failure !== undefined) throw failure;
  return due.length;
}

export async function findDueDiscards(
  tx: SpaceTransaction,
  judgedAt = Number.MAX_SAFE_INTEGER,
): Promise<{ readonly now: number; readonly due: readonly DiscardRow[] }> {
  const now = Math.min(judgedAt, tx.now);
  return { now, due: await tx.due('discards', now, ROWS_PER_TRANSACTION_MAX) };
}

interface DeletedDiscards {
  readonly due: readonly DiscardRow[];
  readonly deleted: ReadonlySet<Generation>;
  /** the objects were deleted at this instant or later */
  readonly deletedAfter: number;
}

/** A discard whose object could not be deleted becomes due again, after those that have waited longer. */
export async function settleDiscards(
  tx: SpaceTransaction,
  { due, deleted, deletedAfter }: DeletedDiscards,
): Promise<void> {
  // Read the discards again: one that was set anew meanwhile is about an object that may be newer than the delete.
  const current = new Map<Generation, DiscardRow>();
  for (const row of await tx.due('discards', tx.now, ROWS_PER_TRANSACTION_MAX))
    current.set(row.generation, row);
  for (const row of due) {
    if (current.get(row.generation)?.dueAt !== row.dueAt) continue;
    if (!deleted.has(row.generation)) await tx.insert('discard', { ...row, dueAt: tx.now });
    else if (row.urlExpiresAt <= deletedAfter) await tx.delete('discard', row.generation);
    // As long as a URL is good, the store takes the object again: it is deleted again and again.
    else await tx.insert('discard', { ...row, dueAt: Math.min(row.urlExpiresAt, tx.now + 15_000) });
  }
}
