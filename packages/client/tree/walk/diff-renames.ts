/** The differences between two trees. A file or folder that was only moved is one difference; equal hashes show that. */
import type { NodeSource } from '../read/node-source.ts';
import type { TreeItem } from '../read/open-tree.ts';
import { type Difference, type DiffOptions, diffTrees, listBelow } from './diff-trees.ts';
import type { TreePath } from './tree-path.ts';

/** An entry that stood at `from` with the same content. A directory comes without what is below it. */
export interface Rename extends Omit<Difference, 'type'> {
  readonly type: 'renamed';
  readonly from: TreePath;
}

export interface RenameOptions extends Omit<DiffOptions, 'isShallow'> {
  /** Added and removed entries that are compared, each; beyond that nothing is told as renamed. */
  readonly entriesMax?: number | undefined;
}

/** As `diffTrees`, with renames. It keeps the added and removed entries in memory, up to a bound. */
export async function* diffWithRenames(
  source: NodeSource,
  before: TreeItem,
  after: TreeItem,
  options: RenameOptions = {},
): AsyncGenerator<Difference | Rename, void, undefined> {
  const renames = await findRenames(source, before, after, options);
  if (renames === undefined) return yield* diffTrees(source, before, after, options);
  for (const difference of renames.differences) {
    const { type, path } = difference;
    const from = type === 'added' && path !== undefined ? renames.fromOf.get(path) : undefined;
    if (from !== undefined) {
      yield { ...difference, type: 'renamed', before: from.before, from: from.path as TreePath };
    } else if (!isMoved(difference, renames)) yield difference;
  }
}

/** Both ends of every rename, apart: one path may be where one thing was and where another is. */
interface Moved {
  readonly movedFrom: ReadonlySet<TreePath>;
  /** an added entry, and the one that was removed elsewhere */
  readonly fromOf: ReadonlyMap<TreePath, Difference>;
}

interface Renames extends Moved {
  /** all of them, in order */
  readonly differences: readonly Difference[];
}

/** undefined: there are too many differences to compare. */
async function findRenames(
  source: NodeSource,
  before: TreeItem,
  after: TreeItem,
  options: RenameOptions,
): Promise<Renames | undefined> {
  // They take about 100 MiB when all are there.
  const { entriesMax = 100_000 } = options;
  const tops: Difference[] = [];
  for await (const difference of diffTrees(source, before, after, { ...options, isShallow: true })) {
    if (tops.push(difference) > entriesMax) return undefined;
  }
  const matching = new Matching();
  // A directory that was moved as a whole needs no look inside.
  matching.match(tops, tops);
  const differences: Difference[] = [];
  for (const top of tops) {
    differences.push(top);
    if (isMoved(top, matching)) continue;
    for await (const below of listBelow(source, top, options)) {
      if (differences.push(below) > entriesMax) return undefined;
    }
  }
  matching.match(differences, differences);
  const { movedFrom, fromOf } = matching;
  return { differences, movedFrom, fromOf };
}

class Matching implements Moved {
  readonly fromOf = new Map<TreePath, Difference>();
  readonly movedFrom = new Set<TreePath>();
  /** directories that something was moved out of: no longer what they were */
  readonly #left = new Set<TreePath>();

  match(removed: readonly Difference[], added: readonly Difference[]): void {
    const byContent = new Map<string, Difference[]>();
    for (const difference of removed) {
      const key = difference.type === 'removed' ? keyOf(difference.before) : undefined;
      if (key === undefined) continue;
      const same = byContent.get(key) ?? [];
      byContent.set(key, same);
      same.push(difference);
    }
    for (const difference of added) {
      const { path } = difference;
      const key = difference.type === 'added' ? keyOf(difference.after) : undefined;
      if (key === undefined || path === undefined || isWithin(path, this.fromOf)) continue;
      const from = this.#choose(byContent.get(key) ?? [], path);
      if (from !== undefined) this.#move(from, path);
    }
  }

  /** One of the same name before any other. */
  #choose(candidates: readonly Difference[], path: TreePath): Difference | undefined {
    let any: Difference | undefined;
    for (const candidate of candidates) {
      const at = candidate.path as TreePath;
      if (this.#left.has(at) || isWithin(at, this.movedFrom)) continue;
      if (isSameName(at, path)) return candidate;
      any ??= candidate;
    }
    return any;
  }

  #move(from: Difference, path: TreePath): void {
    this.fromOf.set(path, from);
    this.movedFrom.add(from.path as TreePath);
    for (let at = from.path; at !== undefined; at = at.parent) this.#left.add(at);
  }
}

/** Entries with equal keys differ only in their place. Empty entries have no key: equal ones need not belong together. */
function keyOf(item: TreeItem | undefined): string | undefined {
  if (item === undefined || item.bytes === 0) return undefined;
  return `${item.kind} ${item.isExecutable} ${item.mtimeNs ?? ''} ${item.hash}`;
}

/** Whether a rename says it already, of the entry or of a directory that it is in. */
function isMoved({ type, path }: Difference, { movedFrom, fromOf }: Moved): boolean {
  if (type === 'modified') return false;
  return isWithin(path, type === 'removed' ? movedFrom : fromOf);
}

function isWithin(path: TreePath | undefined, paths: { has(path: TreePath): boolean }): boolean {
  for (let at = path; at !== undefined; at = at.parent) if (paths.has(at)) return true;
  return false;
}

function isSameName(one: TreePath, other: TreePath): boolean {
  return one.name.length === other.name.length && one.name.every((byte, index) => byte === other.name[index]);
}
