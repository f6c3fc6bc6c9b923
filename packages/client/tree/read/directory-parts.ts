/** Directories over all their pages: in order, or just the page that could hold a name. */
import { countOf, type Hash } from '@holdfast/protocol';
import { mapInOrder } from '../../map-in-order.ts';
import type { CallOptions } from '../../operations.ts';
import { sumTotals } from '../format/directory-node.ts';
import {
  compareNames,
  type DirectoryEntry,
  type DirectoryIndex,
  type DirectoryIndexChild,
  TreeFormatError,
  type TreeTotals,
} from '../format/tree-format.ts';
import type { ParsedNode } from '../format/tree-node.ts';
import {
  atNode,
  type DirectoryRef,
  hashOf,
  type NodeSource,
  READ_AHEAD_NODES_DEFAULT,
  type ReadOptions,
  readTreeNode,
} from './node-source.ts';

/** A page or index as the nodes above describe it. All fields are undefined at the root of a directory known by its hash alone. */
export interface ExpectedDirectoryPart {
  /** 0: a page */
  readonly level?: number;
  readonly totals?: TreeTotals;
  readonly firstName?: Uint8Array;
  /** all names come before it */
  readonly endName?: Uint8Array | undefined;
}

export type DirectoryPart =
  | { readonly type: 'directory'; readonly entries: readonly DirectoryEntry[] }
  | ({ readonly type: 'directory-index' } & DirectoryIndex);

/** The entries in the order of their names. Throws TreeFormatError where the nodes do not make one directory. */
export async function* readDirectoryEntries(
  source: NodeSource,
  directory: DirectoryRef,
  options: ReadOptions,
): AsyncGenerator<DirectoryEntry, void, undefined> {
  const pages = walkPages(source, hashOf(directory), expectRoot(directory), options);
  const width = 1 + (options.readAheadNodes ?? READ_AHEAD_NODES_DEFAULT);
  for await (const entries of mapInOrder(pages, width, (load) => load())) yield* entries;
}

/** The entry `name`, over one page and the indexes above it; undefined when the directory has none. */
export async function findDirectoryEntry(
  source: NodeSource,
  directory: DirectoryRef,
  name: Uint8Array,
  options: CallOptions,
): Promise<DirectoryEntry | undefined> {
  const read: ReadPart = (hash, expected) => readDirectoryPart(source, hash, expected, options);
  return findEntryInParts(read, directory, name);
}

export type ReadPart = (hash: Hash, expected: ExpectedDirectoryPart) => Promise<DirectoryPart>;

/** The same for a reader that has read some parts before. */
export async function findEntryInParts(
  read: ReadPart,
  directory: DirectoryRef,
  name: Uint8Array,
): Promise<DirectoryEntry | undefined> {
  let part = await read(hashOf(directory), expectRoot(directory));
  let endName: Uint8Array | undefined;
  while (part.type === 'directory-index') {
    const at = findLastNotAfter(part.children, ({ firstName }) => firstName, name);
    const child = part.children[at];
    if (child === undefined) return undefined;
    const expected = expectChild(part, at, endName);
    endName = expected.endName;
    part = await read(child.hash, expected);
  }
  const found = part.entries[findLastNotAfter(part.entries, (entry) => entry.name, name)];
  return found !== undefined && compareNames(found.name, name) === 0 ? found : undefined;
}

/** One load per page, in order; indexes are read on the way. */
async function* walkPages(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedDirectoryPart,
  options: ReadOptions,
): AsyncGenerator<() => Promise<readonly DirectoryEntry[]>, void, undefined> {
  const part = await readDirectoryPart(source, hash, expected, options);
  if (part.type === 'directory') {
    yield async () => part.entries;
    return;
  }
  for (const [at, child] of part.children.entries()) {
    const below = expectChild(part, at, expected.endName);
    if (part.level === 1) yield () => readPage(source, child.hash, below, options);
    else yield* walkPages(source, child.hash, below, options);
  }
}

async function readPage(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedDirectoryPart,
  options: ReadOptions,
): Promise<readonly DirectoryEntry[]> {
  const part = await readDirectoryPart(source, hash, expected, options);
  // readDirectoryPart has checked that the level is 0.
  return part.type === 'directory' ? part.entries : [];
}

function expectRoot(directory: DirectoryRef): ExpectedDirectoryPart {
  return typeof directory === 'string' ? {} : { totals: directory };
}

export function expectChild(
  index: DirectoryIndex,
  at: number,
  endName: Uint8Array | undefined,
): ExpectedDirectoryPart {
  const child = index.children[at] as DirectoryIndexChild;
  return {
    level: index.level - 1,
    totals: child,
    firstName: child.firstName,
    endName: index.children[at + 1]?.firstName ?? endName,
  };
}

export async function readDirectoryPart(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedDirectoryPart,
  options: CallOptions,
): Promise<DirectoryPart> {
  const node = await readTreeNode(source, hash, { ...options, expectsRefs: true });
  return atNode(hash, () => checkPart(node, expected));
}

function checkPart(
  node: ParsedNode,
  { level, totals, firstName, endName }: ExpectedDirectoryPart,
): DirectoryPart {
  if (node.type !== 'directory' && node.type !== 'directory-index') {
    throw new TreeFormatError(`a directory should be here; this is a ${node.type}`);
  }
  const isPage = node.type === 'directory';
  const ownLevel = isPage ? 0 : node.level;
  if (level !== undefined && ownLevel !== level) {
    throw new TreeFormatError(`the index above needs level ${level} here; this is level ${ownLevel}`);
  }
  const own = totalsOf(node);
  if (totals !== undefined && (own.bytes !== totals.bytes || own.entryCount !== totals.entryCount)) {
    throw new TreeFormatError(
      `the node above says ${countOf(totals.entryCount, 'entry', 'entries')} and ${countOf(totals.bytes, 'byte')}; here are ${own.entryCount} and ${own.bytes}`,
    );
  }
  const first = isPage ? node.entries[0]?.name : node.children[0]?.firstName;
  const last = isPage ? node.entries.at(-1)?.name : node.children.at(-1)?.firstName;
  if (firstName !== undefined && (first === undefined || compareNames(first, firstName) !== 0)) {
    throw new TreeFormatError('the first name is not the one the index above says');
  }
  if (endName !== undefined && last !== undefined && compareNames(last, endName) >= 0) {
    throw new TreeFormatError('a name belongs in a later page of the directory');
  }
  return node;
}

/** A folder that is kept parsed is summed up once. */
const totals = new WeakMap<DirectoryPart, TreeTotals>();

function totalsOf(part: DirectoryPart): TreeTotals {
  let own = totals.get(part);
  if (own === undefined) {
    own = part.type === 'directory' ? sumTotals(part.entries) : sumTotals(part.children, 0);
    totals.set(part, own);
  }
  return own;
}

/** Position of the last item whose name is not after `name`; -1 when all are. Items are sorted. */
function findLastNotAfter<T>(items: readonly T[], nameOf: (item: T) => Uint8Array, name: Uint8Array): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareNames(nameOf(items[middle] as T), name) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
