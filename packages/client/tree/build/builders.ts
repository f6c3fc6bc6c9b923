/**
 * Makes trees: sorted entries into directory pages and indexes, chunks into file indexes. Deterministic: the same entries
 * and chunks give the same nodes everywhere. Every node is emitted as soon as it is made, children before parents, and
 * nothing of it is kept: memory is one page and one index per level, whatever the tree.
 */
import { encodeNodeHeader, type Hash } from '@holdfast/protocol';
import { checkBytes, checkIterable, checkMethod } from '../../arguments.ts';
import { digestNode, type NodeDigest } from '../../digest.ts';
import { chunkStream } from '../format/chunker.ts';
import { encodeDirectory, encodeDirectoryIndex, sumTotals } from '../format/directory-node.ts';
import {
  addTotal,
  CHILDREN_MAX,
  CHILDREN_MIN,
  compareNames,
  type DirectoryEntry,
  type DirectoryIndexChild,
  type FileIndexChild,
  INDEX_LEVEL_MAX,
  type NodeParts,
  type TreeContentType,
  TreeFormatError,
  type TreeNode,
  type TreeTotals,
} from '../format/tree-format.ts';
import { encodeChunk, encodeFile, encodeFileIndex, encodeSymlink } from '../format/tree-node.ts';

interface Level<Child> {
  /** children of the node that is open at this level */
  open: Child[];
  receivedCount: number;
}

/**
 * Children of level 1 come in, nodes of all levels go out as they fill. A node ends after a child that is a boundary, not
 * before CHILDREN_MIN and at CHILDREN_MAX at the latest; so what changes in one place moves few boundaries elsewhere. The
 * root is the only child of its level.
 */
class LevelStack<Child> {
  readonly #isBoundary: (level: number, child: Child) => boolean;
  readonly #makeNode: (level: number, children: readonly Child[]) => Promise<Child>;
  /** index 0 is level 1 */
  readonly #levels: Level<Child>[] = [];

  /** `makeNode` emits the node over `children` and describes it as a child of the next level. */
  constructor(
    isBoundary: (level: number, child: Child) => boolean,
    makeNode: (level: number, children: readonly Child[]) => Promise<Child>,
  ) {
    this.#isBoundary = isBoundary;
    this.#makeNode = makeNode;
  }

  isEmpty(): boolean {
    return this.#levels.length === 0;
  }

  /** A promise where a node is full: await it before the next call. */
  add(level: number, child: Child): void | Promise<void> {
    const { open, receivedCount } = this.#levelAt(level);
    open.push(child);
    this.#levelAt(level).receivedCount = receivedCount + 1;
    const isFull =
      open.length >= CHILDREN_MIN && (open.length === CHILDREN_MAX || this.#isBoundary(level, child));
    return isFull ? this.#close(level) : undefined;
  }

  /** Whether no node of `level` or below is open. */
  isAligned(level: number): boolean {
    return this.#levels.slice(0, level).every(({ open }) => open.length === 0);
  }

  /** Adds a node of `level` that was made elsewhere. The levels below count as having many children. */
  adopt(level: number, child: Child): void | Promise<void> {
    for (let below = 1; below <= level; below += 1) this.#levelAt(below).receivedCount += CHILDREN_MIN;
    return this.add(level + 1, child);
  }

  /** Closes what is open; the root. Rejects with TreeFormatError when nothing was added. */
  async finish(): Promise<Child> {
    for (let level = 1; ; level += 1) {
      const { open, receivedCount } = this.#levelAt(level);
      if (receivedCount === 0) throw new TreeFormatError('an index has no children');
      if (receivedCount === 1) return open[0] as Child;
      if (open.length > 0) await this.#close(level);
    }
  }

  #levelAt(level: number): Level<Child> {
    if (level > INDEX_LEVEL_MAX) throw new TreeFormatError('the index would need too many levels');
    let found = this.#levels[level - 1];
    if (found === undefined) {
      found = { open: [], receivedCount: 0 };
      this.#levels.push(found);
    }
    return found;
  }

  async #close(level: number): Promise<void> {
    const at = this.#levelAt(level);
    const children = at.open;
    at.open = [];
    await this.add(level + 1, await this.#makeNode(level, children));
  }
}

export interface NodeSink {
  /** WebCrypto, or the built-in SHA-256, when left out. */
  readonly digest?: NodeDigest | undefined;
  /** Takes one node; its content may be a view of what the caller gave. A promise holds the builder back. */
  emit(node: TreeNode): void | Promise<void>;
}

export interface BuiltDirectory extends TreeTotals {
  readonly hash: Hash;
}

export interface BuiltFile {
  readonly hash: Hash;
  /** the file's size */
  readonly bytes: number;
}

const BOUNDARY_MASK = 0x7f;
const FNV_PRIME = 0x01000193;

/** Whether a page (level 0) may end after `name`, or an index after that child: seven low zero bits of a mixed FNV-1a, one in 128. */
export function isNameBoundary(level: number, name: Uint8Array): boolean {
  let h = Math.imul(0x811c9dc5 ^ level, FNV_PRIME);
  for (let index = 0; index < name.length; index += 1) h = Math.imul(h ^ (name[index] as number), FNV_PRIME);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return ((h ^ (h >>> 16)) & BOUNDARY_MASK) === 0;
}

/** Whether a file index may end after the child `hash`: its last byte has seven low zero bits. */
export function isHashBoundary(hash: Hash): boolean {
  return (Number.parseInt(hash.slice(-2), 16) & BOUNDARY_MASK) === 0;
}

/** Hashes `parts` and hands the node to `sink`; settles with its hash once it was taken. */
async function emitNode(sink: NodeSink, parts: NodeParts): Promise<Hash> {
  const { refs, content } = parts;
  // The encoders give no other content types.
  const contentType = parts.contentType as TreeContentType;
  const header = encodeNodeHeader({ contentType, refs, size: content.length });
  const digest = sink.digest ?? digestNode;
  const hash = await digest(header, content);
  await sink.emit({ hash, contentType, refs, content });
  return hash;
}

/** One directory from its entries in order (`compareNames`). Await `add` before the next: it is a promise where a page is full. */
export class DirectoryBuilder {
  readonly #sink: NodeSink;
  readonly #indexes: LevelStack<DirectoryIndexChild>;
  #page: DirectoryEntry[] = [];
  #lastName: Uint8Array | undefined;

  constructor(sink: NodeSink) {
    this.#sink = sink;
    this.#indexes = new LevelStack(
      (level, { firstName }) => isNameBoundary(level, firstName),
      async (level, children) => {
        const hash = await emitNode(sink, encodeDirectoryIndex({ level, children }));
        return { hash, firstName: (children[0] as DirectoryIndexChild).firstName, ...sumTotals(children, 0) };
      },
    );
  }

  /** Keeps `entry` until its page is full. Throws or rejects with TreeFormatError when it is out of order or invalid. */
  add(entry: DirectoryEntry): void | Promise<void> {
    if (this.#lastName !== undefined && compareNames(this.#lastName, entry.name) >= 0) {
      throw new TreeFormatError('entries must be added in the order of their names, each name once');
    }
    this.#lastName = entry.name;
    this.#page.push(entry);
    const count = this.#page.length;
    if (count < CHILDREN_MIN || (count < CHILDREN_MAX && !isNameBoundary(0, entry.name))) return undefined;
    return this.#closePage();
  }

  /** Whether a node of `level` (0: a page) may be taken over as it is: nothing below that level is open. */
  canAdopt(level: number): boolean {
    return this.#page.length === 0 && this.#indexes.isAligned(level);
  }

  /** Takes over a page or index where `canAdopt` allows. It must end as a builder ends it, or be the last, which nothing follows. */
  adopt(level: number, child: DirectoryIndexChild): void | Promise<void> {
    this.#lastName = child.firstName;
    return this.#indexes.adopt(level, child);
  }

  /** The last nodes are emitted. Rejects with TreeFormatError when an entry is invalid. */
  async finish(): Promise<BuiltDirectory> {
    if (this.#indexes.isEmpty()) {
      const page = this.#page;
      return { hash: await emitNode(this.#sink, encodeDirectory(page)), ...sumTotals(page) };
    }
    if (this.#page.length > 0) await this.#closePage();
    const { hash, bytes, entryCount } = await this.#indexes.finish();
    return { hash, bytes, entryCount };
  }

  async #closePage(): Promise<void> {
    const page = this.#page;
    this.#page = [];
    const hash = await emitNode(this.#sink, encodeDirectory(page));
    const { name: firstName } = page[0] as DirectoryEntry;
    await this.#indexes.add(1, { hash, firstName, ...sumTotals(page) });
  }
}

/** The index of a file from its chunks, two at least, in order. Await what `add` returns before the next call. */
export class FileIndexBuilder {
  readonly #indexes: LevelStack<FileIndexChild>;

  constructor(sink: NodeSink) {
    this.#indexes = new LevelStack(
      (_level, { hash }) => isHashBoundary(hash),
      async (level, children) => {
        const hash = await emitNode(sink, encodeFileIndex({ level, children }));
        return { hash, bytes: children.reduce((total, { bytes }) => addTotal(total, bytes), 0) };
      },
    );
  }

  /** A chunk that was emitted already. */
  add(chunk: FileIndexChild): void | Promise<void> {
    return this.#indexes.add(1, chunk);
  }

  /** The last indexes are emitted. A single chunk would be its own root: such a file is a file node instead. */
  async finish(): Promise<BuiltFile> {
    const { hash, bytes } = await this.#indexes.finish();
    return { hash, bytes };
  }
}

/** One file from its chunks, in order. The first's bytes must stay until the second is added or `finish` settles: it may be the file. */
export class FileBuilder {
  readonly #sink: NodeSink;
  readonly #index: FileIndexBuilder;
  #first: Uint8Array | undefined;
  #isLarge = false;

  constructor(sink: NodeSink) {
    this.#sink = sink;
    this.#index = new FileIndexBuilder(sink);
  }

  async add(chunk: Uint8Array): Promise<void> {
    const first = this.#first;
    if (!this.#isLarge && first === undefined) {
      this.#first = chunk;
      return;
    }
    if (first !== undefined) {
      this.#isLarge = true;
      this.#first = undefined;
      await this.#addChunk(first);
    }
    await this.#addChunk(chunk);
  }

  async finish(): Promise<BuiltFile> {
    if (this.#isLarge) return this.#index.finish();
    return buildSmallFile(this.#sink, this.#first ?? new Uint8Array(0));
  }

  async #addChunk(content: Uint8Array): Promise<void> {
    const hash = await emitNode(this.#sink, encodeChunk(content));
    await this.#index.add({ hash, bytes: content.length });
  }
}

/** A file of any size from its bytes in pieces of any size. Memory: a few chunks. */
export async function buildFile(
  sink: NodeSink,
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<BuiltFile> {
  const call = { name: 'buildFile', requestOperation: 'uploadNode' } as const;
  checkMethod(call, 'the sink', sink, 'emit');
  checkIterable(call, 'the pieces', pieces);
  const builder = new FileBuilder(sink);
  for await (const chunk of chunkStream(pieces)) await builder.add(chunk);
  return builder.finish();
}

/** A file that is a single chunk: at most CHUNK_BYTES_MIN bytes, or what the chunker does not cut. */
export async function buildSmallFile(sink: NodeSink, content: Uint8Array): Promise<BuiltFile> {
  checkBuild('buildSmallFile', sink, 'the content', content);
  return { hash: await emitNode(sink, encodeFile(content)), bytes: content.length };
}

/** A symbolic link. Rejects with TreeFormatError when nothing can have that target. */
export async function buildSymlink(sink: NodeSink, target: Uint8Array): Promise<BuiltFile> {
  checkBuild('buildSymlink', sink, 'the target', target);
  return { hash: await emitNode(sink, encodeSymlink(target)), bytes: target.length };
}

function checkBuild(name: string, sink: unknown, what: string, bytes: unknown): void {
  const call = { name, requestOperation: 'leaseNode' } as const;
  checkMethod(call, 'the sink', sink, 'emit');
  checkBytes(call, what, bytes);
}
