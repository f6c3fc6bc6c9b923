/** Trees in memory for tests: nodes by hash, made-up bytes, and whole trees from a description and back. */
import { createHash } from 'node:crypto';
import { encodeNode, type Hash } from '@holdfast/protocol';
import { buildFile, buildSymlink, DirectoryBuilder, type NodeSink } from '../tree/build/builders.ts';
import {
  compareNames,
  type DirectoryEntry,
  type NodeParts,
  type TreeNode,
  type TreeTotals,
} from '../tree/format/tree-format.ts';
import type { NodeSource } from '../tree/read/node-source.ts';
import { openTree, type TreeReader } from '../tree/read/open-tree.ts';

/** Keeps built nodes and gives them back. Counts how often each was read. */
export class MemoryNodes implements NodeSink, NodeSource {
  readonly nodes = new Map<Hash, NodeParts>();
  /** hashes in the order they were emitted or read */
  readonly emitted: Hash[] = [];
  readonly reads: Hash[] = [];

  readonly digest = (header: Uint8Array, content: Uint8Array): Hash =>
    createHash('sha256').update(header).update(content).digest('hex');

  emit({ hash, contentType, refs, content }: TreeNode): void {
    this.emitted.push(hash);
    // Builders may give views of memory that is used again.
    this.nodes.set(hash, { contentType, refs, content: content.slice() });
  }

  async readNode(hash: Hash): Promise<NodeParts> {
    this.reads.push(hash);
    const node = this.nodes.get(hash);
    if (node === undefined) throw new Error(`there is no node ${hash}`);
    return node;
  }

  /** A node as it is, hostile or not. */
  add(node: NodeParts): Hash {
    const hash = createHash('sha256').update(encodeNode(node)).digest('hex');
    this.nodes.set(hash, node);
    return hash;
  }

  open(): TreeReader {
    return openTree(this);
  }
}

/** Made-up bytes that any language can make: the SHA-256 of `SEED/0`, of `SEED/1` and so on, cut to `length`. */
export function seededBytes(seed: string, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let block = 0; block * 32 < length; block += 1) {
    const digest = createHash('sha256').update(`${seed}/${block}`).digest();
    bytes.set(digest.subarray(0, length - block * 32), block * 32);
  }
  return bytes;
}

/** Cheaper made-up bytes, for large files: xorshift32. */
export function noise(seed: number, length: number): Uint8Array {
  const words = new Int32Array(Math.ceil(length / 4));
  let x = seed | 1;
  for (let index = 0; index < words.length; index += 1) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[index] = x;
  }
  return new Uint8Array(words.buffer, 0, length);
}

export type TreeModel =
  | {
      readonly kind: 'file';
      readonly content: Uint8Array;
      readonly isExecutable: boolean;
      readonly mtimeNs: bigint | undefined;
    }
  | { readonly kind: 'symlink'; readonly target: Uint8Array }
  /** distinct names, in any order */
  | { readonly kind: 'directory'; readonly children: readonly (readonly [Uint8Array, TreeModel])[] };

type Built = Pick<DirectoryEntry, 'kind' | 'hash' | 'bytes' | 'entryCount'>;

/** Builds the tree and gives what its parent would say of it. */
export async function buildModel(sink: NodeSink, model: TreeModel): Promise<Built> {
  if (model.kind === 'file') {
    return { kind: 'file', entryCount: 0, ...(await buildFile(sink, [model.content])) };
  }
  if (model.kind === 'symlink') {
    return { kind: 'symlink', entryCount: 0, ...(await buildSymlink(sink, model.target)) };
  }
  const builder = new DirectoryBuilder(sink);
  for (const [name, child] of model.children.toSorted(([a], [b]) => compareNames(a, b))) {
    const built = await buildModel(sink, child);
    const isFile = child.kind === 'file';
    await builder.add({
      name,
      ...built,
      isExecutable: isFile && child.isExecutable,
      mtimeNs: isFile ? child.mtimeNs : undefined,
    });
  }
  return { kind: 'directory', ...(await builder.finish()) };
}

/** The tree as it is read back; children are in the order of their names. */
export async function readModel(
  tree: TreeReader,
  item: Pick<DirectoryEntry, 'kind' | 'hash' | 'bytes' | 'entryCount' | 'isExecutable' | 'mtimeNs'>,
): Promise<TreeModel> {
  if (item.kind === 'symlink') return { kind: 'symlink', target: await tree.readSymlink(item) };
  if (item.kind === 'file') {
    const content = await collect(tree.readFile(item));
    return { kind: 'file', content, isExecutable: item.isExecutable, mtimeNs: item.mtimeNs };
  }
  const children: [Uint8Array, TreeModel][] = [];
  for await (const entry of tree.readDirectory(item))
    children.push([entry.name, await readModel(tree, entry)]);
  return { kind: 'directory', children };
}

export async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(Buffer.concat(await Array.fromAsync(pieces)));
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** An entry whose node nobody reads. */
export function fileEntry(name: string | Uint8Array, more: Partial<DirectoryEntry> = {}): DirectoryEntry {
  const raw = typeof name === 'string' ? utf8(name) : name;
  const hash = createHash('sha256').update(raw).digest('hex');
  return {
    name: raw,
    kind: 'file',
    hash,
    bytes: 0,
    entryCount: 0,
    isExecutable: false,
    mtimeNs: undefined,
    ...more,
  };
}

export async function buildDirectory(
  sink: NodeSink,
  entries: Iterable<DirectoryEntry>,
): Promise<{ hash: Hash } & TreeTotals> {
  const builder = new DirectoryBuilder(sink);
  for (const entry of entries) await builder.add(entry);
  return builder.finish();
}
