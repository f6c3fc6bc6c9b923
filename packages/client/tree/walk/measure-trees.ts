/** Measures trees: bytes of files, of own and of shared nodes. Nodes without children are counted by what their parents say. */

import { encodeNodeHeader, type Hash, HashTable } from '@holdfast/protocol';
import { checkHashes, checkMethod, checkOptions } from '../../arguments.ts';
import { mapInOrder } from '../../map-in-order.ts';
import type { CallOptions } from '../../operations.ts';
import {
  CHUNK_BYTES_MIN,
  CHUNK_CONTENT_TYPE,
  type DirectoryEntry,
  FILE_CONTENT_TYPE,
  type NodeParts,
  SYMLINK_CONTENT_TYPE,
} from '../format/tree-format.ts';
import { parseTreeNode } from '../format/tree-node.ts';
import { atNode, type NodeSource } from '../read/node-source.ts';
import { openTree, type TreeItem } from '../read/open-tree.ts';

export interface TreeUsage {
  readonly root: Hash;
  readonly item: TreeItem;
  /** distinct nodes below and including the root */
  readonly nodes: number;
  /** canonical bytes of nodes that none of the other roots has */
  readonly ownBytes: number;
  /** canonical bytes of nodes that another of the roots has too */
  readonly sharedBytes: number;
}

export interface MeasureOptions extends CallOptions {
  /** is told how many distinct nodes have been counted */
  readonly onCounted?: ((nodes: number) => void) | undefined;
}

/** Roots of one count: as many as a number in the table can tell apart. */
export const USAGE_ROOTS_MAX = 32_767;
/** Directories and indexes read at once, at most, where a request brings many; a few MiB. */
const PARENTS_AT_ONCE_MAX = 256;
/** Files read at once, and directories where each is a request of its own: a file may be a node of several MiB. */
const FILES_AT_ONCE_MAX = 16;

interface Tally {
  nodes: number;
  ownBytes: number;
  sharedBytes: number;
}

/** Throws RangeError beyond what the table can hold, TreeFormatError, and what reading throws. */
export async function measureTrees(
  source: NodeSource,
  roots: readonly Hash[],
  options: MeasureOptions = {},
): Promise<TreeUsage[]> {
  const call = { name: 'measureTrees', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'the source', source, 'readNode');
  checkHashes(call, 'roots', roots);
  checkOptions(call, options);
  const usage = new Usage(source, options);
  const items: TreeItem[] = [];
  for (const root of roots) {
    items.push(await openTree(source).readItem(root, options));
    await usage.walk([root]);
  }
  return roots.map((root, index) => ({
    root,
    item: items[index] as TreeItem,
    ...(usage.tallies[index] as Tally),
  }));
}

/** Canonical bytes of the nodes from `roots` down that none of `others` has. Throws as `measureTrees` does. */
export async function measureTreesOnly(
  source: NodeSource,
  roots: readonly Hash[],
  others: readonly Hash[],
  options: MeasureOptions = {},
): Promise<number> {
  const usage = new Usage(source, options);
  await usage.walk(others);
  await usage.walk(roots);
  return (usage.tallies[1] as Tally).ownBytes;
}

/** Nodes to be read; a file is a node of content, or an index. */
interface Unread {
  readonly parents: readonly Hash[];
  readonly files: readonly Hash[];
}

const NOTHING_UNREAD: Unread = { parents: [], files: [] };

/** Per node: the root it was met under first, the one it was met under last, and whether these ever differed. */
class Usage {
  readonly tallies: Tally[] = [];
  readonly #source: NodeSource;
  readonly #options: CallOptions;
  readonly #onCounted: (nodes: number) => void;
  readonly #met = new HashTable('numbers');

  constructor(source: NodeSource, { onCounted = () => undefined, ...options }: MeasureOptions) {
    this.#source = source;
    this.#options = options;
    this.#onCounted = onCounted;
  }

  /** Counts what is below and including `roots` as one. */
  async walk(roots: readonly Hash[]): Promise<void> {
    const index = this.tallies.push({ nodes: 0, ownBytes: 0, sharedBytes: 0 }) - 1;
    const parents = [...roots];
    const files: Hash[] = [];
    // Those met last first: so few wait at once, however large the tree is.
    while (parents.length > 0 || files.length > 0) {
      const parentsMax = this.#source.nodesAtOnce === undefined ? FILES_AT_ONCE_MAX : PARENTS_AT_ONCE_MAX;
      const isFiles = parents.length === 0 || files.length >= PARENTS_AT_ONCE_MAX;
      const batch = isFiles ? files.splice(-FILES_AT_ONCE_MAX) : parents.splice(-parentsMax);
      const unread = batch.filter((hash) => !this.#isMetUnder(hash, index));
      const nodes = mapInOrder(unread, unread.length, async (hash) => ({
        hash,
        node: await this.#source.readNode(hash, { ...this.#options, expectsRefs: !isFiles }),
      }));
      for await (const { hash, node } of nodes) {
        const header = encodeNodeHeader({ ...node, size: node.content.length });
        if (!this.#meet(hash, header.length + node.content.length, index)) continue;
        const children = this.#childrenOf(hash, node, index);
        parents.push(...children.parents);
        files.push(...children.files);
      }
      this.#onCounted(this.#met.size);
    }
  }

  /** Counts the children whose size is known already; the others are to be read. */
  #childrenOf(hash: Hash, node: NodeParts, index: number): Unread {
    const parsed = atNode(hash, () => parseTreeNode(node));
    switch (parsed.type) {
      case 'directory':
        return this.#meetEntries(parsed.entries, index);
      case 'directory-index':
        return { parents: parsed.children.map((child) => child.hash), files: [] };
      case 'file-index':
        if (parsed.level > 1) return { parents: parsed.children.map((child) => child.hash), files: [] };
        for (const child of parsed.children) this.#meetLeaf(CHUNK_CONTENT_TYPE, child, index);
        return NOTHING_UNREAD;
      default:
        return NOTHING_UNREAD;
    }
  }

  #meetEntries(entries: readonly DirectoryEntry[], index: number): Unread {
    const parents: Hash[] = [];
    const files: Hash[] = [];
    for (const entry of entries) {
      if (entry.kind === 'directory') parents.push(entry.hash);
      else if (entry.kind === 'symlink') this.#meetLeaf(SYMLINK_CONTENT_TYPE, entry, index);
      // Up to the smallest chunk a file is one node; above it the file itself must tell.
      else if (entry.bytes > CHUNK_BYTES_MIN) files.push(entry.hash);
      else this.#meetLeaf(FILE_CONTENT_TYPE, entry, index);
    }
    return { parents, files };
  }

  #meetLeaf(contentType: string, leaf: { readonly hash: Hash; readonly bytes: number }, index: number): void {
    const header = encodeNodeHeader({ contentType, refs: [], size: leaf.bytes });
    this.#meet(leaf.hash, header.length + leaf.bytes, index);
  }

  #isMetUnder(hash: Hash, index: number): boolean {
    const met = this.#met.find(hash);
    return met !== undefined && unpack(met).last === index;
  }

  /** Counts the node under root `index`; false when it was counted there before. */
  #meet(hash: Hash, size: number, index: number): boolean {
    const met = this.#met.find(hash);
    const tally = this.tallies[index] as Tally;
    if (met === undefined) {
      this.#met.set(hash, pack({ first: index, last: index, isShared: false }));
      tally.ownBytes += size;
    } else {
      const { first, last, isShared } = unpack(met);
      if (last === index) return false;
      this.#met.set(hash, pack({ first, last: index, isShared: true }));
      tally.sharedBytes += size;
      if (!isShared) {
        const firstTally = this.tallies[first] as Tally;
        firstTally.ownBytes -= size;
        firstTally.sharedBytes += size;
      }
    }
    tally.nodes += 1;
    return true;
  }
}

interface Met {
  readonly first: number;
  readonly last: number;
  readonly isShared: boolean;
}

function pack({ first, last, isShared }: Met): number {
  return ((first << 16) | (last << 1) | Number(isShared)) >>> 0;
}

function unpack(number: number): Met {
  return {
    first: number >>> 16,
    last: (number >>> 1) & USAGE_ROOTS_MAX,
    isShared: (number & 1) !== 0,
  };
}
