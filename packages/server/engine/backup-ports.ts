/**
 * The ports by which a data folder is backed up: the pages of its databases as they were at one instant, and its objects, which
 * never change. Only a process that does nothing else opens them: it keeps every file open that it reads, because closing one
 * would drop the locks of SQLite on it.
 */
import type { Hash } from '@holdfast/protocol';
import type { RowDamage } from '../core/inspection-ports.ts';
import type { Generation, Space } from '../core/model.ts';

/** The pages of one database as they were at one commit. */
export interface PageSnapshot {
  readonly pageBytes: number;
  readonly pageCount: number;
  /** Fills the beginning of `buffer` with `count` pages from `first` on; the first page of the database is 0. */
  read(first: number, count: number, buffer: Uint8Array): void;
}

export interface NamedObject {
  readonly generation: Generation;
  /** as its row has it; undefined: no row tells */
  readonly bytes: number | undefined;
  /** false: all its nodes are rotten or being collected, so nothing is lost without it */
  readonly isNeeded: boolean;
}

/** Pages that stay as they are until they are released, or the process ends. */
export interface PinnedPages extends PageSnapshot {
  /** The objects that rows of this commit name, by the rows of contents alone. @throws when these rows cannot be read */
  findNamed(): Iterable<NamedObject>;
  release(): void;
}

export interface BackedUpDatabase {
  /** of its file in the data folder */
  readonly name: string;
  /** Pages as they are now or come to be while they are read, of several commits: good only for comparing later. Pins nothing. */
  glance(): PageSnapshot;
  /** Pins what is committed now. */
  pin(): PinnedPages;
  /** The returned function counts up by one with each commit of anybody, in 32 bits. */
  watchCommits(): () => number;
}

export interface UnreadableNode {
  readonly space: Space;
  readonly hash: Hash;
}

/** The port of a backup to data folders. */
export interface FolderFormat {
  /** the rows come first; @throws ServeError when there are none */
  findDatabases(dataDir: string): readonly BackedUpDatabase[];
  /** by the counters; of what is committed now */
  countNodes(dataDir: string): number;
  /** the bytes of these rows are in a bucket */
  areBytesElsewhere(dataDir: string): boolean;
  /** The deployments of these rows: the id of their own, if it was ever served, and that of the one it was restored from. */
  identitiesOf(dataDir: string): readonly string[];
  /** The id that the marker of the content folder must hold; undefined before the rows have noted one. */
  notedMarkerOf(dataDir: string): string | undefined;
  /** The id in the marker; undefined if there is none, as in a content folder whose disk is not mounted. */
  markerOf(dataDir: string): string | undefined;
  objectsOf(dataDir: string): ObjectFiles;
  /** the objects of a backup, laid out in the same way */
  objectsIn(root: string): ObjectFiles;
  /** The faults that SQLite finds in the databases of a folder that no process has open. */
  findDamage(dataDir: string): readonly string[];
  /** The pages, from 0 on, that hold contents of nodes or lead to them; undefined if the database does not tell. */
  findContentPages(dataDir: string, database: string): ReadonlySet<number> | undefined;
  /** Rebuilds indexes that do not fit their tables, as far as that is possible. */
  rebuildIndexes(dataDir: string): void;
  /** Nodes whose rows cannot be read: an index knows their hashes. */
  findUnreadableNodes(dataDir: string): readonly UnreadableNode[];
  /** Makes rows that were copied from a backup a deployment of their own. Durable when it resolves, with the rows that it mended. */
  renewRows(dataDir: string): Promise<readonly RowDamage[]>;
}

/** Objects as files; a file that is there is complete and never changes. */
export interface ObjectFiles {
  list(): Generation[];
  pathOf(generation: Generation): string;
  /** where an object lies below the root, and all folders of such places, with slashes */
  nameOf(generation: Generation): string;
  readonly folderNames: readonly string[];
}

/** The size and digest of an object that was read from a bucket. */
export interface FetchedObject {
  readonly size: number;
  /** hex */
  readonly sha256: string;
  /** the store names the bytes by their MD5, and it is another: they may be damaged, or its names mean something else */
  readonly isNameOther: boolean;
}

/** A body that can be sent again. */
export interface SentObject {
  /** hex */
  readonly sha256: string;
  readonly length: number;
  open(): ReadableStream<Uint8Array>;
}

/** The objects of a deployment in a bucket. A path names one: its part of the keys, two hex digits, its Space and its generation. */
export interface BucketObjects {
  /** of the deployment that the bucket belongs to; undefined: of none */
  findStoreId(): Promise<string | undefined>;
  /** Makes a bucket that belongs to none the one of a deployment. */
  claim(storeId: string): Promise<void>;
  list(part: string): AsyncIterable<readonly string[]>;
  /** Each attempt calls `begin` again for the receiver of the bytes. Resolves with undefined if the object does not exist. */
  fetch(path: string, begin: () => (piece: Uint8Array) => void): Promise<FetchedObject | undefined>;
  /** The store itself proves the digest. Leaves an object that is there. */
  put(path: string, body: SentObject): Promise<void>;
  /** Tells servers when a backup succeeded, ms. Rejects with StoreUnavailable, as where the credentials may only read. */
  noteBackup(at: number): Promise<void>;
  close(): void;
}
