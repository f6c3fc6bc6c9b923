/** Compares two trees, merged name by name. Directories with the same hash, and shared pages of wide ones, are never read. */
import { checkMethod, checkObject, checkOptions } from '../../arguments.ts';
import type { CallOptions } from '../../operations.ts';
import { TimeSlice } from '../../time-slice.ts';
import { compareNames, type DirectoryEntry } from '../format/tree-format.ts';
import { readDirectoryPart } from '../read/directory-parts.ts';
import type { NodeSource } from '../read/node-source.ts';
import { openTree, type TreeItem } from '../read/open-tree.ts';
import type { TreePath } from './tree-path.ts';
import { withPath } from './tree-read-error.ts';
import { walkTree } from './walk-tree.ts';

type DifferenceKind = 'added' | 'removed' | 'modified';
/** The aspects in which a modified entry differs. `kind`: it is a file here and a link or directory there. */
type DifferenceAspect = 'content' | 'mode' | 'kind' | 'mtime';

export interface Difference {
  readonly type: DifferenceKind;
  /** undefined: the roots themselves, when they are no directories */
  readonly path: TreePath | undefined;
  readonly before: TreeItem | undefined;
  readonly after: TreeItem | undefined;
  readonly aspects: readonly DifferenceAspect[];
}

export interface DiffOptions extends CallOptions {
  /** Not what is below a directory that only one tree has; `listBelow` gives that. */
  readonly isShallow?: boolean | undefined;
  /** Hears of each directory that both trees have, when its entries are compared. */
  readonly onCompared?: ((path: TreePath | undefined) => void) | undefined;
}

/** Every difference in the order of the paths, with all below a directory of one tree. Throws TreeReadError and what reading throws. */
export async function* diffTrees(
  source: NodeSource,
  before: TreeItem,
  after: TreeItem,
  options: DiffOptions = {},
): AsyncGenerator<Difference, void, undefined> {
  const call = { name: 'diffTrees', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'the source', source, 'readNode');
  checkObject(call, 'before', before);
  checkObject(call, 'after', after);
  checkOptions(call, options);
  if (before.kind !== 'directory' || after.kind !== 'directory') {
    const aspects = findAspects(before, after);
    if (aspects.length > 0) yield { type: 'modified', path: undefined, before, after, aspects };
    return;
  }
  const slice = new TimeSlice();
  const levels: AsyncGenerator<Pair, void, undefined>[] = [];
  if (before.hash !== after.hash) levels.push(mergeDirectories(source, before, after, undefined, options));
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    const turn = slice.pass();
    if (turn !== undefined) await turn;
    const { done, value: pair } = await level.next();
    if (done === true) {
      levels.pop();
      continue;
    }
    if (pair.before?.kind === 'directory' && pair.after?.kind === 'directory') {
      const aspects = findAspects(pair.before, pair.after).filter((aspect) => aspect === 'mtime');
      if (aspects.length > 0) yield { type: 'modified', ...pair, aspects };
      if (pair.before.hash === pair.after.hash) continue;
      options.onCompared?.(pair.path);
      levels.push(mergeDirectories(source, pair.before, pair.after, pair.path, options));
    } else yield* diffPair(source, pair, options);
  }
}

interface Pair {
  readonly path: TreePath;
  readonly before: DirectoryEntry | undefined;
  readonly after: DirectoryEntry | undefined;
}

async function* diffPair(
  source: NodeSource,
  { path, before, after }: Pair,
  options: DiffOptions,
): AsyncGenerator<Difference, void, undefined> {
  if (before !== undefined && after !== undefined && !(isDirectory(before) || isDirectory(after))) {
    const aspects = findAspects(before, after);
    if (aspects.length > 0) yield { type: 'modified', path, before, after, aspects };
    return;
  }
  if (before !== undefined) yield* listAll(source, 'removed', path, before, options);
  if (after !== undefined) yield* listAll(source, 'added', path, after, options);
}

/** `entry` and all below it. */
async function* listAll(
  source: NodeSource,
  type: 'added' | 'removed',
  path: TreePath,
  entry: DirectoryEntry,
  options: DiffOptions,
): AsyncGenerator<Difference, void, undefined> {
  const top = differ(type, path, entry);
  yield top;
  if (!options.isShallow) yield* listBelow(source, top, options);
}

/** All below a directory that was added or removed, as differences of the same kind; nothing for anything else. */
export async function* listBelow(
  source: NodeSource,
  { type, path, before, after }: Difference,
  options: CallOptions = {},
): AsyncGenerator<Difference, void, undefined> {
  const directory = after ?? before;
  if (type === 'modified' || directory === undefined || !isDirectory(directory)) return;
  for await (const step of walkTree(source, directory, { signal: options.signal, rootPath: path })) {
    if (step.type === 'entry') yield differ(type, step.path, step.entry);
  }
}

function differ(type: 'added' | 'removed', path: TreePath, item: TreeItem): Difference {
  const [before, after] = type === 'removed' ? [item, undefined] : [undefined, item];
  return { type, path, before, after, aspects: [] };
}

function isDirectory({ kind }: TreeItem): boolean {
  return kind === 'directory';
}

function findAspects(before: TreeItem, after: TreeItem): DifferenceAspect[] {
  const aspects: DifferenceAspect[] = [];
  if (before.kind !== after.kind) aspects.push('kind');
  if (before.hash !== after.hash) aspects.push('content');
  if (before.isExecutable !== after.isExecutable) aspects.push('mode');
  if (before.mtimeNs !== after.mtimeNs) aspects.push('mtime');
  return aspects;
}

/** The names that are not the same in both, in order. */
async function* mergeDirectories(
  source: NodeSource,
  before: TreeItem,
  after: TreeItem,
  path: TreePath | undefined,
  options: CallOptions,
): AsyncGenerator<Pair, void, undefined> {
  try {
    const pages = await findDifferingPages(source, before, after, options);
    const left = new Cursor(source, pages.before, options);
    const right = new Cursor(source, pages.after, options);
    for (;;) {
      const [a, b] = [await left.peek(), await right.peek()];
      if (a === undefined && b === undefined) return;
      const order =
        a === undefined ? 1 : b === undefined ? -1 : compareNames((a as DirectoryEntry).name, b.name);
      if (order <= 0) left.take();
      if (order >= 0) right.take();
      const pair = { before: order <= 0 ? a : undefined, after: order >= 0 ? b : undefined };
      const name = (pair.before ?? pair.after)?.name;
      if (name !== undefined) yield { path: { parent: path, name }, ...pair };
    }
  } catch (error) {
    throw withPath(path, error);
  }
}

interface PartRef {
  readonly hash: string;
  /** 0: a page; undefined: not known yet */
  readonly level: number | undefined;
}

/** The pages of each that the other has not, in order. Parts that both have hold the same names with the same entries. */
async function findDifferingPages(
  source: NodeSource,
  before: TreeItem,
  after: TreeItem,
  options: CallOptions,
): Promise<{ before: PartRef[]; after: PartRef[] }> {
  let left: PartRef[] = [{ hash: before.hash, level: undefined }];
  let right: PartRef[] = [{ hash: after.hash, level: undefined }];
  for (;;) {
    const leftHashes = new Set(left.map(({ hash }) => hash));
    const rightHashes = new Set(right.map(({ hash }) => hash));
    left = left.filter(({ hash }) => !rightHashes.has(hash));
    right = right.filter(({ hash }) => !leftHashes.has(hash));
    const parts = [...left, ...right];
    if (parts.every(({ level }) => level === 0)) return { before: left, after: right };
    // Only the highest are opened, so that both sides come down level by level and common parts meet.
    const highest = Math.max(...parts.map(({ level }) => level ?? Number.POSITIVE_INFINITY));
    left = await openHighest(source, left, highest, options);
    right = await openHighest(source, right, highest, options);
  }
}

async function openHighest(
  source: NodeSource,
  parts: readonly PartRef[],
  highest: number,
  options: CallOptions,
): Promise<PartRef[]> {
  const opened: PartRef[] = [];
  for (const part of parts) {
    if ((part.level ?? Number.POSITIVE_INFINITY) < highest) {
      opened.push(part);
      continue;
    }
    const expected = part.level === undefined ? {} : { level: part.level };
    const node = await readDirectoryPart(source, part.hash, expected, options);
    if (node.type === 'directory') opened.push({ hash: part.hash, level: 0 });
    else opened.push(...node.children.map(({ hash }) => ({ hash, level: node.level - 1 })));
  }
  return opened;
}

class Cursor {
  readonly #pages: PartRef[];
  readonly #source: NodeSource;
  readonly #options: CallOptions;
  #entries: DirectoryEntry[] = [];

  constructor(source: NodeSource, pages: readonly PartRef[], options: CallOptions) {
    this.#source = source;
    this.#pages = pages.toReversed();
    this.#options = options;
  }

  async peek(): Promise<DirectoryEntry | undefined> {
    while (this.#entries.length === 0) {
      const page = this.#pages.pop();
      if (page === undefined) return undefined;
      for await (const entry of openTree(this.#source).readDirectory(page.hash, this.#options)) {
        this.#entries.push(entry);
      }
      this.#entries.reverse();
    }
    return this.#entries.at(-1);
  }

  take(): void {
    this.#entries.pop();
  }
}
