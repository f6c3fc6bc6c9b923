/** Proves the backup of a bucket, and puts what a bucket lacks back into it. */
import { createReadStream } from 'node:fs';
import { withBucket } from '../deployment/open.ts';
import { nameBucket, type S3Place } from '../deployment/place.ts';
import type { BucketObjects } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import {
  type BucketEntry,
  BucketFolder,
  BucketListReader,
  type BucketManifest,
  PARTS,
} from './bucket-list.ts';
import type { RestoreResult, RestoreRun } from './restore-backup.ts';
import type { BackupVerdict, CheckRun } from './verdict.ts';

const PUTS_IN_FLIGHT = 8;
const NAMED_MAX = 5;
/** How the list itself is named where damage is. */
const LIST = 'the list of objects';

/** `undefined`: the folder holds no backup of a bucket. Rejects with ServeError. */
export async function checkBucketBackup(
  folder: string,
  { onProgress }: CheckRun,
): Promise<BackupVerdict | undefined> {
  const target = new BucketFolder(folder);
  const manifest = await target.findManifest();
  if (manifest === undefined) return undefined;
  const damagedFiles: string[] = [];
  const reader = new BucketListReader(target.listPath(manifest.sequence));
  let checked = 0;
  for (const part of PARTS) {
    for (const entry of await reader.take(part)) {
      if (!(await isWhole(target, entry))) damagedFiles.push(`object ${target.fileOf(entry)}`);
      onProgress(`checking objects: ${++checked} of ${manifest.nodes}`);
    }
  }
  if (reader.digest() !== manifest.sha256) damagedFiles.push(LIST);
  const { createdAt, nodes, bytes } = manifest;
  return {
    ok: damagedFiles.length === 0,
    createdAt,
    counted: 'objects',
    nodes,
    bytes,
    damagedNodes: [],
    damagedFiles,
  };
}

export interface BucketRestoreResult extends RestoreResult {
  /** objects that the bucket did not have */
  readonly restored: number;
}

/** Rejects with ServeError. What is damaged in the backup is named at the end; the rest is restored. */
export async function restoreBucket(
  { folder, place }: { readonly folder: string; readonly place: S3Place },
  { onProgress }: RestoreRun,
): Promise<BucketRestoreResult> {
  const startedAt = performance.now();
  const target = new BucketFolder(folder);
  const manifest = await target.findManifest();
  if (manifest === undefined) throw new ServeError(`${folder} holds no backup of a bucket`);
  return withBucket(place, async (bucket) => {
    await claim(bucket, manifest, place);
    const damaged: string[] = [];
    const restored = await putMissing(bucket, { target, manifest, damaged, onProgress });
    refuseDamage(target, damaged);
    const { createdAt, nodes, bytes } = manifest;
    return { createdAt, nodes, bytes, restored, ms: Math.round(performance.now() - startedAt) };
  });
}

interface MissingObjects extends RestoreRun {
  readonly target: BucketFolder;
  readonly manifest: BucketManifest;
  /** takes the names of what is damaged */
  readonly damaged: string[];
}

/** Resolves with how many the bucket did not have. */
async function putMissing(
  bucket: BucketObjects,
  { target, manifest, damaged, onProgress }: MissingObjects,
): Promise<number> {
  const reader = new BucketListReader(target.listPath(manifest.sequence));
  let restored = 0;
  for (const part of PARTS) {
    const there = new Set<string>();
    for await (const page of bucket.list(part)) for (const path of page) there.add(path);
    const missing = (await reader.take(part)).filter(({ path }) => !there.has(path));
    for (let at = 0; at < missing.length; at += PUTS_IN_FLIGHT) {
      await Promise.all(
        missing.slice(at, at + PUTS_IN_FLIGHT).map(async (entry) => {
          if (await putBack(bucket, target, entry)) restored += 1;
          else damaged.push(entry.path);
        }),
      );
      onProgress(`restoring objects: ${restored}`);
    }
  }
  // A list that lost lines would leave objects out in silence.
  if (reader.digest() !== manifest.sha256) damaged.push(LIST);
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

/** `false`: the file is not what it was. */
async function putBack(bucket: BucketObjects, target: BucketFolder, entry: BucketEntry): Promise<boolean> {
  if (!(await isWhole(target, entry))) return false;
  const open = (): ReadableStream<Uint8Array> => Bun.file(target.fileOf(entry)).stream();
  await bucket.put(entry.path, { sha256: entry.sha256, length: entry.size, open });
  return true;
}

async function isWhole(target: BucketFolder, entry: BucketEntry): Promise<boolean> {
  const hasher = new Bun.CryptoHasher('sha256');
  let size = 0;
  try {
    for await (const piece of createReadStream(target.fileOf(entry))) {
      hasher.update(piece as Uint8Array);
      size += (piece as Uint8Array).length;
    }
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ENOENT') throw error;
    return false;
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
