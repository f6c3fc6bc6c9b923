/** Many nodes for a bundle, in the order asked for: by Bulk where the server has it, else several at once. */
import { encodeNode, type Hash } from '@holdfast/protocol';
import { OrderedNodes } from '../bulk/ordered-nodes.ts';
import type { BulkNode } from '../bulk/read-nodes.ts';
import type { Client } from '../client.ts';
import { NODES_AT_ONCE_MAX, NODES_IN_BULK_MAX } from '../limits.ts';
import { mapInOrder } from '../map-in-order.ts';
import { type LoadedNode, type LoadOptions, loadNode } from './load-node.ts';

export class NodeLoader {
  readonly #client: Client;
  readonly #options: LoadOptions;
  /** came with those before them, and their turn comes soon */
  readonly #early = new Map<Hash, LoadedNode>();
  #earlyBytes = 0;

  constructor(client: Client, options: LoadOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** The nodes in the order of `hashes`. `upcoming` says which are likely to be asked for next. Throws as `loadNode` does. */
  async *loadAll(
    hashes: readonly Hash[],
    upcoming: () => readonly Hash[],
  ): AsyncGenerator<LoadedNode, void, undefined> {
    if (!this.#client.bulk.isOffered) return yield* this.#loadSingly(hashes);
    for (let start = 0; start < hashes.length; start += NODES_IN_BULK_MAX) {
      const batch = hashes.slice(start, start + NODES_IN_BULK_MAX);
      yield* this.#loadBatch(batch, start + NODES_IN_BULK_MAX < hashes.length ? () => [] : upcoming);
    }
  }

  #loadSingly(hashes: readonly Hash[]): AsyncGenerator<LoadedNode, void, undefined> {
    return mapInOrder(hashes, NODES_AT_ONCE_MAX, (hash) => loadNode(this.#client, hash, this.#options));
  }

  async *#loadBatch(
    hashes: readonly Hash[],
    upcoming: () => readonly Hash[],
  ): AsyncGenerator<LoadedNode, void, undefined> {
    const isAnyLacking = hashes.some((hash) => !this.#early.has(hash));
    const asked = isAnyLacking ? this.#listAsked([...hashes, ...upcoming()]) : [];
    const nodes =
      asked.length === 0
        ? undefined
        : new OrderedNodes(this.#client.bulk.readNodes(asked, this.#options), asked);
    try {
      for (const hash of hashes) {
        yield this.#takeEarly(hash) ?? (await this.#find(nodes, hash));
      }
      await this.#takeRest(nodes);
    } finally {
      await nodes?.close();
    }
  }

  async #find(nodes: OrderedNodes | undefined, hash: Hash): Promise<LoadedNode> {
    const found = await nodes?.find(hash);
    return found === undefined ? loadNode(this.#client, hash, this.#options) : toLoaded(found);
  }

  #listAsked(hashes: readonly Hash[]): Hash[] {
    const asked = new Set<Hash>();
    for (const hash of hashes) {
      if (!this.#early.has(hash)) asked.add(hash);
      if (asked.size === NODES_IN_BULK_MAX) break;
    }
    return [...asked];
  }

  #takeEarly(hash: Hash): LoadedNode | undefined {
    const node = this.#early.get(hash);
    if (node === undefined) return undefined;
    this.#early.delete(hash);
    this.#earlyBytes -= node.canonicalSize;
    return node;
  }

  async #takeRest(nodes: OrderedNodes | undefined): Promise<void> {
    while (this.#earlyBytes < 8 * 1024 * 1024) {
      const next = await nodes?.next();
      if (next === undefined) return;
      const node = toLoaded(next);
      this.#early.set(node.hash, node);
      this.#earlyBytes += node.canonicalSize;
    }
  }
}

/** A copy: a node may be held for long, and its answer not with it. */
function toLoaded({ hash, contentType, refs, content }: BulkNode): LoadedNode {
  const bytes = encodeNode({ contentType, refs, content });
  return { hash, refs, canonicalSize: bytes.length, bytes };
}
