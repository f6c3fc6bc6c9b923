/** Every entry of a tree in the order of its paths, parents first. Memory: some entries for each level that is open. */
import type { CallOptions } from '../../operations.ts';
import type { DirectoryEntry, NodeParts, TreeTotals } from '../format/tree-format.ts';
import { readDirectoryEntries } from '../read/directory-parts.ts';
import type { NodeSource, ReadNodeOptions } from '../read/node-source.ts';
import type { TreePath } from './tree-path.ts';
import { withPath } from './tree-read-error.ts';

export interface WalkedEntry {
  readonly type: 'entry';
  readonly path: TreePath;
  readonly entry: DirectoryEntry;
  /** position among all entries of the tree, whether they were walked or not; 0 is the first */
  readonly ordinal: number;
  /** whether the walk goes into this directory */
  readonly isEntered: boolean;
}

/** All of a directory that was entered has been walked; undefined is the root. */
export interface LeftDirectory {
  readonly type: 'left';
  readonly path: TreePath | undefined;
}

export interface WalkOptions extends CallOptions {
  /** Whether to go into a directory; asked a little ahead. Always when left out. */
  readonly enter?: ((path: TreePath, entry: DirectoryEntry, ordinal: number) => boolean) | undefined;
  /** Where the root stands; its entries then have longer paths. */
  readonly rootPath?: TreePath | undefined;
}

/** How far the walk looks ahead, for each open level. */
interface LookAhead {
  /** directories whose first node is on its way before the walk gets there */
  readonly directories: number;
  /** entries that are looked through for them */
  readonly entries: number;
}

const AHEAD: LookAhead = { directories: 8, entries: 64 };
/** Where many nodes come with one request. */
const AHEAD_IN_BATCHES: LookAhead = { directories: 64, entries: 512 };
/** Of all levels together: a directory's node has at most 256 KiB. */
const STARTED_MAX = 128;
/** Deeper levels do not read ahead, which bounds the memory for a tree of any depth. */
const DEPTH_AHEAD_MAX = 32;

type Upcoming = Omit<WalkedEntry, 'type'>;

interface Level {
  readonly path: TreePath | undefined;
  readonly entries: AsyncGenerator<DirectoryEntry, void, undefined>;
  readonly upcoming: Upcoming[];
  /** of the entry that is looked at next */
  nextOrdinal: number;
  directoriesAhead: number;
  isRead: boolean;
}

/** Throws what reading throws; TreeFormatError where nodes do not make one tree. */
export async function* walkTree(
  source: NodeSource,
  root: { readonly hash: string } & TreeTotals,
  options: WalkOptions = {},
): AsyncGenerator<WalkedEntry | LeftDirectory, void, undefined> {
  const ahead = new ReadAhead(source);
  const enter = options.enter ?? (() => true);
  const open = (
    directory: { readonly hash: string } & TreeTotals,
    path: TreePath | undefined,
    nextOrdinal: number,
  ): Level => ({
    path,
    entries: readDirectoryEntries(ahead, directory, options),
    upcoming: [],
    nextOrdinal,
    directoriesAhead: 0,
    isRead: false,
  });
  const levels: Level[] = [open(root, options.rootPath, 0)];
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    await lookAhead(level, levels.length <= DEPTH_AHEAD_MAX ? ahead : undefined, enter, options);
    const next = level.upcoming.shift();
    if (next === undefined) {
      levels.pop();
      yield { type: 'left', path: level.path };
      continue;
    }
    yield { type: 'entry', ...next };
    if (!next.isEntered) continue;
    level.directoriesAhead -= 1;
    levels.push(open(next.entry, next.path, next.ordinal + 1));
  }
}

/** Makes sure that the next entry is known, and starts to read the directories that come soon. */
async function lookAhead(
  level: Level,
  ahead: ReadAhead | undefined,
  enter: NonNullable<WalkOptions['enter']>,
  options: CallOptions,
): Promise<void> {
  const isShort = (): boolean =>
    level.upcoming.length === 0 ||
    (ahead?.hasRoom === true &&
      level.upcoming.length < ahead.reach.entries &&
      level.directoriesAhead < ahead.reach.directories);
  while (!level.isRead && isShort()) {
    const { done, value: entry } = await level.entries.next().catch((error: unknown) => {
      throw withPath(level.path, error);
    });
    if (done === true) {
      level.isRead = true;
      return;
    }
    const path = { parent: level.path, name: entry.name };
    const ordinal = level.nextOrdinal;
    level.nextOrdinal += 1 + entry.entryCount;
    const isEntered = entry.kind === 'directory' && enter(path, entry, ordinal);
    level.upcoming.push({ path, entry, ordinal, isEntered });
    if (!isEntered) continue;
    level.directoriesAhead += 1;
    ahead?.start(entry.hash, options);
  }
}

/** Nodes that were asked for before their turn. */
class ReadAhead implements NodeSource {
  readonly #source: NodeSource;
  readonly #started = new Map<string, Promise<NodeParts>>();

  constructor(source: NodeSource) {
    this.#source = source;
  }

  get reach(): LookAhead {
    return this.#source.nodesAtOnce === undefined ? AHEAD : AHEAD_IN_BATCHES;
  }

  get hasRoom(): boolean {
    return this.#started.size < STARTED_MAX;
  }

  start(hash: string, options: CallOptions): void {
    if (this.#started.has(hash)) return;
    const node = this.#source.readNode(hash, { signal: options.signal, expectsRefs: true });
    // A failure is thrown when its turn comes, or never if the walk ends before.
    node.catch(() => undefined);
    this.#started.set(hash, node);
  }

  readNode(hash: string, options?: ReadNodeOptions): Promise<NodeParts> {
    const started = this.#started.get(hash);
    this.#started.delete(hash);
    return started ?? this.#source.readNode(hash, options);
  }
}
