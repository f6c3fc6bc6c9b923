/** `holdfast restore`: makes a new data folder from a backup, and proves every byte of it before anybody may serve it. */

import { mkdirSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { formatCount } from '@holdfast/protocol';
import { holdDataFolder } from '../deployment/data-folder.ts';
import { folderSecret } from '../deployment/folder-secret.ts';
import { loadFolderFormat, openRestoredFolder } from '../deployment/open.ts';
import { UNFINISHED_RESTORE } from '../deployment/unfinished-restore.ts';
import { ServeError } from '../errors.ts';
import { syncFolder, writeDurably } from './durable-files.ts';
import { checkObjects, readManifest, readObjectSizes, writeDatabases, writeObjects } from './read-backup.ts';
import { type Manifest, Repository } from './repository.ts';
import { describeVerified, type VerifiedNodes, verifyNodes } from './verify-nodes.ts';

export interface RestoreRequest {
  /** the folder of the backup */
  readonly folder: string;
  /** the new data folder: missing, empty, or what an interrupted restore left */
  readonly dataDir: string;
}

export interface RestoreResult {
  /** ms; when the backup was made */
  readonly createdAt: number;
  readonly nodes: number;
  readonly bytes: number;
  readonly ms: number;
}

export interface RestoreRun {
  onProgress(step: string): void;
}

const PRIVATE_UMASK = 0o077;
/** A disk that was just mounted has it. */
const LOST_AND_FOUND = 'lost+found';
const NAMED_MAX = 5;

/** Rejects with ServeError; a damaged backup leaves nothing behind. */
export async function restoreBackup(
  { folder, dataDir }: RestoreRequest,
  { onProgress }: RestoreRun,
): Promise<RestoreResult> {
  const startedAt = performance.now();
  process.umask(PRIVATE_UMASK);
  const repository = new Repository(folder);
  const manifest = await readManifest(repository);
  const madeFrom = beginTarget(dataDir);
  try {
    await fillTarget(repository, manifest, dataDir, onProgress);
  } catch (error) {
    emptyTarget(dataDir);
    if (madeFrom !== undefined) removeFolders(dataDir, madeFrom);
    throw error;
  }
  rmSync(join(dataDir, UNFINISHED_RESTORE));
  syncFolder(dataDir);
  const { createdAt, nodes, bytes } = manifest;
  return { createdAt, nodes, bytes, ms: Math.round(performance.now() - startedAt) };
}

/**
 * From the first moment the folder says that it is unfinished, so that no server takes a part of it for all. Returns the first
 * folder that had to be made, if any.
 */
function beginTarget(dataDir: string): string | undefined {
  const isThere = statSync(dataDir, { throwIfNoEntry: false });
  if (isThere !== undefined && !isThere.isDirectory()) throw new ServeError(`${dataDir} is not a folder`);
  const names = isThere === undefined ? [] : readdirSync(dataDir).filter((name) => name !== LOST_AND_FOUND);
  if (names.length > 0 && !names.includes(UNFINISHED_RESTORE)) {
    throw new ServeError(`${dataDir} is not empty: a restore makes a new data folder; choose another --data`);
  }
  const madeFrom = mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeDurably(join(dataDir, UNFINISHED_RESTORE), Buffer.from('an unfinished restore: run it again\n'));
  syncFolder(dataDir);
  emptyTarget(dataDir, [UNFINISHED_RESTORE]);
  return madeFrom;
}

/** Removes the folder and those above it, up to `topmost`, as long as they are empty. */
function removeFolders(folder: string, topmost: string): void {
  const last = resolve(topmost);
  for (let each = resolve(folder); each.length >= last.length; each = dirname(each)) {
    if (readdirSync(each).length > 0) return;
    rmdirSync(each);
  }
}

function emptyTarget(dataDir: string, kept: readonly string[] = []): void {
  for (const name of readdirSync(dataDir)) {
    if (name === LOST_AND_FOUND || kept.includes(name) || name === UNFINISHED_RESTORE) continue;
    rmSync(join(dataDir, name), { recursive: true, force: true });
  }
  if (!kept.includes(UNFINISHED_RESTORE)) rmSync(join(dataDir, UNFINISHED_RESTORE), { force: true });
}

async function fillTarget(
  repository: Repository,
  manifest: Manifest,
  dataDir: string,
  onProgress: (step: string) => void,
): Promise<void> {
  const format = await loadFolderFormat();
  const held = holdDataFolder(dataDir);
  try {
    onProgress('copying the databases');
    const damaged: string[] = [];
    const onDamage = ({ what }: { readonly what: string }): number => damaged.push(what);
    await writeDatabases(repository, manifest, dataDir, onDamage);
    const sizes = await readObjectSizes(repository, manifest);
    const from = format.objectsIn(repository.root);
    await checkObjects(from, sizes, onDamage);
    refuseDamage(repository, damaged);
    let copied = 0;
    const onCopied = (): void =>
      onProgress(`copying objects: ${formatCount(++copied)} of ${formatCount(sizes.size)}`);
    if (manifest.objects !== null) {
      await writeObjects(from, format.objectsOf(dataDir), sizes, onCopied);
    }
    onProgress('checking the databases');
    refuseDamage(repository, format.findDamage(dataDir));
    format.renewRows(dataDir);
    if (manifest.objects !== null)
      refuseDamagedNodes(repository, await verifyFolder(dataDir, manifest.nodes, onProgress));
    await folderSecret(dataDir).read();
  } finally {
    held.release();
  }
}

async function verifyFolder(
  dataDir: string,
  nodes: number,
  onProgress: (step: string) => void,
): Promise<VerifiedNodes> {
  const { rows, bytes, close } = await openRestoredFolder(dataDir);
  try {
    return await verifyNodes({
      ...{ metadata: rows, content: bytes },
      onProgress: (count) => onProgress(describeVerified(count, nodes)),
    });
  } finally {
    await close();
  }
}

function refuseDamage({ root }: Repository, damaged: readonly string[]): void {
  if (damaged.length === 0) return;
  throw new ServeError(
    `the backup ${root} is damaged, nothing was restored: ${nameSome(damaged)}; see holdfast backup check`,
  );
}

function refuseDamagedNodes(repository: Repository, { damaged, hasUnreadableRows }: VerifiedNodes): void {
  const named = damaged.map(
    ({ space, hash, reason }) => `${space.appId}/${space.spaceId} ${hash} (${reason})`,
  );
  refuseDamage(repository, hasUnreadableRows ? [...named, 'rows that cannot be read'] : named);
}

function nameSome(all: readonly string[]): string {
  const more = all.length > NAMED_MAX ? ` and ${all.length - NAMED_MAX} more` : '';
  return `${all.slice(0, NAMED_MAX).join('; ')}${more}`;
}
