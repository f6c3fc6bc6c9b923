/**
 * The state that a push remembers of a folder: its entries as they were last hashed, the nodes of directories and file
 * indexes, and a commit of a root ref that is not answered yet. All of it is only a hint, because the server decides what is ready.
 */
import type { Hash } from '@holdfast/protocol';
import type { ByteString } from '../byte-names.ts';
import type { SeenEntry } from './stat-pages.ts';

export interface DirectoryRow {
  readonly id: number;
  /** It was added a moment ago: nothing is remembered of its entries, nor below it. */
  readonly isNew: boolean;
  /** undefined while it was never finished */
  readonly hash: Hash | undefined;
  readonly bytes: number;
  readonly entryCount: number;
}

/** The totals of a directory that was never finished. */
export const UNFINISHED = { hash: undefined, bytes: 0, entryCount: 0 } as const;

/** A commit that was sent, or was about to be, and whose answer never came. */
export interface PendingCommit {
  readonly requestId: string;
  readonly hash: Hash;
}

/** A directory's own nodes stand under this name, a file's index nodes under the name of the file. */
export const OWN_NODES = '';

/** Every call but `close` and `discard` throws TreeStateLostError once the state turned out to be of no use. */
export interface FolderState {
  /** Whether another state stood in its place that could not be read. */
  readonly isReplacement: boolean;

  findDirectory(parent: number, name: ByteString): DirectoryRow | undefined;
  addDirectory(parent: number, name: ByteString): DirectoryRow;
  finishDirectory(id: number, hash: Hash, bytes: number, entryCount: number): void;
  /** Forgets what stood below `directory` under names that `isThere` no longer finds. */
  dropMissing(directory: number, isThere: (name: ByteString) => boolean): void;

  findPage(directory: number, page: number): Uint8Array | undefined;
  /** Writes a page of a new directory in place. */
  putPage(directory: number, page: number, entries: Uint8Array): void;
  /** Kept beside the present pages until `replacePages`: those are still being read. */
  stagePage(directory: number, page: number, entries: Uint8Array): void;
  /** The staged pages take the place of all from `from` on. */
  replacePages(directory: number, from: number): void;
  dropStagedPages(directory: number): void;

  /** A large file that was hashed, also when its folder is not finished. */
  findFile(directory: number, name: ByteString): SeenEntry | undefined;
  putFile(directory: number, entry: SeenEntry): void;
  dropFile(directory: number, name: ByteString): void;

  /** The canonical bytes of a node of a directory, or of the file `name` in it: they are what the hash says. */
  findNode(directory: number, name: ByteString, hash: Hash): Uint8Array | undefined;
  putNode(directory: number, name: ByteString, hash: Hash, bytes: Uint8Array): void;
  /** Forgets the nodes of a directory or file other than `kept`. */
  dropNodesExcept(directory: number, name: ByteString, kept: ReadonlySet<Hash>): void;

  findCommit(scope: string): PendingCommit | undefined;
  /** As durable as the state is when this returns: a commit may be sent only then. */
  keepCommit(scope: string, pending: PendingCommit): void;
  dropCommit(scope: string): void;

  /** Forgets all entries, so that everything is read again. */
  forgetEntries(): void;
  /** Everything written so far outlives the process, if the state does. */
  save(): void;
  /** Saves when the last time was long enough ago; to be called where the written rows belong together. */
  saveSometimes(): void;
  close(): void;
  /** Closes it without saving. The commits it held, by scope; undefined when they cannot be read any more. */
  discard(): ReadonlyMap<string, PendingCommit> | undefined;
}
