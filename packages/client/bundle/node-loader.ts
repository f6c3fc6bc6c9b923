/** Many nodes for a bundle, in the order asked for: by Bulk where the server has it, else several at once. */
import { encodeNodeHeader, type Hash } from '@holdfast/protocol';
import type { BulkNode } from '../bulk/read-nodes.ts';
import { isBulkUnavailable } from '../bulk/send-request.ts';
import type { Client } from '../client.ts';
import { mapInOrder } from '../map-in-order.ts';
import { type LoadedNode, type LoadOptions, loadNode } from './load-node.ts';

/** Nodes that are read at once without Bulk; with HELD_CONTENT_BYTES_MAX each they take at most 32 MiB. */
const READ_AHEAD_NODES = 8;
/** Nodes of one request of Bulk. */
const BULK_NODES_MAX = 1024;
/** Content of nodes that came before their turn. */
const EARLY_BYTES_MAX = 8 * 1024 * 1024;

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
    for (let start = 0; start < hashes.length; start += BULK_NODES_MAX) {
      const batch = hashes.slice(start, start + BULK_NODES_MAX);
      yield* this.#loadBatch(batch, start + BULK_NODES_MAX < hashes.length ? () => [] : upcoming);
    }
  }

  #loadSingly(hashes: readonly Hash[]): AsyncGenerator<LoadedNode, void, undefined> {
    return mapInOrder(hashes, READ_AHEAD_NODES, (hash) => loadNode(this.#client, hash, this.#options));
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
        const found = this.#takeEarly(hash) ?? (await nodes?.find(hash));
        yield found ?? (await loadNode(this.#client, hash, this.#options));
      }
      await this.#takeRest(nodes);
    } finally {
      await nodes?.close();
    }
  }

  #listAsked(hashes: readonly Hash[]): Hash[] {
    const asked = new Set<Hash>();
    for (const hash of hashes) {
      if (!this.#early.has(hash)) asked.add(hash);
      if (asked.size === BULK_NODES_MAX) break;
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
    while (this.#earlyBytes < EARLY_BYTES_MAX) {
      const node = await nodes?.next();
      if (node === undefined) return;
      this.#early.set(node.hash, node);
      this.#earlyBytes += node.canonicalSize;
    }
  }
}

/** An answer that may lack nodes, asked for one hash after the other. */
class OrderedNodes {
  readonly #nodes: AsyncGenerator<BulkNode, void, undefined>;
  readonly #positions: ReadonlyMap<Hash, number>;
  /** came, and is for a later hash */
  #held: LoadedNode | undefined;

  constructor(nodes: AsyncGenerator<BulkNode, void, undefined>, hashes: readonly Hash[]) {
    this.#nodes = nodes;
    this.#positions = new Map(hashes.map((hash, position) => [hash, position]));
  }

  async find(hash: Hash): Promise<LoadedNode | undefined> {
    const wanted = this.#positions.get(hash) ?? -1;
    this.#held ??= await this.next();
    if (this.#held === undefined || (this.#positions.get(this.#held.hash) ?? 0) > wanted) return undefined;
    return this.next();
  }

  /** Undefined when no more come. */
  async next(): Promise<LoadedNode | undefined> {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) return held;
    try {
      const { done, value } = await this.#nodes.next();
      return done === true ? undefined : toLoaded(value);
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#nodes.return();
  }
}

/** A copy: a node may be held for long, and its answer not with it. */
function toLoaded({ hash, contentType, refs, content }: BulkNode): LoadedNode {
  const header = encodeNodeHeader({ contentType, refs, size: content.length });
  const canonicalSize = header.length + content.length;
  return { hash, refs, canonicalSize, parts: { header, content: new Uint8Array(content) } };
}
