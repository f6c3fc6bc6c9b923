/** Makes a backup of a data folder, with or without a running server. It needs its own process (engine/backup-ports.ts). */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { countOf, LEASE_DURATION_MS_MIN, NS_PER_MS, PRIVATE_UMASK } from '@holdfast/protocol';
import type { Generation } from '../core/model.ts';
import { assertNotNested, holdDataFolder, LOCK_NAME } from '../deployment/data-folder.ts';
import { FOLDER_MARKS, markFolder } from '../deployment/folder-marks.ts';
import { assertFolderOwner } from '../deployment/folder-owner.ts';
import { HeldFolder, makeNamedFolder } from '../deployment/held-folder.ts';
import { loadFolderFormat } from '../deployment/open.ts';
import type { BackedUpDatabase, FolderFormat } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { BackupObjects } from './backup-objects.ts';
import { DatabaseCopies, type FormerDatabase } from './copy-database.ts';
import { ObjectCopies, type ProvenObjects } from './copy-objects.ts';
import { explainDiskError, explainSource, isOfDatabase } from './explain-disk.ts';
import { noteBackup } from './last-backup.ts';
import { type DatabaseEntry, type Manifest, makeManifest } from './manifest.ts';
import { OBJECTS_PACE, PAGES_PACE, Pace, type PaceLimits } from './pace.ts';
import { encodeObjectList, type ObjectSizes, Repository } from './repository.ts';

/** A new file system has it. */
const LOST_AND_FOUND = 'lost+found';

/** Checks before a backup writes into a folder: the folder is a backup folder, and the data is that of the former backup. */
export interface Source {
  readonly format: FolderFormat;
  readonly dataDir: string;
}

interface HeldBackupFolder {
  readonly repository: Repository;
  readonly former: Manifest | undefined;
  release(): void;
}

/** Opens the folder, creating it if missing. A refused folder is unchanged. @throws ServeError, or a disk error */
function holdBackupFolder(path: string, source: Source): HeldBackupFolder {
  assertNotNested(path);
  const stood = statSync(path, { throwIfNoEntry: false });
  if (stood?.isDirectory() === false) throw new ServeError(`${path} is no folder: choose another path`);
  if (stood === undefined) makeNamedFolder(path);
  const folder = HeldFolder.hold(path);
  try {
    const repository = new Repository(folder);
    // Checked before anything is created there, and again with the lock.
    assertOwn(repository, source);
    const held = holdLock(path);
    const former = assertOwn(repository, source);
    markFolder(path);
    const release = (): void => {
      held.release();
      folder.close();
    };
    return { repository, former, release };
  } catch (error) {
    folder.close();
    throw error;
  }
}

function holdLock(root: string): ReturnType<typeof holdDataFolder> {
  try {
    return holdDataFolder(root, { isBackup: true });
  } catch (error) {
    if (!(error instanceof ServeError)) throw error;
    const message = error.message.includes('in use')
      ? `another backup into ${root} is under way: wait for it, or choose another folder`
      : error.message.replace('the data folder', 'the folder').replace('--data folder', 'folder');
    throw new ServeError(message, { cause: error });
  }
}

/** The former backup, if any. */
function assertOwn(repository: Repository, { format, dataDir }: Source): Manifest | undefined {
  const { root } = repository;
  const former = repository.findManifest();
  if (former === undefined) {
    const own = [LOCK_NAME, LOST_AND_FOUND, ...FOLDER_MARKS];
    const others = readdirSync(root).filter((name) => !own.includes(name));
    if (others.length === 0 || others.includes('UNFINISHED')) return undefined;
    throw new ServeError(
      `${root} is not empty and holds no backup: give an empty folder, or one that holds a backup of this data`,
    );
  }
  // Without this check, another data folder in the same place (such as an unmounted disk's mount point) would replace the backup.
  if (former.deployment === undefined || format.identitiesOf(dataDir).includes(former.deployment))
    return former;
  throw new ServeError(
    `${root} holds the backup of another deployment than ${dataDir}: check that its disk is mounted, or give another folder for the backup; nothing was changed`,
  );
}

/** Without the content folder of the rows, nothing is known about objects. */
function assertContent({ format, dataDir }: Source): void {
  const noted = format.notedMarkerOf(dataDir);
  const isOwn = noted === undefined || format.markerOf(dataDir) === noted;
  if (format.areBytesElsewhere(dataDir) || isOwn) return;
  throw new ServeError(
    `the content folder ${join(dataDir, 'content')} is not the store that these rows belong to: is its disk mounted? The former backup is unchanged`,
  );
}

export interface BackupRequest {
  readonly dataDir: string;
  /** the folder of the backup, absolute */
  readonly folder: string;
}

export interface BackupResult {
  readonly nodes: number;
  /** bytes that a restore writes */
  readonly bytes: number;
  readonly copiedBytes: number;
  /** Objects that the rows refer to and the data folder has lost. The backup still has them. Absent if the rows were not read. */
  readonly lostObjects?: number | undefined;
  readonly ms: number;
}

export interface BackupRun {
  onProgress(step: string, copiedBytes: number): void;
}

/** Within this time nothing added after the listing can be collected, because its lease is still valid. */
const PASS_MS_MAX = LEASE_DURATION_MS_MIN / 2;
/** Bytes of pages that may be left to write while the write-ahead log is pinned. */
const PINNED_BYTES_MAX = 16 * 1024 * 1024;

/** Rejects with ServeError. An interrupted run leaves the former backup unchanged. */
export async function makeBackup(request: BackupRequest, run: BackupRun): Promise<BackupResult> {
  const startedAt = performance.now();
  process.umask(PRIVATE_UMASK);
  const { dataDir, folder } = request;
  try {
    assertFolderOwner(dataDir);
    const format = await loadFolderFormat();
    // Refuses a mistyped data folder before the backup folder is created.
    format.findDatabases(dataDir);
    const source = { format, dataDir };
    const { repository, former, release } = holdBackupFolder(folder, source);
    try {
      const { manifest, copiedBytes, lostObjects } = await new BackupJob(
        repository,
        source,
        former,
        run,
      ).run();
      const { nodes, bytes } = manifest;
      return { nodes, bytes, copiedBytes, lostObjects, ms: Math.round(performance.now() - startedAt) };
    } finally {
      release();
    }
  } catch (error) {
    // The open databases are those of the data folder.
    if (isOfDatabase(error)) throw explainSource(dataDir, error);
    throw explainDiskError(error, { path: folder, kept: 'the former backup is unchanged' });
  }
}

interface MadeBackup extends Pick<BackupResult, 'copiedBytes' | 'lostObjects'> {
  readonly manifest: Manifest;
}

class BackupJob {
  readonly #repository: Repository;
  readonly #source: Source;
  readonly #former: Manifest | undefined;
  readonly #sequence: number;
  readonly #seed: string;
  readonly #run: BackupRun;
  readonly #pages: Pace;
  readonly #objects: Pace;
  /** the current step, as reported */
  #step = '';

  constructor(repository: Repository, source: Source, former: Manifest | undefined, run: BackupRun) {
    this.#repository = repository;
    this.#source = source;
    this.#former = former;
    this.#sequence = (former?.sequence ?? 0) + 1;
    this.#seed = former?.seed ?? randomBytes(8).toString('hex');
    this.#run = run;
    const [rows] = source.format.findDatabases(source.dataDir);
    // After a former backup the first two seconds are copied at full rate, because daily changes are often smaller than that.
    const burstMs = former === undefined ? 0 : 2000;
    const openPace = (limits: PaceLimits): Pace =>
      new Pace(limits, burstMs, watchOthers(rows?.watchCommits() ?? (() => 0)));
    this.#pages = openPace(PAGES_PACE);
    this.#objects = openPace(OBJECTS_PACE);
  }

  /** Copies objects before the rows are pinned and once more after: a later one has a lease that outlasts the second listing. */
  async run(): Promise<MadeBackup> {
    assertContent(this.#source);
    const isResumed = this.#repository.noteUnfinished();
    const { format, dataDir } = this.#source;
    this.#repository.makeFolders(format.findDatabases(dataDir).map(({ name }) => name));
    const copies = format.areBytesElsewhere(dataDir) ? undefined : this.#openCopies(isResumed);
    if (copies !== undefined) await this.#copyObjects(copies, true);
    const nodes = format.countNodes(dataDir);
    const { databases, objects } = await this.#copyDatabases(copies);
    // The listing belongs to the rows only if the disk was mounted all the time.
    assertContent(this.#source);
    const { kept, lost = 0 } = objects ?? {};
    const manifest = makeManifest({
      deployment: format.identitiesOf(dataDir)[0],
      ...{ sequence: this.#sequence, createdAt: Date.now(), nodes, seed: this.#seed, databases },
      objects: kept === undefined ? null : this.#writeList(kept),
      bytes: sum([...databases.map((each) => each.pageBytes * each.pageCount), ...(kept?.values() ?? [])]),
    });
    this.#tell('finishing');
    this.#repository.replaceManifest(manifest);
    noteBackup(dataDir, manifest.createdAt);
    this.#removeUnneeded(manifest, kept, copies);
    this.#repository.noteFinished();
    return { manifest, copiedBytes: this.#copiedBytes, lostObjects: lost };
  }

  get #copiedBytes(): number {
    return this.#pages.copiedBytes + this.#objects.copiedBytes;
  }

  #tell(step: string): void {
    this.#step = step;
    this.#run.onProgress(step, this.#copiedBytes);
  }

  #openCopies(isResumed: boolean): ObjectCopies {
    const { format, dataDir } = this.#source;
    const target = new BackupObjects(this.#repository.folder, format.objectsIn(this.#repository.root));
    const former = this.#former && this.#repository.findList(this.#former);
    // After an interrupted backup, or if the list is damaged, the folder itself is listed.
    const isListed = !isResumed && (this.#former === undefined || former !== undefined);
    const known = isListed ? (former ?? new Map<Generation, number>()) : target.listSizes();
    const onCopied = (): void => this.#tell(this.#step);
    return new ObjectCopies({
      ...{
        dataDir,
        source: format.objectsOf(dataDir),
        target,
        known,
        isResumed,
        pace: this.#objects,
        onCopied,
      },
    });
  }

  /** Repeats until a pass is short enough that nothing it missed can be collected before the next one. */
  async #copyObjects(copies: ObjectCopies, withRests: boolean): Promise<void> {
    for (let passes = 0; passes < 100; passes += 1) {
      const startedAt = performance.now();
      this.#tell('copying objects');
      // Only the first pass pauses.
      await copies.pass(withRests && passes === 0);
      if (performance.now() - startedAt < PASS_MS_MAX) return;
    }
    throw new ServeError('objects come faster than they can be copied: try again when less is written');
  }

  /** Copies a large database beforehand as far as possible, because the write-ahead log grows while pages are pinned. */
  async #copyDatabases(
    copies: ObjectCopies | undefined,
  ): Promise<{ readonly databases: DatabaseEntry[]; readonly objects: ProvenObjects | undefined }> {
    const { format, dataDir } = this.#source;
    const found = format.findDatabases(dataDir).map((database) => ({
      ...database,
      pages: new DatabaseCopies(database.name, {
        ...{ repository: this.#repository, sequence: this.#sequence, seed: this.#seed },
        ...{ former: this.#findFormer(database.name), pace: this.#pages },
      }),
    }));
    for (const database of found) await this.#copyAhead(database);
    const { pinned, objects } = await this.#pinProven(found, copies);
    const databases: DatabaseEntry[] = [];
    for (const { name, pages, snapshot } of pinned) {
      this.#tell(`copying ${name}`);
      databases.push(await pages.finish(snapshot));
    }
    return { databases, objects };
  }

  /** Pins rows between two passes and proves their objects copied. If packing moved some in between, a later commit is pinned. */
  async #pinProven<T extends BackedUpDatabase>(found: readonly T[], copies: ObjectCopies | undefined) {
    for (let pins = 1; ; pins += 1) {
      if (copies !== undefined) await this.#copyObjects(copies, false);
      const pinned = found.map((database) => ({ ...database, snapshot: database.pin() }));
      if (copies === undefined) return { pinned, objects: undefined };
      await this.#copyRest(copies);
      this.#tell('proving that the backup is whole');
      const objects = await copies.prove(pinned.flatMap(({ snapshot }) => [...snapshot.findNamed()]));
      if (objects.missing.length === 0) return { pinned, objects };
      for (const { snapshot } of pinned) snapshot.release();
      // After so many attempts the data folder itself must have lost the objects.
      if (pins === 6) throw this.#lacks(objects.missing);
    }
  }

  #lacks(missing: readonly Generation[]): ServeError {
    const { dataDir } = this.#source;
    return new ServeError(
      `${countOf(missing.length, 'object that the rows name is', 'objects that the rows name are')} not in ${dataDir}, or not of the recorded length, such as ${missing[0]}, and ${this.#repository.root} has no copy: the former backup is unchanged. holdfast check --data ${dataDir} --repair --rehash all puts rows right and names the nodes; upload these again, then back up`,
    );
  }

  async #copyAhead({ name, glance, pages }: BackedUpDatabase & { readonly pages: DatabaseCopies }) {
    for (let passes = 0; passes < 4; passes += 1) {
      const seen = glance();
      if (seen.pageBytes * seen.pageCount < PINNED_BYTES_MAX) return;
      this.#tell(`copying ${name}`);
      if ((await pages.pass(seen)) < PINNED_BYTES_MAX) return;
    }
  }

  /** An object that the rows refer to can have been deleted only if this took longer than a lease. */
  async #copyRest(copies: ObjectCopies): Promise<void> {
    const startedAt = performance.now();
    await copies.pass(false);
    if (performance.now() - startedAt < PASS_MS_MAX) return;
    throw new ServeError('objects come faster than they can be copied: try again when less is written');
  }

  /** Without the map of the former backup everything is copied again. */
  #findFormer(name: string): FormerDatabase | undefined {
    const entry = this.#former?.databases.find((each) => each.name === name);
    const map = entry && this.#repository.findMap(entry);
    return entry && map && { entry, map };
  }

  #writeList(kept: ObjectSizes): Manifest['objects'] {
    const list = this.#repository.writeList(this.#sequence, encodeObjectList(kept));
    return { count: kept.size, bytes: sum(kept.values()), list };
  }

  /** Removes files that neither this backup nor the former one needs. If the former's needs are unknown, all objects stay. */
  #removeUnneeded(manifest: Manifest, kept: ObjectSizes | undefined, copies: ObjectCopies | undefined): void {
    const former = this.#former;
    const formerList = former === undefined ? new Map() : this.#repository.findList(former);
    if (kept !== undefined && formerList !== undefined) copies?.removeOthers([kept, formerList]);
    this.#repository.removeOthers(former === undefined ? [manifest] : [manifest, former]);
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** Each call returns the ms of pause due since the last call. */
export function watchOthers(countCommits: () => number): () => number {
  let commits = countCommits();
  let waitedMs = readWaitedMs();
  return () => {
    const [commitsNow, waitedNow] = [countCommits(), readWaitedMs()];
    // The counter of commits has 32 bits.
    const newCommits = (commitsNow - commits + 2 ** 32) % 2 ** 32;
    // From 50 commits a second on, the copy runs at the crowded pace. It waits for a CPU only if others use all of them.
    const restMs = newCommits * 20 + (waitedNow - waitedMs) * 5;
    [commits, waitedMs] = [commitsNow, waitedNow];
    return restMs;
  };
}

/** ms that this process waited for a CPU. If the system does not report it, only commits count. */
function readWaitedMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / NS_PER_MS || 0;
  } catch {
    return 0;
  }
}
