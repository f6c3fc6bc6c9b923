/** Makes a backup of a data folder, while a server serves it or not. Runs in a process of its own (engine/backup-ports.ts). */
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import type { Generation } from '../core/model.ts';
import { holdDataFolder } from '../deployment/data-folder.ts';
import { FOLDER_MARKS, markFolder } from '../deployment/folder-marks.ts';
import { loadFolderFormat } from '../deployment/open.ts';
import type { BackedUpDatabase, FolderFormat } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { DatabaseCopies, type FormerDatabase } from './copy-database.ts';
import { findCopiedObjects, ObjectCopies, type ProvenObjects } from './copy-objects.ts';
import { syncFolder, writeDurably } from './durable-files.ts';
import { noteBackup } from './last-backup.ts';
import { decodeObjectList, encodeObjectList, type ObjectSizes } from './object-list.ts';
import { watchOthers } from './others-work.ts';
import { OBJECTS_PACE, PAGES_PACE, Pace, type PaceLimits, REPEAT_BURST_MS } from './pace.ts';
import { PageMap } from './page-map.ts';
import { type DatabaseEntry, digestOf, type Manifest, makeManifest, Repository } from './repository.ts';

export interface BackupRequest {
  readonly dataDir: string;
  /** the folder of the backup, absolute */
  readonly folder: string;
}

export interface BackupResult {
  readonly nodes: number;
  /** what a restore writes */
  readonly bytes: number;
  /** what this backup wrote of databases and objects */
  readonly copiedBytes: number;
  /** Objects that the rows name and the data folder has lost. The backup still has them. Left out where the rows are not at hand. */
  readonly lostObjects?: number | undefined;
  readonly ms: number;
}

export interface BackupRun {
  onProgress(step: string, copiedBytes: number): void;
}

/** Files of a backup are for their owner alone. */
const PRIVATE_UMASK = 0o077;
const FOLDER_MODE = 0o700;
const SEED_BYTES = 8;
/** In this time nothing that came after the listing can have been collected, because its lease still holds. */
const PASS_MS_MAX = LEASE_DURATION_MS_MIN / 2;
const PASSES_MAX = 100;
/** Of pages that are to be written, this much may be left for the time that the write-ahead log is pinned. */
const PINNED_BYTES_MAX = 16 * 1024 * 1024;
const AHEAD_PASSES_MAX = 4;
/** If what the rows name is missing so often, the data folder has lost it. */
const PINS_MAX = 6;
const LOCK_FILE = 'lock.db';
/** A disk that was just mounted has it. */
const LOST_AND_FOUND = 'lost+found';

/** Rejects with ServeError. An interrupted one leaves the former backup of the folder as it was. */
export async function makeBackup(request: BackupRequest, run: BackupRun): Promise<BackupResult> {
  const startedAt = performance.now();
  process.umask(PRIVATE_UMASK);
  const format = await loadFolderFormat();
  // A mistyped data folder is refused before the folder of the backup is made.
  format.findDatabases(request.dataDir);
  assertApart(request);
  const repository = new Repository(request.folder);
  const held = holdRepository(repository);
  try {
    const former = await repository.findManifest();
    const source = { format, dataDir: request.dataDir };
    assertOwnFolder(repository, former);
    assertOwnDeployment(repository, former, source);
    markFolder(repository.root);
    const { manifest, copiedBytes, lostObjects } = await new BackupJob(repository, source, former, run).run();
    return {
      nodes: manifest.nodes,
      bytes: manifest.bytes,
      ...{ copiedBytes, lostObjects },
      ms: Math.round(performance.now() - startedAt),
    };
  } finally {
    held.release();
  }
}

/** A backup inside the data folder would be lost with it. */
function assertApart({ dataDir, folder }: BackupRequest): void {
  const way = relative(realPathOf(dataDir), realPathOf(folder));
  if (way.startsWith('..') || isAbsolute(way)) return;
  throw new ServeError(`${folder} is inside the data folder ${dataDir}: a backup belongs on another disk`);
}

/** Also of what does not exist yet: links in the path are followed as far as it does. */
function realPathOf(path: string): string {
  let known = resolve(path);
  while (!existsSync(known) && dirname(known) !== known) known = dirname(known);
  return resolve(realpathSync(known), relative(known, resolve(path)));
}

function holdRepository({ root }: Repository): ReturnType<typeof holdDataFolder> {
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

function assertOwnFolder(repository: Repository, former: Manifest | undefined): void {
  if (former !== undefined) return;
  const own = [LOCK_FILE, LOST_AND_FOUND, ...FOLDER_MARKS];
  const others = readdirSync(repository.root).filter((name) => !own.includes(name));
  if (others.length === 0 || others.includes('UNFINISHED')) return;
  throw new ServeError(
    `${repository.root} is not empty and holds no backup: give an empty folder, or one that holds a backup of this data`,
  );
}

interface Source {
  readonly format: FolderFormat;
  readonly dataDir: string;
}

/** A data folder in the place of another one, as where a disk is not mounted, would take the place of its backup. */
function assertOwnDeployment({ root }: Repository, former: Manifest | undefined, source: Source): void {
  const { format, dataDir } = source;
  if (former?.deployment === undefined || format.identitiesOf(dataDir).includes(former.deployment)) return;
  throw new ServeError(
    `${root} holds the backup of another deployment than ${dataDir}: check that its disk is mounted, or give another folder for the backup; nothing was changed`,
  );
}

/** Without the content folder of the rows nothing can be said of objects. */
function assertContent({ format, dataDir }: Source): void {
  const noted = format.notedMarkerOf(dataDir);
  const isOwn = noted === undefined || format.markerOf(dataDir) === noted;
  if (format.areBytesElsewhere(dataDir) || isOwn) return;
  throw new ServeError(
    `the content folder ${join(dataDir, 'content')} is not the store that these rows belong to: is its disk mounted? The former backup is unchanged`,
  );
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
  /** what is done now, as it is told */
  #step = '';

  constructor(repository: Repository, source: Source, former: Manifest | undefined, run: BackupRun) {
    this.#repository = repository;
    this.#source = source;
    this.#former = former;
    this.#sequence = (former?.sequence ?? 0) + 1;
    this.#seed = former?.seed ?? randomBytes(SEED_BYTES).toString('hex');
    this.#run = run;
    const [rows] = source.format.findDatabases(source.dataDir);
    const burstMs = former === undefined ? 0 : REPEAT_BURST_MS;
    const openPace = (limits: PaceLimits): Pace =>
      new Pace(limits, burstMs, watchOthers(rows?.watchCommits() ?? (() => 0)));
    this.#pages = openPace(PAGES_PACE);
    this.#objects = openPace(OBJECTS_PACE);
  }

  /**
   * Objects are listed and copied before the rows are pinned and once more afterwards. So every object that the pinned rows name is
   * copied: one that came after the first listing has a lease for longer than it takes until the second is done.
   */
  async run(): Promise<MadeBackup> {
    assertContent(this.#source);
    const isResumed = this.#noteUnfinished();
    const { format, dataDir } = this.#source;
    const copies = format.areBytesElsewhere(dataDir) ? undefined : await this.#openCopies(isResumed);
    if (copies !== undefined) await this.#copyObjects(copies, true);
    const nodes = format.countNodes(dataDir);
    const { databases, objects } = await this.#copyDatabases(copies);
    // What was listed since is that of the rows only if the disk was there all the time.
    assertContent(this.#source);
    const { kept, lost = 0 } = objects ?? {};
    const manifest = makeManifest({
      deployment: format.identitiesOf(dataDir)[0],
      ...{ sequence: this.#sequence, createdAt: Date.now(), nodes, seed: this.#seed, databases },
      objects: kept === undefined ? null : this.#writeList(kept),
      bytes: sum([...databases.map((each) => each.pageBytes * each.pageCount), ...(kept?.values() ?? [])]),
    });
    this.#tell('finishing');
    syncFolder(this.#repository.root);
    await this.#repository.replaceManifest(manifest);
    await this.#readBack(manifest);
    await noteBackup(dataDir, manifest.createdAt);
    if (kept !== undefined) await copies?.removeOthers(kept);
    this.#removeFormer(manifest);
    rmSync(this.#repository.unfinishedPath, { force: true });
    return { manifest, copiedBytes: this.#copiedBytes, lostObjects: lost };
  }

  get #copiedBytes(): number {
    return this.#pages.copiedBytes + this.#objects.copiedBytes;
  }

  #tell(step: string): void {
    this.#step = step;
    this.#run.onProgress(step, this.#copiedBytes);
  }

  /** Whether the backup before this one was interrupted. */
  #noteUnfinished(): boolean {
    const path = this.#repository.unfinishedPath;
    try {
      writeFileSync(path, '', { flag: 'wx', mode: 0o600 });
      syncFolder(this.#repository.root);
      return false;
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'EEXIST') throw error;
      return true;
    }
  }

  async #openCopies(isResumed: boolean): Promise<ObjectCopies> {
    const { root, incoming, lists } = this.#repository;
    const { format, dataDir } = this.#source;
    const source = format.objectsOf(dataDir);
    const target = format.objectsIn(root);
    const known = isResumed ? await findCopiedObjects(target) : await this.#readFormerList();
    mkdirSync(lists, { recursive: true, mode: FOLDER_MODE });
    const onCopied = (): void => this.#tell(this.#step);
    return new ObjectCopies({ source, target, incoming, known, pace: this.#objects, onCopied });
  }

  async #readFormerList(): Promise<ObjectSizes> {
    const list = this.#former?.objects?.list;
    if (list === undefined) return new Map();
    const bytes = await readFile(this.#repository.listPath(list.sequence));
    if (digestOf(bytes) === list.sha256) return decodeObjectList(bytes);
    return findCopiedObjects(this.#source.format.objectsIn(this.#repository.root));
  }

  /** Until a listing and its copies take so little time that nothing of it can be collected before the next one. */
  async #copyObjects(copies: ObjectCopies, withRests: boolean): Promise<void> {
    for (let passes = 0; passes < PASSES_MAX; passes += 1) {
      const startedAt = performance.now();
      this.#tell('copying objects');
      // What comes meanwhile comes without rests.
      await copies.pass(withRests && passes === 0);
      if (performance.now() - startedAt < PASS_MS_MAX) return;
    }
    throw new ServeError('objects come faster than they can be copied: try again when less is written');
  }

  /**
   * While pages are pinned, the write-ahead log grows. So a large database is copied before, as far as it does not change meanwhile;
   * what was pinned for then is little.
   */
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

  /**
   * Pins the rows between two passes over the objects, and proves that all that they name was copied. Packing and compaction can
   * make an object after the first of these passes and delete it before the second; then a later commit is pinned.
   */
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
      if (pins === PINS_MAX) throw this.#lacks(objects.missing);
    }
  }

  #lacks(missing: readonly Generation[]): ServeError {
    const { dataDir } = this.#source;
    return new ServeError(
      `${missing.length} objects that the rows name are not in ${dataDir}, or not with their length, such as ${missing[0]}, and ${this.#repository.root} has no copy: the former backup is unchanged. holdfast check --data ${dataDir} --rehash all names the nodes; upload them again, then back up`,
    );
  }

  async #copyAhead({ name, glance, pages }: BackedUpDatabase & { readonly pages: DatabaseCopies }) {
    for (let passes = 0; passes < AHEAD_PASSES_MAX; passes += 1) {
      const seen = glance();
      if (seen.pageBytes * seen.pageCount < PINNED_BYTES_MAX) return;
      this.#tell(`copying ${name}`);
      if ((await pages.pass(seen)) < PINNED_BYTES_MAX) return;
    }
  }

  /** An object that the rows name may have been deleted only if this took longer than a lease. */
  async #copyRest(copies: ObjectCopies): Promise<void> {
    const startedAt = performance.now();
    await copies.pass(false);
    if (performance.now() - startedAt < PASS_MS_MAX) return;
    throw new ServeError('objects come faster than they can be copied: try again when less is written');
  }

  #findFormer(name: string): FormerDatabase | undefined {
    const entry = this.#former?.databases.find((each) => each.name === name);
    if (entry === undefined) return undefined;
    const bytes = readFileSync(this.#repository.mapPath(name, entry.map.sequence));
    // Without its map nothing of the former backup can be used: everything is copied again.
    return digestOf(bytes) === entry.map.sha256 ? { entry, map: new PageMap(bytes) } : undefined;
  }

  #writeList(kept: ObjectSizes): Manifest['objects'] {
    const bytes = encodeObjectList(kept);
    writeDurably(this.#repository.listPath(this.#sequence), bytes);
    syncFolder(this.#repository.lists);
    const list = { sequence: this.#sequence, sha256: digestOf(bytes) };
    return { count: kept.size, bytes: sum(kept.values()), list };
  }

  /** A backup counts as made only if its list can be read again. */
  async #readBack(manifest: Manifest): Promise<void> {
    const found = await this.#repository.findManifest();
    if (found?.sequence === manifest.sequence) return;
    throw new ServeError(`${this.#repository.manifestPath} does not hold what was written: check the disk`);
  }

  #removeFormer({ databases, objects }: Manifest): void {
    for (const { name, map, packs } of databases) {
      const kept = [`${map.sequence}.map`, ...packs.map(({ sequence }) => `${sequence}.pages`)];
      removeExcept(this.#repository.folderOf(name), kept);
    }
    if (objects !== null) removeExcept(this.#repository.lists, [`${objects.list.sequence}.objects`]);
  }
}

function removeExcept(folder: string, kept: readonly string[]): void {
  for (const name of readdirSync(folder)) if (!kept.includes(name)) rmSync(join(folder, name));
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
