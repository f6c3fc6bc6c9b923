/** `getNode` and `getNodes`: reads that overlap travel together where the server has Bulk. */
import type { Hash } from '@holdfast/protocol';
import { type CheckedCall, checkHash, checkIterable, checkOptions } from './arguments.ts';
import type { Bulk } from './bulk/bulk.ts';
import { isSharedFailure, JoinedReads, toVerified } from './bulk/joined-reads.ts';
import { OrderedNodes } from './bulk/ordered-nodes.ts';
import type { BulkNode } from './bulk/read-nodes.ts';
import { VerificationError } from './errors.ts';
import { NODES_AT_ONCE_MAX, NODES_IN_BULK_MAX } from './limits.ts';
import { mapInOrder } from './map-in-order.ts';
import type { CallOptions } from './operations.ts';
import type { VerifiedNode } from './verified-read.ts';

const GET_NODE: CheckedCall = { name: 'getNode', requestOperation: 'readMetadata' };
const GET_NODES: CheckedCall = { name: 'getNodes', requestOperation: 'readNodes' };

export type GetNode = (hash: Hash, options: CallOptions) => Promise<VerifiedNode>;

export class GetCalls {
  readonly #getSingly: GetNode;
  readonly #contentBytesMax: number;
  readonly #joined: JoinedReads;
  #active = 0;

  constructor(getSingly: GetNode, bulk: Bulk, contentBytesMax: number) {
    this.#getSingly = getSingly;
    this.#contentBytesMax = contentBytesMax;
    this.#joined = new JoinedReads(bulk);
  }

  async get(hash: Hash, options: CallOptions = {}): Promise<VerifiedNode> {
    checkHash(GET_NODE, hash);
    checkOptions(GET_NODE, options);
    const { signal } = options;
    signal?.throwIfAborted();
    this.#active += 1;
    try {
      // Calls of this very moment count too.
      await undefined;
      const joined = this.#active > 1 ? await this.#joined.read(hash, signal) : undefined;
      const isWanted = joined !== undefined && joined.content.length <= this.#contentBytesMax;
      return isWanted ? joined : await this.#getSingly(hash, options);
    } finally {
      this.#active -= 1;
    }
  }
}

/** As `Client.getNodes` says. `getNode` reads what does not come in bulk, or tells why it does not. */
export async function* getNodes(
  { bulk, getNode }: { readonly bulk: Bulk; readonly getNode: GetNode },
  hashes: Iterable<Hash> | AsyncIterable<Hash>,
  options: CallOptions = {},
): AsyncGenerator<VerifiedNode, void, undefined> {
  checkIterable(GET_NODES, 'hashes', hashes);
  checkOptions(GET_NODES, options);
  for await (const batch of distinctBatches(hashes)) {
    if (!bulk.isOffered || batch.length === 1) {
      yield* mapInOrder(batch, NODES_AT_ONCE_MAX, (hash) => getNode(hash, options));
      continue;
    }
    const nodes = new OrderedNodes(bulk.readNodes(batch, options), batch);
    try {
      for (const hash of batch) {
        const node = await findOrLeave(nodes, hash);
        yield node === undefined ? await getNode(hash, options) : toVerified(node);
      }
    } finally {
      await nodes.close();
    }
  }
}

/** Undefined too when the request failed in a way that may be one node's: each of the rest is then read by itself. */
async function findOrLeave(nodes: OrderedNodes, hash: Hash): Promise<BulkNode | undefined> {
  try {
    return await nodes.find(hash);
  } catch (error) {
    if (isSharedFailure(error) || error instanceof VerificationError) throw error;
    return undefined;
  }
}

/** Lists in which each hash stands once, as a request of Bulk wants them. */
async function* distinctBatches(
  hashes: Iterable<Hash> | AsyncIterable<Hash>,
): AsyncGenerator<readonly Hash[], void, undefined> {
  let batch = new Set<Hash>();
  let position = 0;
  for await (const hash of hashes) {
    checkHash(GET_NODES, hash, `hash ${position}`);
    position += 1;
    if (batch.has(hash) || batch.size === NODES_IN_BULK_MAX) {
      yield [...batch];
      batch = new Set();
    }
    batch.add(hash);
  }
  if (batch.size > 0) yield [...batch];
}
