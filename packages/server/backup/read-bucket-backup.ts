/** Verifies the backup of a bucket, and restores the objects that a bucket lacks. */
import { closeSync } from 'node:fs';
import { join } from 'node:path';
import { mapSome } from '../core/batches.ts';
import { NotOurs } from '../deployment/held-folder.ts';
import { withBucket } from '../deployment/open.ts';
import { nameBucket, type S3Place } from '../deployment/place.ts';
import type { BucketObjects } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { type BucketEntry, BucketFolder, type BucketManifest, PARTS, readEntries } from './bucket-list.ts';
import { readPiece } from './durable-files.ts';
import { explainDiskError } from './explain-disk.ts';
import { holdFolder, type RestoreResult, type RestoreRun } from './restore-backup.ts';
import type { BackupVerdict, CheckRun } from './verdict.ts';

const NAMED_MAX = 5;
/** The list's name in reports of damage. */
const LIST = 'the list of objects';

/** undefined if the folder holds no backup of a bucket. Rejects with ServeError. */
export async function checkBucketBackup(
  folder: string,
  { onProgress }: CheckRun,
): Promise<BackupVerdict | undefined> {
  const target = new BucketFolder(holdFolder(folder));
  try {
    const manifest = target.findManifest();
    return manifest && (await checkEntries(target, manifest, onProgress));
  } catch (error) {
    throw explainDiskError(error, { path: folder, kept: 'nothing was changed' });
  } finally {
    target.folder.close();
  }
}

async function checkEntries(
  target: BucketFolder,
  manifest: BucketManifest,
  onProgress: CheckRun['onProgress'],
): Promise<BackupVerdict> {
  const damagedFiles: string[] = [];
  const reader = readEntries(target, manifest);
  let checked = 0;
  for (const part of PARTS) {
    for (const entry of reader.take(part)) {
      if (!(await isWhole(target, entry))) {
        damagedFiles.push(`object ${join(target.root, target.fileOf(entry))}`);
      }
      onProgress(`checking objects: ${++checked} of ${manifest.nodes}`);
    }
  }
  if (!reader.isListed) damagedFiles.push(LIST);
  const { createdAt, nodes, bytes } = manifest;
  const ok = damagedFiles.length === 0;
  return { ok, createdAt, counted: 'object', nodes, bytes, damagedNodes: [], damagedFiles };
}

export interface BucketRestoreResult extends RestoreResult {
  /** objects that were missing in the bucket */
  readonly restored: number;
}

/** Rejects with ServeError. Damage in the backup is reported at the end; everything else is restored. */
export async function restoreBucket(
  { folder, place }: { readonly folder: string; readonly place: S3Place },
  { onProgress }: RestoreRun,
): Promise<BucketRestoreResult> {
  const startedAt = performance.now();
  const target = new BucketFolder(holdFolder(folder));
  try {
    const manifest = target.findManifest();
    if (manifest === undefined) throw new ServeError(`${folder} holds no backup of a bucket`);
    return await withBucket(place, async (bucket) => {
      await claim(bucket, manifest, place);
      const damaged: string[] = [];
      const restored = await putMissing(bucket, { target, manifest, damaged, onProgress });
      refuseDamage(target, damaged);
      const { createdAt, nodes, bytes } = manifest;
      return { createdAt, nodes, bytes, restored, ms: Math.round(performance.now() - startedAt) };
    });
  } catch (error) {
    throw explainDiskError(error, { path: folder, kept: 'what was restored stays' });
  } finally {
    target.folder.close();
  }
}

interface MissingObjects extends RestoreRun {
  readonly target: BucketFolder;
  readonly manifest: BucketManifest;
  /** collects the names of damaged parts */
  readonly damaged: string[];
}

async function putMissing(
  bucket: BucketObjects,
  { target, manifest, damaged, onProgress }: MissingObjects,
): Promise<number> {
  const reader = readEntries(target, manifest);
  let restored = 0;
  for (const part of PARTS) {
    const there = new Set<string>();
    for await (const page of bucket.list(part)) for (const path of page) there.add(path);
    const missing = reader.take(part).filter(({ path }) => !there.has(path));
    await mapSome(missing, 8, async (entry) => {
      if (await putBack(bucket, target, entry)) restored += 1;
      else damaged.push(entry.path);
      onProgress(`restoring objects: ${restored}`);
    });
  }
  if (!reader.isListed) damaged.push(LIST);
  return restored;
}

async function claim(bucket: BucketObjects, { storeId }: BucketManifest, place: S3Place): Promise<void> {
  const found = await bucket.findStoreId();
  if (found === undefined) await bucket.claim(storeId);
  else if (found !== storeId) {
    throw new ServeError(
      `${nameBucket(place)} belongs to another deployment than the backup: name the right one, or an empty one`,
    );
  }
}

/** Resolves with false if the file in the backup is missing or damaged. */
async function putBack(bucket: BucketObjects, target: BucketFolder, entry: BucketEntry): Promise<boolean> {
  if (!(await isWhole(target, entry))) return false;
  const fd = target.folder.openToRead(target.fileOf(entry));
  if (fd === undefined) return false;
  try {
    const open = (): ReadableStream<Uint8Array> => Bun.file(`/proc/self/fd/${fd}`).stream();
    await bucket.put(entry.path, { sha256: entry.sha256, length: entry.size, open });
    return true;
  } finally {
    closeSync(fd);
  }
}

async function isWhole(target: BucketFolder, entry: BucketEntry): Promise<boolean> {
  const hasher = new Bun.CryptoHasher('sha256');
  let size = 0;
  let fd: number | undefined;
  try {
    fd = target.folder.openToRead(target.fileOf(entry));
    if (fd === undefined) return false;
    const piece = Buffer.alloc(1024 * 1024);
    for (let bytes = 1; bytes > 0; size += bytes) {
      bytes = await readPiece(fd, piece, size);
      hasher.update(piece.subarray(0, bytes));
    }
  } catch (error) {
    // A link in its place, or an unreadable sector.
    if (!(error instanceof NotOurs) && (error as { code?: unknown }).code !== 'EIO') throw error;
    return false;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
  return size === entry.size && hasher.digest('hex') === entry.sha256;
}

function refuseDamage({ root }: BucketFolder, damaged: readonly string[]): void {
  if (damaged.length === 0) return;
  const more = damaged.length > NAMED_MAX ? ` and ${damaged.length - NAMED_MAX} more` : '';
  throw new ServeError(
    `the backup ${root} is damaged in ${damaged.slice(0, NAMED_MAX).join(', ')}${more}: the other objects were restored`,
  );
}
