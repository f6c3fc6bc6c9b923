/** A tree whose nodes are all in memory: what a page pushes, and what tests push. */
import { encodeNode, encodeNodeHeader, type Hash } from '@holdfast/protocol';
import type { NodeSink } from '../build/builders.ts';
import { type NodeParts, TreeFormatError, type TreeNode } from '../format/tree-format.ts';
import { type ParsedNode, parseTreeNode } from '../format/tree-node.ts';
import type { NodeSupply, PushNode } from './node-supply.ts';

/** Collects what the builders emit. Holds every byte: for trees that fit in memory. */
export class MemoryTree implements NodeSink {
  readonly nodes = new Map<Hash, NodeParts>();

  /** Content is taken over as a copy: builders may give views of memory that is used again. */
  emit({ hash, contentType, refs, content }: TreeNode): void {
    this.nodes.set(hash, { contentType, refs: [...refs], content: new Uint8Array(content) });
  }

  /** The tree below `root`, which must have been emitted, as a push takes it. Throws TreeFormatError. */
  supply(root: Hash): NodeSupply<PushNode> {
    const parsed = parseTreeNode(this.#find(root));
    return {
      root: this.#describeRoot(root, parsed),
      makeNode: async ({ hash }) => encodeNode(this.#find(hash)),
      listChildren: async ({ hash }) => this.#listChildren(parseTreeNode(this.#find(hash))),
      sizeOf: ({ hash }) => canonicalSizeOf(this.#find(hash)),
      nameOf: ({ hash }) => hash,
    };
  }

  #describeRoot(hash: Hash, node: ParsedNode): PushNode {
    switch (node.type) {
      case 'file':
      case 'chunk':
        return { hash, bytes: node.content.length, entryCount: 1, isLeaf: true };
      case 'symlink':
        return { hash, bytes: node.target.length, entryCount: 1, isLeaf: true };
      default: {
        const children = this.#listChildren(node);
        const sum = (of: (child: PushNode) => number): number =>
          children.reduce((total, child) => total + of(child), 0);
        return {
          hash,
          bytes: sum(({ bytes }) => bytes),
          entryCount: sum(({ entryCount }) => entryCount) + 1,
          isLeaf: false,
        };
      }
    }
  }

  /** The children of a node as a push counts them, in the order of its refs. */
  #listChildren(node: ParsedNode): PushNode[] {
    switch (node.type) {
      case 'directory':
        return node.entries.map(({ hash, kind, bytes, entryCount }) => ({
          hash,
          bytes,
          entryCount: entryCount + 1,
          // A large file has children, which its own node tells. A supply that keeps nodes elsewhere lists none for the others.
          isLeaf: kind !== 'directory' && this.nodes.get(hash)?.refs.length === 0,
        }));
      case 'directory-index':
        return node.children.map(({ hash, bytes, entryCount }) => ({
          hash,
          bytes,
          entryCount,
          isLeaf: false,
        }));
      case 'file-index':
        return node.children.map(({ hash, bytes }) => ({
          hash,
          bytes,
          entryCount: 0,
          isLeaf: node.level === 1,
        }));
      default:
        return [];
    }
  }

  #find(hash: Hash): NodeParts {
    const node = this.nodes.get(hash);
    if (node === undefined) throw new TreeFormatError('this node was not built into this tree', hash);
    return node;
  }
}

const canonicalSizeOf = ({ contentType, refs, content }: NodeParts): number =>
  encodeNodeHeader({ contentType, refs, size: content.length }).length + content.length;
