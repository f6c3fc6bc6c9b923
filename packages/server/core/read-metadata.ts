/** readMetadata (spec readMetadata). */
import { ApiError, type Hash, type NodeDescription, refsToHashes } from '@holdfast/protocol';
import type { Core } from './core.ts';
import type { NodeRow, Space } from './model.ts';

/** A rotten node is damaged content under sound metadata: its metadata still answers (contract section 4). */
export function isReadable(node: NodeRow | undefined): node is NodeRow {
  return node?.state === 'ready' || node?.state === 'rotten';
}

export const nodeNotFound = (): ApiError =>
  new ApiError('NOT_FOUND', 'this Space has no ready node with this hash; lease it to learn what is missing');

export async function readMetadata(core: Core, space: Space, hash: Hash): Promise<NodeDescription> {
  const node = await core.metadata.findNode(space, hash);
  if (!isReadable(node)) throw nodeNotFound();
  const { size, contentType, leaseStartedAt, leaseExpiresAt, childRefCount, rootRefCount } = node;
  return {
    metadata: { hash, size, contentType, refs: refsToHashes(node.refs) },
    state: { leaseStartedAt, leaseExpiresAt, childRefCount, rootRefCount },
  };
}
