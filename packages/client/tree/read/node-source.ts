/** The source of the nodes of a tree, and reading one of them. */
import type { Hash, PackRecord } from '@holdfast/protocol';
import { checkHash } from '../../arguments.ts';
import type { CallOptions } from '../../operations.ts';
import { type NodeParts, TreeFormatError, type TreeTotals } from '../format/tree-format.ts';
import { type ParsedNode, parseTreeNode } from '../format/tree-node.ts';

/** Who reads the same folders again and again keeps them parsed. */
export interface FolderKeeper {
  readonly parsedFolders?:
    | {
        find(hash: Hash): ParsedNode | undefined;
        /** `weight`: memory, about */
        keep(hash: Hash, folder: ParsedNode, weight: number): void;
      }
    | undefined;
}

/** A source of nodes: a Space, a bundle, a folder of them. */
export interface NodeSource extends FolderKeeper {
  /** How many nodes to ask for at once where that makes few requests of many; undefined when each is a request of its own. */
  readonly nodesAtOnce?: number | undefined;
  /** The node, verified against `hash`. Rejects when there is none, or it does not match. */
  readNode(hash: Hash, options?: ReadNodeOptions): Promise<NodeParts>;
  /** A node for a caller that verifies it elsewhere. Undefined where the source gives none so: `readNode` then reads it. */
  readUnproven?(hash: Hash, options: UnprovenReadOptions): Promise<UnprovenRecord | undefined>;
  /** Takes back the content of a node that its reader looks at no more. The garbage collector takes any other. */
  giveBack?(content: Uint8Array): void;
}

interface UnprovenReadOptions extends CallOptions {
  /** How many bytes of content the node is expected to have. */
  readonly contentBytes: number;
}

export interface UnprovenRecord {
  readonly record: Pick<PackRecord, 'codec' | 'canonicalLength' | 'stored'>;
  /** Verifies it here after all. Rejects with VerificationError. */
  prove(): Promise<NodeParts>;
  /** Nobody looks at the record any more. To be called once, and not after `prove`. */
  release(): void;
}

export interface ReadNodeOptions extends CallOptions {
  /** The node will have refs: a source that asks for these apart may do so at once. A guess that may be wrong. */
  readonly expectsRefs?: boolean | undefined;
  /** How many bytes of content the node will have; left out when nobody knows, or it is a directory or an index. */
  readonly contentBytes?: number | undefined;
}

/** A file or link by its hash, or by what its parent says of it: then the node must agree. */
export type FileRef = Hash | { readonly hash: Hash; readonly bytes: number };
/** A directory, likewise. */
export type DirectoryRef = Hash | ({ readonly hash: Hash } & TreeTotals);

export interface ReadOptions extends CallOptions {
  /** Nodes asked for ahead of the one being used; 0 reads one at a time. READ_AHEAD_NODES_DEFAULT when left out. */
  readonly readAheadNodes?: number | undefined;
}

export const READ_AHEAD_NODES_DEFAULT = 3;

/** Throws CasError INVALID_ARGUMENT for what names no node. */
export function hashOf(ref: FileRef): Hash {
  const hash = typeof ref === 'object' && ref !== null ? ref.hash : ref;
  checkHash({ name: 'openTree', requestOperation: 'readNodes' }, hash);
  return hash;
}

/** Reads and parses; a TreeFormatError then names the node. */
export async function readTreeNode(
  source: NodeSource,
  hash: Hash,
  { signal, expectsRefs, contentBytes }: ReadNodeOptions,
): Promise<ParsedNode> {
  const kept = source.parsedFolders?.find(hash);
  if (kept !== undefined) return kept;
  const node = await source.readNode(hash, { signal, expectsRefs, contentBytes });
  const parsed = atNode(hash, () => parseTreeNode(node));
  if (parsed.type === 'directory' || parsed.type === 'directory-index')
    // A parsed entry or child takes at most 512 bytes of memory.
    source.parsedFolders?.keep(hash, parsed, node.content.length + (1 + node.refs.length) * 512);
  return parsed;
}

/** Runs `check`; a TreeFormatError it throws then names the node `hash`. */
export function atNode<T>(hash: Hash, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof TreeFormatError) || error.hash !== undefined) throw error;
    throw new TreeFormatError(error.message, hash);
  }
}
