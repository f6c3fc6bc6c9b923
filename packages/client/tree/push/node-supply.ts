/** The nodes of a push: from files on disk, or a tree in memory. The push asks only for nodes that it sends. */
import type { Hash } from '@holdfast/protocol';

export interface PushNode {
  readonly hash: Hash;
  /** bytes of files and link targets in this node and everything below */
  readonly bytes: number;
  /** entries (files, directories, links) that are complete with this node, itself included when it is one */
  readonly entryCount: number;
  /** no children, so `bytes` are in this very node */
  readonly isLeaf: boolean;
}

/** Gives any node of one tree at any time, as often as it is asked. The bytes must match the hash that was asked for. */
export interface NodeSupply<Node extends PushNode> {
  readonly root: Node;
  /** The canonical bytes. Rejects with SourceChangedError when what the node was made of is no longer the same. */
  makeNode(node: Node): Promise<Uint8Array>;
  /** The push no longer needs what `makeNode` gave, so the memory may be used again. */
  releaseNode?(bytes: Uint8Array): void;
  /** The children of a node in the order of its refs, duplicates included; none of a leaf. At most 256. */
  listChildren(node: Node): Promise<readonly Node[]>;
  /** The canonical size of what `makeNode` would give, bytes; an upper bound will do. */
  sizeOf(node: Node): number;
  /** A name for people, such as the path of the file. */
  nameOf(node: Node): string;
}

/** A file or folder is no longer what its hash was made from: hash it again. */
export class SourceChangedError extends Error {
  override readonly name = 'SourceChangedError';
  /** as `nameOf` gives it */
  readonly source: string;

  constructor(source: string, options?: ErrorOptions) {
    super(`${source} changed while it was being pushed`, options);
    this.source = source;
  }
}
