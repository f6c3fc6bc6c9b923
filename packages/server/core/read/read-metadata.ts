/** readMetadata (docs/api.md, readMetadata). */
import { ApiError, type Hash, type NodeDescription, refsToHashes } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { after } from '../awaitable.ts';
import type { Core } from '../core.ts';
import type { NodeRow, Space } from '../model.ts';

/** A rotten node is damaged content under sound metadata: its metadata still answers (docs/api.md, Errors). */
export function isReadable(node: NodeRow | undefined): node is NodeRow {
  return node?.state === 'ready' || node?.state === 'rotten';
}

export const nodeNotFound = (): ApiError =>
  new ApiError('NOT_FOUND', 'this Space has no ready node with this hash; lease it to learn what is missing');

/** Throws or rejects with NOT_FOUND. `tell`: who remembers what a row came to need not describe it again. */
export function readMetadata(core: Core, space: Space, hash: Hash): Awaitable<NodeDescription>;
export function readMetadata<T>(
  core: Core,
  space: Space,
  hash: Hash,
  tell: (node: NodeRow) => T,
): Awaitable<T>;
export function readMetadata(
  core: Core,
  space: Space,
  hash: Hash,
  tell: (node: NodeRow) => unknown = describeNode,
): Awaitable<unknown> {
  return after(core.metadata.findNode(space, hash), (node) => {
    if (!isReadable(node)) throw nodeNotFound();
    return tell(node);
  });
}

export function describeNode(node: NodeRow): NodeDescription {
  const { hash, size, contentType, leaseStartedAt, leaseExpiresAt, childRefCount, rootRefCount } = node;
  return {
    metadata: { hash, size, contentType, refs: refsToHashes(node.refs) },
    state: { leaseStartedAt, leaseExpiresAt, childRefCount, rootRefCount },
  };
}
