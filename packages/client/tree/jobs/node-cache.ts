/** Verified nodes read a short while ago, so that equal files, folders and chunks of a tree are fetched twice at most. */
import type { Hash } from '@holdfast/protocol';
import { CHUNK_BYTES_MAX, type NodeParts } from '../format/tree-format.ts';
import { Kept } from './kept.ts';

const KEPT_LARGE_BYTES_MAX = CHUNK_BYTES_MAX + 2 * 1024 * 1024;

export class NodeCache {
  /** Small nodes have a bound of their own, so that the chunks of one large file do not push out the many small nodes. */
  readonly #small = new Kept<NodeParts>(4 * 1024 * 1024);
  readonly #large = new Kept<NodeParts>(KEPT_LARGE_BYTES_MAX);
  /** what came once; the oldest is first */
  readonly #met = new Set<Hash>();

  find(hash: Hash): NodeParts | undefined {
    return this.#small.find(hash) ?? this.#large.find(hash);
  }

  /** Whether it comes for the first time, as far as that is remembered. */
  meet(hash: Hash): boolean {
    if (this.#met.has(hash)) return false;
    this.#note(hash);
    return true;
  }

  /** It did not come after all. */
  forget(hash: Hash): void {
    this.#met.delete(hash);
  }

  /** Whether it was kept: then others look at it later. */
  keep(hash: Hash, node: NodeParts): boolean {
    if (this.meet(hash)) return false;
    const isSmall = node.content.length <= 64 * 1024;
    (isSmall ? this.#small : this.#large).keep(hash, node, weighNode(node));
    return true;
  }

  #note(hash: Hash): void {
    this.#met.add(hash);
    const [oldest] = this.#met;
    if (this.#met.size > 8192 && oldest !== undefined) this.#met.delete(oldest);
  }
}

/** The memory of a node in bytes, rounded up: its content, what it has beside it, and its refs. */
export function weighNode({ content, refs }: Pick<NodeParts, 'content' | 'refs'>): number {
  return 512 + content.length + refs.length * 96;
}
