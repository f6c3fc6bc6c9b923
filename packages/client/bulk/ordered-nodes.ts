/** The nodes of an answer that may lack some, asked for one hash after the other. */
import type { Hash } from '@holdfast/protocol';
import type { BulkNode } from './read-nodes.ts';
import { isBulkUnavailable } from './send-request.ts';

export class OrderedNodes {
  readonly #nodes: AsyncGenerator<BulkNode, void, undefined>;
  readonly #positions: ReadonlyMap<Hash, number>;
  /** came, and is for a later hash */
  #held: BulkNode | undefined;

  /** `nodes` come in the order of `hashes`. */
  constructor(nodes: AsyncGenerator<BulkNode, void, undefined>, hashes: readonly Hash[]) {
    this.#nodes = nodes;
    this.#positions = new Map(hashes.map((hash, position) => [hash, position]));
  }

  /** Undefined when it does not come. To be called in the order of the hashes. */
  async find(hash: Hash): Promise<BulkNode | undefined> {
    const wanted = this.#positions.get(hash) ?? -1;
    this.#held ??= await this.next();
    if (this.#held === undefined || (this.#positions.get(this.#held.hash) ?? 0) > wanted) return undefined;
    return this.next();
  }

  /** Undefined when no more come. */
  async next(): Promise<BulkNode | undefined> {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) return held;
    try {
      const { done, value } = await this.#nodes.next();
      return done === true ? undefined : value;
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#nodes.return();
  }
}
