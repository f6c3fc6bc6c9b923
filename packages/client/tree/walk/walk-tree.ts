/** Every entry of a tree in the order of its paths, parents first. Memory: a page of entries for each level that is open, and what is read ahead. */

import { checkHash, checkMethod, checkObject, checkOptions } from '../../arguments.ts';
import type { CallOptions } from '../../operations.ts';
import { TimeSlice } from '../../time-slice.ts';
import type { DirectoryEntry, TreeTotals } from '../format/tree-format.ts';
import { readDirectoryEntries } from '../read/directory-parts.ts';
import type { NodeSource } from '../read/node-source.ts';
import { type EnterDirectory, ReadAhead } from './read-ahead.ts';
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
  readonly enter?: EnterDirectory | undefined;
  /** The path of the root; its entries then have longer paths. */
  readonly rootPath?: TreePath | undefined;
}

interface Level {
  readonly path: TreePath | undefined;
  readonly entries: AsyncGenerator<DirectoryEntry, void, undefined>;
  /** of the entry that is looked at next */
  nextOrdinal: number;
}

/** Throws what reading throws; TreeFormatError where nodes do not make one tree. */
export async function* walkTree(
  source: NodeSource,
  root: { readonly hash: string } & TreeTotals,
  options: WalkOptions = {},
): AsyncGenerator<WalkedEntry | LeftDirectory, void, undefined> {
  const call = { name: 'walkTree', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'the source', source, 'readNode');
  checkObject(call, 'the root', root);
  checkHash(call, root.hash, 'the hash of the root');
  checkOptions(call, options);
  const enter = options.enter ?? (() => true);
  const ahead = new ReadAhead(source, enter, options);
  const open = (
    directory: { readonly hash: string } & TreeTotals,
    path: TreePath | undefined,
    ordinal: number,
  ): Level => ({
    path,
    entries: readDirectoryEntries(ahead.open(directory, path, ordinal), directory, options),
    nextOrdinal: ordinal + 1,
  });
  // The root stands before its first entry.
  const levels: Level[] = [open(root, options.rootPath, -1)];
  const slice = new TimeSlice();
  try {
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const turn = slice.pass();
      if (turn !== undefined) await turn;
      const entry = await readNext(level);
      if (entry === undefined) {
        levels.pop();
        yield { type: 'left', path: level.path };
        continue;
      }
      const ordinal = level.nextOrdinal;
      level.nextOrdinal += 1 + entry.entryCount;
      // One path object for each directory: what is known of it hangs on it.
      const known = ahead.findPath(ordinal);
      const path = known ?? { parent: level.path, name: entry.name };
      const isEntered = known !== undefined || (entry.kind === 'directory' && enter(path, entry, ordinal));
      yield { type: 'entry', path, entry, ordinal, isEntered };
      if (isEntered) levels.push(open(entry, path, ordinal));
    }
  } finally {
    ahead.stop();
  }
}

async function readNext(level: Level): Promise<DirectoryEntry | undefined> {
  try {
    const { done, value } = await level.entries.next();
    return done === true ? undefined : value;
  } catch (error) {
    throw withPath(level.path, error);
  }
}
