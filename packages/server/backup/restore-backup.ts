/** `holdfast restore`: creates a data folder from all intact data of a backup, and verifies every byte before a server can use it. */
import { closeSync, fsyncSync, readdirSync, readSync, rmdirSync, statSync, writeSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { formatCount, PRIVATE_UMASK } from '@holdfast/protocol';
import type { RowDamage } from '../core/inspection-ports.ts';
import { assertNotNested, explainFolderError, holdDataFolder } from '../deployment/data-folder.ts';
import { UNFINISHED_RESTORE } from '../deployment/folder-marks.ts';
import { folderSecret } from '../deployment/folder-secret.ts';
import { HeldFolder, makeNamedFolder } from '../deployment/held-folder.ts';
import { loadFolderFormat, openRestoredFolder } from '../deployment/open.ts';
import type { FolderFormat } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { BackupObjects } from './backup-objects.ts';
import { writeDurably } from './durable-files.ts';
import { explainDiskError, isOfDatabase } from './explain-disk.ts';
import type { Manifest } from './manifest.ts';
import { type DamagedPage, findObjects, writeDatabases, writeObjects } from './read-backup.ts';
import { Repository } from './repository.ts';
import {
  type DamagedNode,
  describeVerified,
  makeRotten,
  nameDamagedRows,
  verifyNodes,
} from './verify-nodes.ts';

export interface RestoreRequest {
  /** the folder of the backup */
  readonly folder: string;
  /** the new data folder: missing, empty, or left by an interrupted restore */
  readonly dataDir: string;
}

export interface RestoreResult {
  /** ms; when the backup was made */
  readonly createdAt: number;
  readonly nodes: number;
  readonly bytes: number;
  readonly ms: number;
}

export interface FolderRestoreResult extends RestoreResult {
  /** They answer 503 until their bytes are uploaded again. */
  readonly damagedNodes: readonly DamagedNode[];
  /** damaged files, pages and rows of the backup */
  readonly damagedFiles: readonly string[];
}

export interface RestoreRun {
  onProgress(step: string): void;
}

/** A new file system has it. */
const LOST_AND_FOUND = 'lost+found';
const CONTENT = 'content/';

/** Rejects with ServeError and then leaves nothing behind. Damage in the backup costs only the damaged part; the result names it. */
export async function restoreBackup(
  { folder, dataDir }: RestoreRequest,
  { onProgress }: RestoreRun,
): Promise<FolderRestoreResult> {
  const startedAt = performance.now();
  process.umask(PRIVATE_UMASK);
  const repository = new Repository(holdFolder(folder));
  try {
    const manifest = repository.getManifest();
    assertNotNested(dataDir, folder);
    const { target, madeFrom } = beginTarget(dataDir, manifest);
    try {
      const damage = await new Restoration(repository, manifest, target, onProgress).run();
      target.remove(UNFINISHED_RESTORE);
      target.sync();
      const { createdAt, nodes, bytes } = manifest;
      return { createdAt, nodes, bytes, ms: Math.round(performance.now() - startedAt), ...damage };
    } catch (error) {
      emptyTarget(target);
      if (madeFrom !== undefined) removeFolders(dataDir, madeFrom);
      throw error;
    } finally {
      target.close();
    }
  } catch (error) {
    // The open databases are those of the data folder.
    const ofDatabase = isOfDatabase(error) ? explainFolderError(dataDir, error) : error;
    throw explainDiskError(ofDatabase, { path: dataDir, kept: `the backup ${folder} is unchanged` });
  } finally {
    repository.folder.close();
  }
}

export function holdFolder(path: string): HeldFolder {
  try {
    return HeldFolder.hold(path);
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new ServeError(`${path} holds no finished backup, because it is no folder: check the path`);
    }
    throw explainDiskError(error, { path, kept: 'nothing was changed' });
  }
}

/** Marks the folder unfinished from the start, so that no server uses a partial restore. */
function beginTarget(
  dataDir: string,
  manifest: Manifest,
): {
  readonly target: HeldFolder;
  readonly madeFrom: string | undefined;
} {
  const isThere = statSync(dataDir, { throwIfNoEntry: false });
  if (isThere !== undefined && !isThere.isDirectory()) throw new ServeError(`${dataDir} is not a folder`);
  const names = isThere === undefined ? [] : readdirSync(dataDir).filter((name) => name !== LOST_AND_FOUND);
  if (names.length > 0 && !names.includes(UNFINISHED_RESTORE)) {
    // A restore that was killed after its last step left a complete folder.
    const hasRows = manifest.databases.some(({ name }) => names.includes(name));
    const told = hasRows
      ? 'it holds a data folder, perhaps of a restore that had finished, and then a server can start on it'
      : 'a restore makes a new data folder';
    throw new ServeError(`${dataDir} is not empty: ${told}; else choose another --data`);
  }
  const madeFrom = makeNamedFolder(dataDir);
  const target = HeldFolder.hold(dataDir);
  try {
    writeDurably(target, UNFINISHED_RESTORE, Buffer.from('an unfinished restore: run it again\n'));
    target.sync();
    emptyTarget(target, [UNFINISHED_RESTORE]);
    return { target, madeFrom };
  } catch (error) {
    target.close();
    throw error;
  }
}

/** Removes the folder and its parents up to `topmost` while they are empty. */
function removeFolders(folder: string, topmost: string): void {
  const last = resolve(topmost);
  for (let each = resolve(folder); each.length >= last.length; each = dirname(each)) {
    if (readdirSync(each).length > 0) return;
    rmdirSync(each);
  }
}

/** The mark is removed last. */
function emptyTarget(target: HeldFolder, kept: readonly string[] = []): void {
  const names = target.list().filter((name) => name !== LOST_AND_FOUND && !kept.includes(name));
  for (const name of names) if (name !== UNFINISHED_RESTORE) target.removeTree(name);
  if (names.includes(UNFINISHED_RESTORE)) target.removeTree(UNFINISHED_RESTORE);
}

type Damage = Pick<FolderRestoreResult, 'damagedNodes' | 'damagedFiles'>;

class Restoration {
  readonly #repository: Repository;
  readonly #manifest: Manifest;
  readonly #target: HeldFolder;
  readonly #onProgress: (step: string) => void;
  readonly #damagedFiles: string[] = [];

  constructor(
    repository: Repository,
    manifest: Manifest,
    target: HeldFolder,
    onProgress: (step: string) => void,
  ) {
    this.#repository = repository;
    this.#manifest = manifest;
    this.#target = target;
    this.#onProgress = onProgress;
  }

  async run(): Promise<Damage> {
    const format = await loadFolderFormat();
    const dataDir = this.#target.path;
    const held = holdDataFolder(dataDir);
    try {
      this.#onProgress('copying the databases');
      const onDamage = (what: string): number => this.#damagedFiles.push(what);
      const pages = writeDatabases(this.#repository, this.#manifest, this.#target, onDamage);
      mendPages(format, this.#target, pages);
      await this.#writeObjects(format, onDamage);
      this.#onProgress('checking the databases');
      const damage = format.findDamage(dataDir);
      damage.forEach(onDamage);
      if (damage.length > 0) format.rebuildIndexes(dataDir);
      const damagedNodes = await this.#prove(format);
      await folderSecret(dataDir).read();
      return { damagedNodes, damagedFiles: this.#damagedFiles };
    } finally {
      held.release();
    }
  }

  async #writeObjects(format: FolderFormat, onDamage: (what: string) => void): Promise<void> {
    if (this.#manifest.objects === null) return;
    const layout = format.objectsIn(this.#repository.root);
    const from = new BackupObjects(this.#repository.folder, layout);
    const sizes = findObjects(this.#repository, this.#manifest, from, onDamage);
    let copied = 0;
    const onCopied = (): void =>
      this.#onProgress(`copying objects: ${formatCount(++copied)} of ${formatCount(sizes.size)}`);
    await writeObjects(from, new BackupObjects(this.#target, layout, CONTENT), sizes, { onCopied, onDamage });
  }

  /** Restores nothing only if the rows cannot be opened at all. */
  async #prove(format: FolderFormat): Promise<readonly DamagedNode[]> {
    const { path } = this.#target;
    try {
      const mended = await format.renewRows(path);
      if (this.#manifest.objects === null) return [];
      const { damaged, hasUnreadableRows } = await this.#verifyFolder(mended);
      if (!hasUnreadableRows) return damaged;
      const reason = 'its row lies on a damaged page of the database';
      const unreadable = format.findUnreadableNodes(path).map((node) => ({ ...node, reason }));
      this.#damagedFiles.push('rows of nodes cannot be read: they lie on damaged pages');
      return [...damaged, ...unreadable];
    } catch (error) {
      if (!(error instanceof ServeError) && !isOfDatabase(error)) throw error;
      if (this.#damagedFiles.length === 0) throw error;
      throw new ServeError(
        `the rows of the backup ${this.#repository.root} cannot be opened, and nothing was restored: ${this.#damagedFiles[0]} (${(error as Error).message}); ${this.#repository.adviseFormer()}`,
      );
    }
  }

  async #verifyFolder(mended: readonly RowDamage[]) {
    const { rows, apps, bytes, close } = await openRestoredFolder(this.#target.path);
    try {
      const { nodes } = this.#manifest;
      const onProgress = (count: number): void => this.#onProgress(describeVerified(count, nodes));
      const onDamaged = makeRotten(rows);
      const verified = await verifyNodes({ metadata: rows, content: bytes, onProgress, onDamaged });
      this.#damagedFiles.push(...(await nameDamagedRows({ rows, apps }, mended)));
      return verified;
    } finally {
      await close();
    }
  }
}

/** Repairs a page with one wrong byte, except pages with contents: contents prove themselves, and their nodes can be uploaded again. */
function mendPages(format: FolderFormat, target: HeldFolder, pages: readonly DamagedPage[]): void {
  for (const database of new Set(pages.map((each) => each.database))) {
    const contents = format.findContentPages(target.path, database);
    const fd = target.openToChange(database);
    try {
      for (const { page, pageBytes, mend } of pages.filter((each) => each.database === database)) {
        if (contents?.has(page) === true) continue;
        const bytes = Buffer.alloc(pageBytes);
        if (readSync(fd, bytes, 0, pageBytes, page * pageBytes) < pageBytes || !mend(bytes)) continue;
        writeSync(fd, bytes, 0, pageBytes, page * pageBytes);
      }
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }
}
