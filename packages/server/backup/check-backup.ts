/** `holdfast backup check`: opens a backup as a server would and verifies every byte. Changes nothing in it. */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { countOf, PRIVATE_UMASK } from '@holdfast/protocol';
import { holdDataFolder } from '../deployment/data-folder.ts';
import { HeldFolder, NotOurs } from '../deployment/held-folder.ts';
import { loadFolderFormat, openRestoredFolder } from '../deployment/open.ts';
import type { FolderFormat } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { BackupObjects } from './backup-objects.ts';
import { explainDiskError, isOfDatabase } from './explain-disk.ts';
import type { Manifest } from './manifest.ts';
import { findObjects, writeDatabases } from './read-backup.ts';
import { checkBucketBackup } from './read-bucket-backup.ts';
import { Repository } from './repository.ts';
import { holdFolder } from './restore-backup.ts';
import type { BackupVerdict, CheckRun } from './verdict.ts';
import { type DamagedNode, describeVerified, nameDamagedRows, verifyNodes } from './verify-nodes.ts';

/** Rejects with ServeError if there is no backup, or if nothing in it is readable. */
export async function checkBackup(folder: string, { onProgress }: CheckRun): Promise<BackupVerdict> {
  process.umask(PRIVATE_UMASK);
  const ofBucket = await checkBucketBackup(folder, { onProgress });
  if (ofBucket !== undefined) return ofBucket;
  const repository = new Repository(holdFolder(folder));
  try {
    const manifest = repository.getManifest();
    const scratch = mkdtempSync(join(findScratchParent(folder), 'check-'));
    const remove = (): void => rmSync(scratch, { recursive: true, force: true });
    process.once('exit', remove);
    try {
      return await new BackupCheck(repository, manifest, scratch, onProgress).run();
    } finally {
      process.off('exit', remove);
      remove();
    }
  } catch (error) {
    throw explainDiskError(error, { path: folder, kept: 'nothing was changed' });
  } finally {
    repository.folder.close();
  }
}

/** Databases are rebuilt beside the backup, where there is likely space; for a read-only backup in the folder for temporary files. */
function findScratchParent(folder: string): string {
  try {
    accessSync(folder, constants.W_OK);
    return folder;
  } catch {
    return tmpdir();
  }
}

class BackupCheck {
  readonly #repository: Repository;
  readonly #manifest: Manifest;
  readonly #scratch: string;
  readonly #onProgress: (step: string) => void;
  readonly #damagedFiles: string[] = [];

  constructor(
    repository: Repository,
    manifest: Manifest,
    scratch: string,
    onProgress: (step: string) => void,
  ) {
    this.#repository = repository;
    this.#manifest = manifest;
    this.#scratch = scratch;
    this.#onProgress = onProgress;
  }

  async run(): Promise<BackupVerdict> {
    const { createdAt, nodes, bytes } = this.#manifest;
    this.#onProgress('reading the databases');
    const onDamage = (what: string): number => this.#damagedFiles.push(what);
    this.#writeDatabases(onDamage);
    this.#onProgress('checking the databases');
    const format = await loadFolderFormat();
    for (const damage of format.findDamage(this.#scratch)) onDamage(damage);
    const { root, folder } = this.#repository;
    const objects = new BackupObjects(folder, format.objectsIn(root));
    findObjects(this.#repository, this.#manifest, objects, onDamage);
    const damagedNodes = this.#manifest.objects === null ? [] : await this.#verifyNodes(format);
    const ok = this.#damagedFiles.length === 0 && damagedNodes.length === 0;
    return { ok, createdAt, counted: 'node', nodes, bytes, damagedNodes, damagedFiles: this.#damagedFiles };
  }

  #writeDatabases(onDamage: (what: string) => void): void {
    const scratch = HeldFolder.hold(this.#scratch);
    try {
      writeDatabases(this.#repository, this.#manifest, scratch, onDamage);
    } finally {
      scratch.close();
    }
  }

  async #verifyNodes(format: FolderFormat): Promise<readonly DamagedNode[]> {
    const held = holdDataFolder(this.#scratch);
    try {
      // Without this, the copy would be taken for a store that has lost its objects.
      const mended = await format.renewRows(this.#scratch);
      this.#linkObjects(format);
      const { rows, apps, bytes, close } = await openRestoredFolder(this.#scratch);
      try {
        const verified = await verifyNodes({
          ...{ metadata: rows, content: bytes },
          onProgress: (count) => this.#onProgress(describeVerified(count, this.#manifest.nodes)),
        });
        if (verified.hasUnreadableRows) {
          const unread = format.countNodes(this.#scratch) - verified.nodes;
          this.#damagedFiles.push(
            `${countOf(unread, 'row')} of nodes cannot be read, because they lie on damaged pages`,
          );
        }
        this.#damagedFiles.push(...(await nameDamagedRows({ rows, apps }, mended)));
        return verified.damaged;
      } finally {
        await close();
      }
    } catch (error) {
      if (!(error instanceof ServeError) && !isOfDatabase(error)) throw error;
      this.#damagedFiles.push(`the database cannot be opened: ${(error as Error).message}`);
      return [];
    } finally {
      held.release();
    }
  }

  /** Missing or invalid folders of objects are empty in the copy: nothing is created in the backup. */
  #linkObjects(format: FolderFormat): void {
    const { root, folder } = this.#repository;
    for (const name of format.objectsIn(root).folderNames) {
      const path = join(this.#scratch, 'content', name);
      mkdirSync(dirname(path), { recursive: true });
      if (isFolder(folder, name)) symlinkSync(resolve(root, name), path);
      else mkdirSync(path);
    }
  }
}

function isFolder(folder: HeldFolder, name: string): boolean {
  try {
    return folder.look(name)?.isDirectory() ?? false;
  } catch (error) {
    if (error instanceof NotOurs) return false;
    throw error;
  }
}
