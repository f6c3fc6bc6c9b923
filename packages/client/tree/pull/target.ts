/** The target of a pull: the abilities of a folder on a disk or in a browser. Nothing here ever follows a link. */
import type { Hash } from '@holdfast/protocol';
import type { UnprovenRecord } from '../read/node-source.ts';
import type { TreePath } from '../walk/tree-path.ts';

/** An entry at a path. `other`: a device, pipe or socket. */
export interface FoundEntry {
  readonly kind: 'file' | 'folder' | 'link' | 'other';
  /** of a file */
  readonly bytes: number;
  readonly isExecutable: boolean;
  /** The raw target of a link. */
  readonly linkTarget: Uint8Array | undefined;
  /** false: the file system took the name for another one that stands there, such as `Readme` for `README` */
  readonly isExactName: boolean;
}

export interface ExistingFile {
  /** The bytes that exist of these; shorter at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array>;
  close(): void;
}

export interface NewFile {
  readonly isExecutable: boolean;
  readonly mtimeNs: bigint | undefined;
  /** Whether an entry that stands at the final name may be replaced. If not, it is an error, which is checked at the last moment. */
  readonly mayReplace: boolean;
}

/** The node of a whole file as it came. Nothing of it is proven. */
export interface UnprovenFile {
  readonly hash: Hash;
  readonly record: UnprovenRecord['record'];
  /** With what the canonical bytes of the node begin; the bytes of the file are the rest. */
  readonly header: Uint8Array;
}

export interface FinishedFolder {
  /** whether it was there before this pull */
  readonly stood: boolean;
  readonly mtimeNs: bigint | undefined;
}

/** A file under a name of its own until `commit`. */
export interface PartialFile {
  /** How many bytes of an interrupted pull of the same file are in it. They prove nothing. */
  readonly foundBytes: number;
  read(offset: number, length: number): Promise<Uint8Array>;
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /** Makes it `bytes` long and gives it its final name, at once and whole. */
  commit(bytes: number): Promise<void>;
  /** Gives the file up. Its bytes may stay for the next attempt. */
  abandon(): void;
}

export interface MissingEntries {
  readonly entries: number;
  /** of files and links */
  readonly bytes: number;
}

/** Paths lie below the folder of the target. Everything throws PullTargetError. */
export interface PullTarget {
  /** Nothing stands in the folder itself: no entry needs to be looked for. */
  isEmpty(): boolean;
  /** Called before anything is written: so much of the tree is not there yet. Throws if it cannot fit. */
  prepare(missing: MissingEntries): void;
  /** The tree has this entry. Told of every entry in a folder of the target before anything in that folder is taken away. */
  noteEntry(path: TreePath): void;
  find(path: TreePath): FoundEntry | undefined;
  openExisting(path: TreePath): ExistingFile;
  setExecutable(path: TreePath, isExecutable: boolean): void;
  /** Whether the file or the link itself has this time, as exactly as the target can set one. True where it keeps none. */
  hasTime(path: TreePath, mtimeNs: bigint): boolean;
  /** The time of a file, or of a link itself. */
  setTime(path: TreePath, mtimeNs: bigint): void;
  makeFolder(path: TreePath, mayReplace: boolean): void;
  makeLink(path: TreePath, target: Uint8Array, file: Omit<NewFile, 'isExecutable'>): void;
  /** Writes a small file whole: at once, or beside the pull; `content` is not needed any more when it returns. */
  writeFile(path: TreePath, content: Uint8Array, file: NewFile): void | Promise<void>;
  /** The largest file that may be given unproven, bytes; none when left out. */
  readonly unprovenBytesMax?: number | undefined;
  /** Verifies the node beside the pull and writes the whole file. False: it is wrong, nothing was written. Undefined: no room now. */
  writeUnproven?(path: TreePath, unproven: UnprovenFile, file: NewFile): Promise<boolean> | undefined;
  /** `hash` finds again what an interrupted pull left of the same file. */
  openPartial(path: TreePath, hash: Hash, file: NewFile): PartialFile;
  /** All in the folder is done: takes away what interrupted pulls left in it, if it stood before, and sets its time. */
  finishFolder(path: TreePath | undefined, folder: FinishedFolder): void;
}

/** Something in the target is in the way, or the system refused. `message` says what and what to do. */
export class PullTargetError extends Error {
  override readonly name = 'PullTargetError';
}
