/** Copies the objects of a bucket that the backup folder lacks. Servers keep running, because an object never changes. */

import { dirname } from 'node:path';
import { PRIVATE_UMASK } from '@holdfast/protocol';
import { mapSome } from '../core/batches.ts';
import { assertNotNested, holdDataFolder, LOCK_NAME } from '../deployment/data-folder.ts';
import { FOLDER_MARKS, markFolder } from '../deployment/folder-marks.ts';
import { HeldFolder, makeNamedFolder } from '../deployment/held-folder.ts';
import { withBucket } from '../deployment/open.ts';
import { nameBucket, type S3Place } from '../deployment/place.ts';
import type { BucketObjects, FetchedObject } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import {
  type BucketEntry,
  BucketFolder,
  type BucketManifest,
  findPartFiles,
  formatEntry,
  INCOMING,
  LISTS,
  makeBucketManifest,
  PARTS,
  readEntries,
} from './bucket-list.ts';
import { GrowingFile } from './durable-files.ts';
import { explainDiskError } from './explain-disk.ts';
import type { BackupResult } from './make-backup.ts';

export interface BucketBackupRequest {
  readonly place: S3Place;
  /** the folder of the backup, absolute */
  readonly folder: string;
  /** how long deleted objects are kept, because an older backup of the database may refer to them */
  readonly keepGoneMs: number;
}

const LIST_FILE = /^\d+\.bucket$/;

export interface BucketBackupWatch {
  onProgress(step: string, copiedBytes: number): void;
  /** The backup is complete, but the servers could not be notified. */
  onUntold(reason: string): void;
}

/** Rejects with ServeError. An interrupted backup leaves the former one valid, and the next run resumes it. */
export async function backUpBucket(
  { place, folder, keepGoneMs }: BucketBackupRequest,
  { onProgress, onUntold }: BucketBackupWatch,
): Promise<BackupResult> {
  const startedAt = performance.now();
  process.umask(PRIVATE_UMASK);
  return withBucket(place, async (bucket) => {
    const storeId = await bucket.findStoreId();
    if (storeId === undefined) {
      throw new ServeError(
        `${nameBucket(place)} has no marker of a deployment: name the bucket and prefix of --content`,
      );
    }
    try {
      assertNotNested(folder);
      makeNamedFolder(folder);
      const target = new BucketFolder(HeldFolder.hold(folder));
      // Checked before anything is created there, and again with the lock.
      assertOwn(target, storeId);
      const held = holdDataFolder(folder, { isBackup: true });
      try {
        const former = assertOwn(target, storeId);
        markFolder(folder);
        const job = new BucketCopy({ bucket, target, former, keepGoneMs, onProgress });
        const { nodes, bytes } = await job.run(storeId);
        await bucket.noteBackup(Date.now()).catch((error: Error) => onUntold(error.message));
        return { nodes, bytes, copiedBytes: job.copiedBytes, ms: Math.round(performance.now() - startedAt) };
      } finally {
        held.release();
        target.folder.close();
      }
    } catch (error) {
      throw explainDiskError(error, { path: folder, kept: 'the former backup is unchanged' });
    }
  });
}

/** The former backup, if any. */
function assertOwn(target: BucketFolder, storeId: string): BucketManifest | undefined {
  const { root, folder } = target;
  const former = target.findManifest();
  if (former !== undefined && former.storeId !== storeId) {
    throw new ServeError(`${root} holds the backup of another deployment's bucket: choose another folder`);
  }
  if (former !== undefined) return former;
  const names = folder.list().filter((name) => ![LOCK_NAME, 'lost+found', ...FOLDER_MARKS].includes(name));
  // An interrupted first backup left this. Its files are identified by their digests.
  if (names.length === 0 || names.includes(INCOMING)) return undefined;
  throw new ServeError(`${root} is not empty and holds no backup of a bucket: give an empty folder`);
}

interface BucketCopyOptions {
  readonly bucket: BucketObjects;
  readonly target: BucketFolder;
  readonly former: BucketManifest | undefined;
  readonly keepGoneMs: number;
  readonly onProgress: (step: string, copiedBytes: number) => void;
}

class BucketCopy {
  readonly #options: BucketCopyOptions;
  readonly #now = Date.now();
  readonly #expired: string[] = [];
  copiedBytes = 0;

  constructor(options: BucketCopyOptions) {
    this.#options = options;
    const { folder } = options.target;
    folder.removeTree(INCOMING);
    folder.makeFolders([INCOMING, LISTS]);
  }

  async run(storeId: string): Promise<BucketManifest> {
    const { target, former } = this.#options;
    const sequence = (former?.sequence ?? 0) + 1;
    const list = new GrowingFile(target.folder, target.listName(sequence));
    const hasher = new Bun.CryptoHasher('sha256');
    const reader = former && readEntries(target, former);
    let [nodes, bytes] = [0, 0];
    for (const part of PARTS) {
      const known = reader?.take(part) ?? [];
      for (const entry of await this.#copyPart(part, known)) {
        const line = formatEntry(entry);
        hasher.update(line);
        list.append(Buffer.from(line));
        nodes += 1;
        bytes += entry.size;
      }
    }
    list.finish();
    target.folder.sync(LISTS);
    const sha256 = hasher.digest('hex');
    const manifest = makeBucketManifest({ sequence, storeId, createdAt: this.#now, nodes, bytes, sha256 });
    target.replaceManifest(manifest);
    for (const name of this.#expired) target.folder.remove(name);
    const kept = [manifest, former].flatMap((each) => (each ? [target.listName(each.sequence)] : []));
    for (const name of target.folder.list(LISTS)) {
      const path = `${LISTS}/${name}`;
      if (LIST_FILE.test(name) && !kept.includes(path)) target.folder.remove(path);
    }
    return manifest;
  }

  async #copyPart(part: string, known: readonly BucketEntry[]): Promise<readonly BucketEntry[]> {
    const files = this.#findFiles(part);
    const listed = new Set<string>();
    for await (const page of this.#options.bucket.list(part)) {
      for (const path of page) listed.add(path);
      const missing = page.filter((path) => !files.has(path));
      await mapSome(missing, 8, async (path) => {
        const entry = await this.#fetch(path);
        if (entry !== undefined) files.set(entry.path, entry);
        this.#options.onProgress(`copying objects: part ${part} of ff`, this.copiedBytes);
      });
    }
    this.#syncFolders(part);
    const goneAtOf = new Map(known.map(({ path, goneAt }) => [path, goneAt]));
    return [...files.values()].flatMap((entry) => {
      if (listed.has(entry.path)) return [{ ...entry, goneAt: 0 }];
      const goneAt = goneAtOf.get(entry.path) || this.#now;
      if (this.#now - goneAt <= this.#options.keepGoneMs) return [{ ...entry, goneAt }];
      this.#expired.push(this.#options.target.fileOf(entry));
      return [];
    });
  }

  #findFiles(part: string): Map<string, BucketEntry> {
    const { target } = this.#options;
    target.folder.makeFolders([target.folderOf(part)]);
    return new Map(findPartFiles(target, part).map((entry) => [entry.path, entry]));
  }

  #syncFolders(part: string): void {
    const { target } = this.#options;
    const folder = target.folderOf(part);
    for (const space of target.folder.list(folder)) target.folder.sync(`${folder}/${space}`);
    for (const name of [folder, dirname(folder)]) target.folder.sync(name);
  }

  /** undefined if the object was deleted after it was listed. */
  async #fetch(path: string): Promise<BucketEntry | undefined> {
    const { target } = this.#options;
    const draft = `${INCOMING}/${path.replaceAll('/', '-')}`;
    let fetched = await this.#fetchInto(draft, path);
    if (fetched?.isNameOther === true) {
      // Either the transfer was damaged, or the store's ETags are not MD5: a second read decides.
      const again = await this.#fetchInto(draft, path);
      if (again !== undefined && again.sha256 !== fetched.sha256) {
        throw new ServeError(`the object store sent other bytes of ${path} the second time: check it`);
      }
      fetched = again;
    }
    if (fetched === undefined) return undefined;
    const entry = { path, sha256: fetched.sha256, size: fetched.size, goneAt: 0 };
    const file = target.fileOf(entry);
    if (target.folder.look(dirname(file)) === undefined) target.folder.makeFolders([dirname(file)]);
    target.folder.rename(draft, file);
    this.copiedBytes += fetched.size;
    return entry;
  }

  /** The bytes are durable when it resolves; the name is not. */
  async #fetchInto(draft: string, path: string): Promise<FetchedObject | undefined> {
    let file: GrowingFile | undefined;
    try {
      const fetched = await this.#options.bucket.fetch(path, () => {
        file?.close();
        const begun = new GrowingFile(this.#options.target.folder, draft);
        file = begun;
        return (piece) => begun.append(piece);
      });
      if (fetched !== undefined) file?.finish();
      else file?.close();
      file = undefined;
      return fetched;
    } finally {
      file?.close();
    }
  }
}
