/**
 * The scrub reads every stored byte from time to time, so that rot is found before a reader finds it, and makes a rotten
 * row ready again when its bytes turn out good (docs/design.md, Rot and healing).
 */
import { isProofOfRot, markRotten, markSound, storedObject, verifyInlineNode } from './contents.ts';
import type { Core } from './core.ts';
import { type ContentDamaged, ContentLost, type ScrubItem, type ScrubPosition } from './ports.ts';

export interface ScrubStep {
  /** where to go on; undefined: the walk is complete */
  readonly next: ScrubPosition | undefined;
  /** bytes read, for the caller to keep its rate */
  readonly bytes: number;
  /** rows that this step made rotten */
  readonly foundRotten: number;
  /** rows that this step made ready again */
  readonly foundSound: number;
}

/** Objects are up to the node limit each: few at a time keep the rate smooth. */
const NODES_PER_SCRUB_STEP = 8;

/** One bounded step from `after`. Failures that prove nothing change nothing: the next walk looks again. */
export async function scrub(core: Core, after: ScrubPosition | undefined): Promise<ScrubStep> {
  const { items, next } = await core.metadata.findNodesToScrub(after, NODES_PER_SCRUB_STEP);
  let bytes = 0;
  let foundRotten = 0;
  let foundSound = 0;
  for (const item of items) {
    const judgement = await judge(core, item);
    bytes += item.node.canonicalSize;
    if (isProofOfRot(judgement) && item.node.state === 'ready') {
      // It may have been collected or healed while it was read: then what was proven is no longer its content.
      if ((await markRotten(core, item.space, item.node, judgement)) === 'marked') foundRotten += 1;
    } else if (judgement === 'sound' && item.node.state === 'rotten') {
      if (await markSound(core, item.space, item.node)) foundSound += 1;
    }
  }
  return { next, bytes, foundRotten, foundSound };
}

/** The proof that bytes are bad; undefined: nothing is proven. */
async function judge(
  core: Core,
  item: ScrubItem,
): Promise<'sound' | ContentDamaged | ContentLost | undefined> {
  try {
    await verifyAll(core, item);
    return 'sound';
  } catch (error) {
    return isProofOfRot(error) ? error : undefined;
  }
}

async function verifyAll(core: Core, { space, node, content }: ScrubItem): Promise<void> {
  if (content === undefined) throw new ContentLost('the content record is gone');
  if (content.inlineBytes === undefined) {
    await core.content.verify(storedObject(space, content), node.hash);
    return;
  }
  verifyInlineNode(core, content, node.hash);
}
