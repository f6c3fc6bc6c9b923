/**
 * Reads the directories of a walk before their turn, those that the walk comes to first before others. Where many nodes come with one
 * request, each request asks for all directories that are known by then, as far as there is room: a tree of small directories then
 * takes about as many requests as it has levels.
 */
import type { Hash } from '@holdfast/protocol';
import type { CallOptions } from '../../operations.ts';
import {
  CHILDREN_MAX,
  DIRECTORY_CONTENT_TYPE,
  type DirectoryEntry,
  type NodeParts,
  type TreeTotals,
} from '../format/tree-format.ts';
import { type ParsedNode, parseTreeNode } from '../format/tree-node.ts';
import type { NodeSource } from '../read/node-source.ts';
import type { TreePath } from './tree-path.ts';

/** Whether the walk goes into a directory. */
export type EnterDirectory = (path: TreePath, entry: DirectoryEntry, ordinal: number) => boolean;

/** Bytes of nodes that have come, or were asked for, and that the walk has not taken yet. */
const HELD_BYTES_MAX = 6 * 1024 * 1024;

/** A directory that the walk will go into, or is in. */
interface Directory {
  readonly path: TreePath | undefined;
  /** its nodes that are known and that the walk has not taken; a directory has none twice */
  readonly parts: Map<Hash, Part>;
  /** position among all entries of the tree; -1 for the root */
  readonly ordinal: number;
}

/** A node of a directory: all of it, a page, or an index. */
interface Part {
  readonly directory: Directory;
  readonly hash: Hash;
  readonly entryCount: number;
  /** of the first entry in it */
  readonly ordinal: number;
  /** undefined: not asked for */
  node: Promise<NodeParts> | undefined;
  heldBytes: number;
  /** neighbours among the nodes that have not come, in the order in which the walk comes to them */
  before: Part | undefined;
  after: Part | undefined;
}

export class ReadAhead {
  readonly #source: NodeSource;
  readonly #enter: EnterDirectory;
  readonly #call: CallOptions;
  /** by their ordinals: those that the walk has not come to */
  readonly #directories = new Map<number, Directory>();
  /** what the walk waits for and was not asked for */
  readonly #wanted = new Map<Part, (node: Promise<NodeParts>) => void>();
  #first: Part | undefined;
  #last: Part | undefined;
  #knownCount = 0;
  #askedCount = 0;
  #heldBytes = 0;
  #isStopped = false;

  constructor(source: NodeSource, enter: EnterDirectory, { signal }: CallOptions) {
    this.#source = source;
    this.#enter = enter;
    this.#call = { signal };
  }

  /** The path of the directory at `ordinal`, if it is known that the walk goes into it. */
  findPath(ordinal: number): TreePath | undefined {
    return this.#directories.get(ordinal)?.path;
  }

  /** The walk goes into a directory now: where its nodes come from. */
  open(
    { hash, entryCount }: { readonly hash: Hash } & TreeTotals,
    path: TreePath | undefined,
    ordinal: number,
  ): NodeSource {
    let directory = this.#directories.get(ordinal);
    this.#directories.delete(ordinal);
    if (directory === undefined) {
      directory = { path, ordinal, parts: new Map() };
      this.#know([makePart(directory, hash, entryCount, ordinal + 1)], undefined);
    }
    const { parts } = directory;
    return { readNode: (wanted, options) => this.#take(parts, wanted, options) };
  }

  /** Nothing more is asked for. */
  stop(): void {
    this.#isStopped = true;
  }

  #take(
    parts: Map<Hash, Part>,
    hash: Hash,
    options: Parameters<NodeSource['readNode']>[1],
  ): Promise<NodeParts> {
    const part = parts.get(hash);
    if (part === undefined) return this.#source.readNode(hash, options);
    parts.delete(hash);
    const { node } = part;
    if (node !== undefined) {
      this.#setHeld(part, 0);
      this.#askMore();
      return node;
    }
    const asked = new Promise<NodeParts>((resolve) => this.#wanted.set(part, resolve));
    this.#askMore();
    return asked;
  }

  /** Asks for what the walk waits for, and for what it comes to next, as far as there is room. */
  #askMore(): void {
    const isInBatches = this.#source.nodesAtOnce !== undefined;
    // The nodes that come now name more to ask for.
    if (this.#isStopped || (isInBatches && this.#askedCount > 0)) return;
    const isWaiting = [...this.#wanted.keys()].some(({ entryCount }) => entryCount > 0);
    for (const [part, resolve] of this.#wanted) resolve(this.#ask(part, 0));
    this.#wanted.clear();
    const roomBytes = HELD_BYTES_MAX - this.#heldBytes;
    // With less room each directory taken would be a request.
    if (isInBatches && !isWaiting && roomBytes < HELD_BYTES_MAX / 4) return;
    // Nodes found in the directories that come are wanted before most known ones: they get the other half.
    let leftBytes = roomBytes / 2;
    for (let part = this.#first; part !== undefined; part = part.after) {
      if (part.node !== undefined) continue;
      // Where each node is a request of its own, 32 nodes are held.
      const bytes = isInBatches ? guessBytes(part) : HELD_BYTES_MAX / 32;
      leftBytes -= bytes;
      if (leftBytes < 0) return;
      void this.#ask(part, bytes);
    }
  }

  #ask(part: Part, heldBytes: number): Promise<NodeParts> {
    const node = this.#source.readNode(part.hash, { ...this.#call, expectsRefs: true });
    part.node = node;
    this.#setHeld(part, heldBytes);
    this.#askedCount += 1;
    node.then(
      (come) => this.#receive(part, come),
      // A failure is thrown when the walk takes the node, or never if it ends before.
      () => this.#receive(part, undefined),
    );
    return node;
  }

  #receive(part: Part, node: NodeParts | undefined): void {
    this.#askedCount -= 1;
    if (this.#isStopped) return;
    this.#know(node === undefined ? [] : this.#listBelow(part, node), part);
    if (node !== undefined) this.#weigh(part, node);
    this.#askMore();
  }

  /** A node that is larger than the one above it says must not be held: the walk asks for it again. */
  #weigh(part: Part, { content, refs }: NodeParts): void {
    if (part.heldBytes === 0 || this.#source.nodesAtOnce === undefined) return;
    const bytes = content.length + memoryBeside(refs.length);
    const isRoom = this.#heldBytes - part.heldBytes + bytes <= HELD_BYTES_MAX;
    this.#setHeld(part, isRoom ? bytes : 0);
    if (!isRoom) part.directory.parts.delete(part.hash);
  }

  #setHeld(part: Part, bytes: number): void {
    this.#heldBytes += bytes - part.heldBytes;
    part.heldBytes = bytes;
  }

  /** The nodes that the walk has to read after this one because of it. The walk finds a fault of the node when it takes it. */
  #listBelow({ directory, entryCount, ordinal }: Part, node: NodeParts): Part[] {
    // Files, links and empty directories have nothing below them.
    if (node.contentType === DIRECTORY_CONTENT_TYPE && node.refs.length === entryCount) return [];
    const parsed = findParsed(node);
    const below: Part[] = [];
    let next = ordinal;
    if (parsed?.type === 'directory-index') {
      for (const child of parsed.children) {
        below.push(makePart(directory, child.hash, child.entryCount, next));
        next += child.entryCount;
      }
    } else if (parsed?.type === 'directory') {
      for (const entry of parsed.entries) {
        const at = next;
        next += 1 + entry.entryCount;
        if (entry.kind !== 'directory' || entry.entryCount === 0) continue;
        const path = { parent: directory.path, name: entry.name };
        if (!this.#isEntered(path, entry, at)) continue;
        const subdirectory = { path, ordinal: at, parts: new Map() };
        this.#directories.set(at, subdirectory);
        below.push(makePart(subdirectory, entry.hash, entry.entryCount, at + 1));
      }
    }
    return below;
  }

  #isEntered(path: TreePath, entry: DirectoryEntry, ordinal: number): boolean {
    try {
      return this.#enter(path, entry, ordinal);
    } catch {
      // The walk asks again when it is there, and throws.
      return false;
    }
  }

  /** Puts `parts` where `place` stands, which leaves: at the front if there is none. */
  #know(parts: readonly Part[], place: Part | undefined): void {
    let before = place?.before;
    const after = place === undefined ? this.#first : place.after;
    if (place !== undefined) this.#knownCount -= 1;
    for (const part of parts) {
      const { directory } = part;
      directory.parts.set(part.hash, part);
      this.#link(before, part);
      before = part;
    }
    this.#link(before, after);
    this.#knownCount += parts.length;
    // Nodes that are known and have not come. Those that the walk comes to last are forgotten, and found again when it is there.
    while (this.#knownCount > 16_384 && this.#forgetLast());
  }

  #link(before: Part | undefined, after: Part | undefined): void {
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
  }

  #forgetLast(): boolean {
    const last = this.#last;
    if (last === undefined || last.node !== undefined || this.#wanted.has(last)) return false;
    this.#link(last.before, undefined);
    this.#knownCount -= 1;
    const { parts, ordinal } = last.directory;
    parts.delete(last.hash);
    if (parts.size === 0) this.#directories.delete(ordinal);
    return true;
  }
}

function makePart(directory: Directory, hash: Hash, entryCount: number, ordinal: number): Part {
  const rest = { node: undefined, heldBytes: 0, before: undefined, after: undefined };
  return { directory, hash, entryCount, ordinal, ...rest };
}

function guessBytes({ entryCount }: Part): number {
  return memoryBeside(Math.min(entryCount, CHILDREN_MAX));
}

/** Bytes of memory that a node and its children take beside its content. */
function memoryBeside(children: number): number {
  return 512 + children * 256;
}

function findParsed(node: NodeParts): ParsedNode | undefined {
  try {
    return parseTreeNode(node);
  } catch {
    // The walk meets that too, and throws.
    return undefined;
  }
}
