/** Repairs damaged rows of nodes from their bytes, for a check that repairs. */
import type { Hash } from '@holdfast/protocol';
import { headLength, parseHead } from '../core/collect/compare-row.ts';
import { findContentOf, isProofOfRot, storedObject, verifyInlineNode } from '../core/contents.ts';
import type { Core } from '../core/core.ts';
import type { RowDamage } from '../core/inspection-ports.ts';
import { findStanding, mendRow } from '../core/lease/mend-node.ts';
import type { NewContent } from '../core/lease/publication.ts';
import type { Space } from '../core/model.ts';
import { isDamage } from '../core/store-failure.ts';

/** Rows that cannot be repaired now stay as they are: an upload of the node repairs them. */
export async function mendRows(
  core: Core,
  damage: readonly RowDamage[],
  signal: AbortSignal,
): Promise<readonly RowDamage[]> {
  const mended = new Set<RowDamage>();
  // A row needs the rows of its children, which may come after it.
  for (let before = -1; before < mended.size; ) {
    before = mended.size;
    for (const each of damage) {
      if (signal.aborted) break;
      const isOpen = each.table === 'nodes' && !each.repaired && !mended.has(each);
      if (isOpen && (await isMended(core, each))) mended.add(each);
    }
  }
  return damage.map((each) => (mended.has(each) ? { ...each, repaired: true } : each));
}

async function isMended(core: Core, { space, hash }: RowDamage): Promise<boolean> {
  if (space === undefined || hash === undefined) return false;
  try {
    const proven = await readProven(core, space, hash);
    return proven !== undefined && (await core.metadata.transact(space, mendRow, proven));
  } catch (error) {
    if (isProofOfRot(error) || isDamage(error)) return false;
    throw error;
  }
}

/** The proven bytes that the row refers to; undefined if it refers to none. */
async function readProven(core: Core, space: Space, hash: Hash): Promise<NewContent | undefined> {
  const stands = await core.metadata.transact(space, findStanding, hash);
  if (stands === undefined) return undefined;
  const { generation } = stands;
  const content = await core.metadata.transact(space, findContentOf, generation);
  if (content === undefined) return undefined;
  const { canonicalSize, inlineBytes, packed } = content;
  const placed = { hash, canonicalSize, generation, storedSize: packed?.storedLength ?? canonicalSize };
  if (inlineBytes !== undefined) {
    verifyInlineNode(core, content, hash);
    return { ...placed, ...parseHead(inlineBytes, canonicalSize), storage: 'inline' };
  }
  const object = storedObject(space, content);
  await core.content.verify(object, hash);
  const head = await core.content.read(object, 0, headLength(content));
  const storage = packed === undefined ? 'object' : 'packed';
  return { ...placed, ...parseHead(head, canonicalSize), storage };
}
