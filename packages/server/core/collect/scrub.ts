/** Reads every stored byte from time to time, to find rot before a reader does, and heals a rotten row whose bytes turn out good. */

import { isProofOfRot, markRotten, markSound, storedObject, verifyInlineNode } from '../contents.ts';
import type { Core } from '../core.ts';
import { createdAtOf } from '../generation.ts';
import { InvariantViolation } from '../invariant.ts';
import type { NodeRow } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { ContentLost } from '../store-failure.ts';
import type { ScrubItem, ScrubPosition } from '../upkeep-ports.ts';
import { compareRow, headLength } from './repair-counts.ts';

export interface ScrubStep {
  /** the `after` of the next step; undefined: the walk is complete */
  readonly next: ScrubPosition | undefined;
  /** nodes read, or found unreadable */
  readonly nodes: number;
  /** nodes left to the next walk, because their bytes are young */
  readonly young: number;
  /** bytes read; the caller paces the next step by them */
  readonly bytes: number;
  readonly foundRotten: number;
  /** rows that this step made ready again */
  readonly foundSound: number;
}

/** An object may be as large as the node limit: a small number of them keeps the rate of reading smooth. */
export const SCRUB_NODES_MIN = 8;

/**
 * One step from `after`, of so many nodes at most. A failure that proves nothing changes nothing: the node is reported, the step goes on with the
 * others, and the next walk reads the node again. Bytes whose generation is from `youngSince` (ms) or later were proven when their node
 * became ready, a moment ago: they are left to the next walk.
 */
export async function scrub(
  core: Core,
  after: ScrubPosition | undefined,
  youngSince = Number.POSITIVE_INFINITY,
  nodesMax = SCRUB_NODES_MIN,
): Promise<ScrubStep> {
  const { items, next } = await core.metadata.page('nodesToScrub', { after, limit: nodesMax });
  let bytes = 0;
  let young = 0;
  let foundRotten = 0;
  let foundSound = 0;
  for (const item of items) {
    if (item.node.state === 'ready' && createdAtOf(item.node.generation) >= youngSince) {
      young += 1;
      continue;
    }
    bytes += item.node.canonicalSize;
    try {
      const found = await judge(core, item);
      if (found === 'rotten') foundRotten += 1;
      if (found === 'sound') foundSound += 1;
    } catch (error) {
      if (error instanceof InvariantViolation) throw error;
      core.rottenNodes.noteUnread(item.space, item.node.hash, error);
    }
  }
  return { next, nodes: items.length - young, young, bytes, foundRotten, foundSound };
}

/** Reads one node and makes its row say what the bytes prove. Resolves with the change it made. */
async function judge(core: Core, item: ScrubItem): Promise<'rotten' | 'sound' | 'as-before'> {
  const { space, node } = item;
  try {
    await verifyStored(core, item);
  } catch (error) {
    if (!isProofOfRot(error)) throw error;
    if (node.state !== 'ready') return 'as-before';
    // The node may have been collected or healed during the read: then the proof is not about its present content.
    return (await markRotten(core, space, node, error, item.content?.packed)) === 'marked'
      ? 'rotten'
      : 'as-before';
  }
  if (item.isUnsummed === true) await sumNode(core, item);
  return node.state === 'rotten' && (await markSound(core, space, node)) ? 'sound' : 'as-before';
}

/** The bytes were just proven. @throws RowContradicted */
async function sumNode(core: Core, { space, node, content }: ScrubItem): Promise<void> {
  if (content === undefined) return;
  const head =
    content.inlineBytes ?? (await core.content.read(storedObject(space, content), 0, headLength(node)));
  compareRow(node, head);
  await core.metadata.transact(space, giveSum, { hash: node.hash, generation: node.generation });
}

/** An engine writes a row with its sum. */
export async function giveSum(
  tx: SpaceTransaction,
  { hash, generation }: Pick<NodeRow, 'hash' | 'generation'>,
): Promise<void> {
  const row = await tx.findNode(hash);
  if (row?.generation === generation) await tx.update('node', row, { ...row });
}

/** Proves all stored bytes of a node by its hash; the errors are those of `ContentStore.verify`. */
export async function verifyStored(
  core: Pick<Core, 'content'>,
  { space, node, content }: ScrubItem,
): Promise<void> {
  if (content === undefined) throw new ContentLost('the content record is gone');
  if (content.inlineBytes === undefined) {
    await core.content.verify(storedObject(space, content), node.hash);
    return;
  }
  verifyInlineNode(core, content, node.hash);
}
