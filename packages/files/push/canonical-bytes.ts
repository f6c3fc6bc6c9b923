import type { TreeNode } from '@holdfast/client';
import { encodeNodeHeader } from '@holdfast/protocol';

/** A node of the tree as it is stored and sent. */
export function canonicalOf({ contentType, refs, content }: TreeNode): Uint8Array {
  return Buffer.concat([encodeNodeHeader({ contentType, refs, size: content.length }), content]);
}
