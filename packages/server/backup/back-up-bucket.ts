/** Copies the objects of a bucket that a folder does not have yet. Servers go on meanwhile, because an object never changes. */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { holdDataFolder } from '../deployment/data-folder.ts';
import { FOLDER_MARKS, markFolder } from '../deployment/folder-marks.ts';
import { withBucket } from '../deployment/open.ts';
import type { S3Place } from '../deployment/place.ts';
import { nameBucket } from '../deployment/place.ts';
import { replacePrivateFile } from '../deployment/private-file.ts';
import type { BucketObjects, FetchedObject } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import {
  type BucketEntry,
  BucketFolder,
  BucketListReader,
  type BucketManifest,
  formatEntry,
  makeBucketManifest,
  PARTS,
} from './bucket-list.ts';
import { GrowingFile, syncFolder } from './durable-files.ts';
import type { BackupResult } from './make-backup.ts';

export interface BucketBackupRequest {
  readonly place: S3Place;
  /** the folder of the backup, absolute */
  readonly folder: string;
  /** objects that a collection deleted stay so long, because an older backup of the database may name them */
  readonly keepGoneMs: number;
}

const PRIVATE_UMASK = 0o077;
const FETCHES_IN_FLIGHT = 8;
const LOST_AND_FOUND = 'lost+found';
const LOCK_FILE = 'lock.db';
const FILE_NAME = /^([0-9a-f]{32})\.([0-9a-f]{64})$/;

export interface BucketBackupWatch {
  onProgress(step: string, copiedBytes: number): void;
  /** The backup is made, and servers cannot be told. */
  onUntold(reason: string): void;
}

/** Rejects with ServeError. An interrupted one leaves the former backup good, and is gone on with. */
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
    const held = holdDataFolder(folder, { isBackup: true });
    try {
      const target = new BucketFolder(folder);
      const former = await target.findManifest();
      assertOwn(target, former, storeId);
      markFolder(folder);
      const job = new BucketCopy({ bucket, target, former, keepGoneMs, onProgress });
      const { nodes, bytes } = await job.run(storeId);
      await bucket.noteBackup(Date.now()).catch((error: Error) => onUntold(error.message));
      return { nodes, bytes, copiedBytes: job.copiedBytes, ms: Math.round(performance.now() - startedAt) };
    } finally {
      held.release();
    }
  });
}

function assertOwn({ root }: BucketFolder, former: BucketManifest | undefined, storeId: string): void {
  if (former !== undefined && former.storeId !== storeId) {
    throw new ServeError(`${root} holds the backup of another deployment's bucket: choose another folder`);
  }
  if (former !== undefined) return;
  const names = readdirSync(root).filter(
    (name) => ![LOCK_FILE, LOST_AND_FOUND, ...FOLDER_MARKS].includes(name),
  );
  // An interrupted first backup has made this, and its files are told by their digests.
  if (names.length === 0 || names.includes('incoming')) return;
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
    const { incoming, lists } = options.target;
    rmSync(incoming, { recursive: true, force: true });
    for (const folder of [incoming, lists]) mkdirSync(folder, { recursive: true });
    syncFolder(options.target.root);
  }

  async run(storeId: string): Promise<BucketManifest> {
    const { target, former } = this.#options;
    const sequence = (former?.sequence ?? 0) + 1;
    const list = new GrowingFile(target.listPath(sequence));
    const hasher = new Bun.CryptoHasher('sha256');
    const reader = former && new BucketListReader(target.listPath(former.sequence));
    let [nodes, bytes] = [0, 0];
    for (const part of PARTS) {
      const known = (await reader?.take(part)) ?? [];
      for (const entry of await this.#copyPart(part, known)) {
        const line = formatEntry(entry);
        hasher.update(line);
        list.append(Buffer.from(line));
        nodes += 1;
        bytes += entry.size;
      }
    }
    list.finish();
    syncFolder(target.lists);
    const sha256 = hasher.digest('hex');
    const manifest = makeBucketManifest({ sequence, storeId, createdAt: this.#now, nodes, bytes, sha256 });
    await replacePrivateFile(target.manifestPath, Buffer.from(`${JSON.stringify(manifest)}\n`));
    for (const path of this.#expired) rmSync(path, { force: true });
    if (former !== undefined) rmSync(target.listPath(former.sequence), { force: true });
    return manifest;
  }

  async #copyPart(part: string, known: readonly BucketEntry[]): Promise<readonly BucketEntry[]> {
    const files = this.#findFiles(part);
    const listed = new Set<string>();
    for await (const page of this.#options.bucket.list(part)) {
      for (const path of page) listed.add(path);
      const missing = page.filter((path) => !files.has(path));
      for (let at = 0; at < missing.length; at += FETCHES_IN_FLIGHT) {
        const batch = missing.slice(at, at + FETCHES_IN_FLIGHT);
        for (const entry of await Promise.all(batch.map((path) => this.#fetch(path)))) {
          if (entry !== undefined) files.set(entry.path, entry);
        }
        this.#options.onProgress(`copying objects: part ${part} of ff`, this.copiedBytes);
      }
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

  /** What the folder has, by path. */
  #findFiles(part: string): Map<string, BucketEntry> {
    const folder = this.#options.target.folderOf(part);
    mkdirSync(folder, { recursive: true });
    const files = new Map<string, BucketEntry>();
    for (const space of readdirSync(folder)) {
      for (const name of readdirSync(join(folder, space))) {
        const [, generation, sha256] = FILE_NAME.exec(name) ?? [];
        if (generation === undefined || sha256 === undefined) continue;
        const path = `${part}/${space}/${generation}`;
        const { size } = statSync(join(folder, space, name));
        files.set(path, { path, sha256, size, goneAt: 0 });
      }
    }
    return files;
  }

  #syncFolders(part: string): void {
    const folder = this.#options.target.folderOf(part);
    for (const space of readdirSync(folder)) syncFolder(join(folder, space));
    for (const path of [folder, dirname(folder)]) syncFolder(path);
  }

  /** `undefined`: the object was deleted after it was listed. */
  async #fetch(path: string): Promise<BucketEntry | undefined> {
    const draft = join(this.#options.target.incoming, path.replaceAll('/', '-'));
    let fetched = await this.#fetchInto(draft, path);
    if (fetched?.isNameOther === true) {
      // Damaged on the way, or a store whose ETags are no MD5: a second reading tells.
      const again = await this.#fetchInto(draft, path);
      if (again !== undefined && again.sha256 !== fetched.sha256) {
        throw new ServeError(`the object store sent other bytes of ${path} the second time: check it`);
      }
      fetched = again;
    }
    if (fetched === undefined) return undefined;
    const entry = { path, sha256: fetched.sha256, size: fetched.size, goneAt: 0 };
    const file = this.#options.target.fileOf(entry);
    mkdirSync(dirname(file), { recursive: true });
    renameSync(draft, file);
    this.copiedBytes += fetched.size;
    return entry;
  }

  /** Durable when it resolves, but for its name. */
  async #fetchInto(draft: string, path: string): Promise<FetchedObject | undefined> {
    let file: GrowingFile | undefined;
    try {
      const fetched = await this.#options.bucket.fetch(path, () => {
        file?.close();
        const begun = new GrowingFile(draft);
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
