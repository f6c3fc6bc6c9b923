/** One node that no other call travels with: by one request where the server has Bulk. */
import type { Hash } from '@holdfast/protocol';
import type { Client } from './client.ts';
import type { CallOptions } from './operations.ts';

export type AloneReader = Pick<Client, 'getNode'> & Partial<Pick<Client, 'bulk'>>;

export interface NodeAlone {
  readonly contentType: string;
  readonly refs: readonly Hash[];
  readonly content: Uint8Array;
}

/** The node, verified. One with refs would else take a request for its metadata and one for its content. Rejects as `getNode` does. */
export async function getAlone(client: AloneReader, hash: Hash, { signal }: CallOptions): Promise<NodeAlone> {
  const inBulk = await findInBulk(client, hash, signal);
  if (inBulk !== undefined) return inBulk;
  const { metadata, content } = await client.getNode(hash, { signal });
  return { contentType: metadata.contentType, refs: metadata.refs, content };
}

/** Undefined where it does not come so: `getNode` tells why. */
export async function findInBulk(
  { bulk }: AloneReader,
  hash: Hash,
  signal: AbortSignal | undefined,
): Promise<NodeAlone | undefined> {
  if (bulk?.isOffered !== true) return undefined;
  try {
    for await (const node of bulk.readNodes([hash], { signal })) return node;
  } catch {
    signal?.throwIfAborted();
  }
  return undefined;
}
