/** One node for a bundle: verified, and held in memory when it is small. */
import { concatBytes, encodeNodeHeader, type Hash } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { CasError } from '../errors.ts';
import { findNodeUpTo, type LeafFirstOptions } from '../leaf-first-read.ts';
import type { CallOptions } from '../operations.ts';
import { BundleError } from './cid.ts';

export type LoadOptions = Pick<LeafFirstOptions, 'signal' | 'digest'>;

export interface LoadedNode {
  readonly hash: Hash;
  readonly refs: readonly Hash[];
  /** of content and everything before it, bytes */
  readonly canonicalSize: number;
  /** canonical; undefined when they are too many to be held */
  readonly bytes: Uint8Array | undefined;
}

/** The node, verified; a large one without children while it is streamed. Throws CasError; BundleError for a lost node. */
export async function loadNode(client: Client, hash: Hash, options: LoadOptions): Promise<LoadedNode> {
  // Larger content is streamed when its turn comes.
  const node = await findNodeUpTo(client, hash, 4 * 1024 * 1024, options).catch((error: unknown) => {
    throw withHash(hash, error);
  });
  if (node === undefined) return loadLargeNode(client, hash, options);
  const bytes = concatBytes([node.header, node.content]);
  return { hash, refs: node.refs, canonicalSize: bytes.length, bytes };
}

/** Names the node that cannot be read: a bundle has thousands, and the reason alone would not help. */
export function withHash(hash: Hash, error: unknown): unknown {
  if (!(error instanceof CasError)) return error;
  // A server that is busy or away refuses the metadata too.
  const isLost = error.code === 'SERVICE_UNAVAILABLE' && error.requestOperation === 'readContent';
  if (error.code !== 'NOT_FOUND' && !isLost) return error;
  const message =
    error.code === 'NOT_FOUND'
      ? `${hash} is not in this Space, or not ready there: check the hash and the Space, or store this node again`
      : `${hash}: ${error.message}; store this node again`;
  return new BundleError(`${message}, then do this again`, { cause: error });
}

/** Children are followed only when their parent is proven, so a large parent is read whole. A large leaf has nothing to follow. */
async function loadLargeNode(client: Client, hash: Hash, options: CallOptions): Promise<LoadedNode> {
  const { metadata, body } = await client.openNode(hash, options);
  if (metadata.refs.length === 0) await body.cancel();
  else await drain(body);
  const canonicalSize = encodeNodeHeader(metadata).length + metadata.size;
  return { hash, refs: metadata.refs, canonicalSize, bytes: undefined };
}

async function drain(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  while (!(await reader.read()).done);
}

/** The canonical bytes of a node that is not held. Verified when the last chunk comes. */
export async function* readLargeNode(
  client: Client,
  hash: Hash,
  options: CallOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { metadata, body } = await client.openNode(hash, options);
  yield encodeNodeHeader(metadata);
  const reader = body.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
