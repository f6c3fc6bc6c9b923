/** Estimates what a collection will free once snapshots are forgotten, and when. */
import {
  CasError,
  type Client,
  type Hash,
  measureTreesOnly,
  type NodeState,
  type ProgressReporter,
  type Snapshot,
} from '@holdfast/client/internal';
import { openSpaceSource } from '@holdfast/files';
import { sayCounted } from '../progress/waits.ts';

export interface Freed {
  /** canonical bytes that no snapshot has any more, at most; undefined when that cannot be told */
  readonly bytes: number | undefined;
  /** why it cannot be told */
  readonly reason: string | undefined;
  /** when the last lease of what is freed ends, ms since the epoch; undefined when nothing is freed */
  readonly at: number | undefined;
  /** trees that root refs keep all the same */
  readonly heldTrees: number;
}

const NOTHING: Freed = { bytes: 0, reason: undefined, at: undefined, heldTrees: 0 };

/** `left`: every snapshot that stays, of any name. It is told for people, so that failing to find it fails nothing. */
export async function measureFreed(
  client: Client,
  forgotten: readonly Snapshot[],
  left: readonly Snapshot[],
  progress: ProgressReporter,
): Promise<Freed> {
  const leftRoots = new Set(left.map(({ root }) => root));
  const goneRoots = [...new Set(forgotten.map(({ root }) => root))].filter((root) => !leftRoots.has(root));
  if (goneRoots.length === 0) return NOTHING;
  try {
    const freeRoots: Hash[] = [];
    const held: Hash[] = [];
    let at = 0;
    for (const root of goneRoots) {
      const state = await findState(client, root);
      if (state === undefined) continue;
      if (state.rootRefCount > 0) {
        held.push(root);
        continue;
      }
      freeRoots.push(root);
      at = Math.max(at, state.leaseExpiresAt);
    }
    const heldTrees = held.length;
    if (freeRoots.length === 0) return { ...NOTHING, heldTrees };
    const source = openSpaceSource(client, { patienceMs: 0, progress });
    const bytes = await measureTreesOnly(source, freeRoots, [...leftRoots, ...held], {
      onCounted: sayCounted(),
    });
    return { bytes, reason: undefined, at, heldTrees };
  } catch (error) {
    const reason = describeReason(error);
    return { bytes: undefined, reason, at: undefined, heldTrees: 0 };
  }
}

/** Undefined for a root that is not there: nothing of it can be freed. */
async function findState(client: Client, root: Hash): Promise<NodeState | undefined> {
  try {
    return (await client.readMetadata(root)).state;
  } catch (error) {
    if (error instanceof CasError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function describeReason(error: unknown): string {
  if (error instanceof CasError) return error.reason;
  return error instanceof Error ? error.message : String(error);
}
