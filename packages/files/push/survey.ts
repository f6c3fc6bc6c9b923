/**
 * Looks at every entry of a tree before much of it is read, so that entries that cannot be stored are reported now and not after
 * gigabytes. It takes one system call for each entry. In memory it keeps the open folders, and what `SurveyedFolders` has room for.
 */

import { accessSync, closeSync, constants, readSync } from 'node:fs';
import type { ProgressReporter } from '@holdfast/client/push';
import { displayName, joinPath } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';
import type { FileStats } from '../entry-stats.ts';
import { isSettled, kindOf } from './entry-reader.ts';
import { fingerprintOf } from './hash-file.ts';
import type { IgnoreRules } from './ignore-rules.ts';
import type { NameList } from './name-list.ts';
import { describeOwnFolder } from './own-folders.ts';
import {
  describeSystemError,
  isShortage,
  isSystemError,
  PatternFileError,
  ScanProblems,
} from './scan-problem.ts';
import { type SourceFolder, SourceTree } from './source-tree.ts';
import { type Fingerprint, isSameFingerprint } from './stat-pages.ts';

/**
 * The survey's view of the folders ahead of the scan, so that the scan need not list them, nor look at their small files, again. A
 * folder whose own times have changed since is listed again. A file that has changed since is noticed when it is read.
 */
interface SurveyedFolder {
  readonly names: NameList;
  /** In the order of the names; of regular files alone. */
  readonly files: readonly (FileStats | undefined)[];
  /** Attributes of the folder itself, before it was listed. */
  readonly fingerprint: Fingerprint;
}

export class SurveyedFolders {
  readonly #folders = new Map<ByteString, SurveyedFolder>();
  readonly #entriesMax: number;
  #entryCount = 0;
  /** The folder that the scan came to last. */
  #reached: ByteString | undefined;

  // Each entry that is kept takes some 350 bytes. Entries of the folders that the survey is in count too.
  constructor(entriesMax = 32_768) {
    this.#entriesMax = entriesMax;
  }

  /** Reserves room for `count` entries of a folder until `put` and `take`; false if there is none. */
  reserve(path: ByteString, entryCount: number): boolean {
    if (this.#entryCount + entryCount > this.#entriesMax || !this.#isAhead(path)) return false;
    this.#entryCount += entryCount;
    return true;
  }

  /** Keeps a folder for which room was reserved. */
  put(path: ByteString, folder: SurveyedFolder): void {
    // The scan may have come to it while the survey was below it.
    if (this.#isAhead(path)) this.#folders.set(path, folder);
    else this.#entryCount -= folder.names.length;
  }

  /** Folders are taken in the order of the scan; `present` is what the folder is now. Undefined: look yourself. */
  take(path: ByteString, present: Fingerprint): SurveyedFolder | undefined {
    this.#reached = path;
    const folder = this.#folders.get(path);
    if (folder === undefined) return undefined;
    this.#folders.delete(path);
    this.#entryCount -= folder.names.length;
    return isSameFingerprint(folder.fingerprint, present) ? folder : undefined;
  }

  #isAhead(path: ByteString): boolean {
    return this.#reached === undefined || scanOrder(path) > scanOrder(this.#reached);
  }
}

/** Sorts folders as the scan enters them: what lies in one comes before its neighbours. */
function scanOrder(path: ByteString): string {
  return path.replaceAll('/', '\0');
}

export interface SurveyOptions {
  /** absolute path of a folder, file or link */
  readonly root: ByteString;
  /** The root, held open; opened here when left out. */
  readonly tree?: SourceTree | undefined;
  readonly rules: IgnoreRules;
  /** Names of pattern files that are honoured in every folder. */
  readonly ignoreFileNames: readonly string[];
  /** Sockets, pipes and devices are no problem: they are to be left out. */
  readonly skipsSpecial: boolean;
  /** true: an entry that cannot be stored ends the push. */
  readonly isStrict: boolean;
  /** is told what there is to read */
  readonly progress: Pick<ProgressReporter, 'expect' | 'item'>;
  readonly signal: AbortSignal | undefined;
}

/** How long the survey may keep the process to itself. */
const TURN_MS = 25;
/** A pattern file is no larger. */
const IGNORE_FILE_BYTES_MAX = 1024 * 1024;

/** The survey of a tree, which is made when it is first asked for. */
export class Survey {
  readonly folders = new SurveyedFolders();
  readonly #options: SurveyOptions;
  #making: Promise<void> | undefined;
  #isMade = false;

  constructor(options: SurveyOptions) {
    this.#options = options;
  }

  get isMade(): boolean {
    return this.#isMade;
  }

  /** Rejects with ScanError, or the reason of the signal. */
  make(): Promise<void> {
    this.#making ??= this.#make();
    return this.#making;
  }

  async #make(): Promise<void> {
    const { root, tree } = this.#options;
    const opened = tree ?? new SourceTree(root);
    try {
      await surveyTree(this.#options, opened, this.folders);
      this.#isMade = true;
    } finally {
      if (opened !== tree) opened.close();
    }
  }
}

async function surveyTree(options: SurveyOptions, tree: SourceTree, folders: SurveyedFolders): Promise<void> {
  const { rules, progress, signal } = options;
  const stats = tree.lookAtRoot();
  let surveyedFiles = 1;
  let surveyedBytes = stats.isFile() ? stats.size : 0;
  // A root that is a file or a link is all there is, and is looked at by who reads it.
  if (!stats.isDirectory()) return progress.expect({ surveyedFiles, surveyedBytes });
  const problems = new ScanProblems(options.isStrict);
  let turnEndsAt = performance.now() + TURN_MS;
  await survey('', rules, stats);
  problems.throwIfStrict();
  progress.expect({ surveyedFiles, surveyedBytes });

  /** `folder`: what it was before it is listed. */
  async function survey(path: ByteString, outer: IgnoreRules, stats: FileStats): Promise<void> {
    // Each folder begins on an empty stack, as in the scan.
    await undefined;
    const seenAt = Date.now();
    const folder = tree.folder(path);
    const names = folder.list();
    if (path !== '' && describeOwnFolder(names, folder) !== undefined) return;
    const patterns = readPatternTexts(folder, names, options.ignoreFileNames);
    const inner = outer.enter(path, patterns);
    // A folder that was changed a moment ago may change again, and its times stay the same.
    const isKept = isSettled(stats, seenAt) && folders.reserve(path, names.length);
    const files: (FileStats | undefined)[] = [];
    for (const name of names) {
      if (performance.now() > turnEndsAt) {
        signal?.throwIfAborted();
        // Without a sign of life for half a minute a push counts as one that hangs.
        progress.item(displayName(joinPath(path, name)));
        await new Promise((resolve) => setImmediate(resolve));
        turnEndsAt = performance.now() + TURN_MS;
      }
      const found = await surveyEntry(folder, joinPath(path, name), name, inner);
      if (isKept) files.push(found?.isFile() ? found : undefined);
    }
    if (isKept) folders.put(path, { names, files, fingerprint: fingerprintOf(stats) });
  }

  async function surveyEntry(
    folder: SourceFolder,
    path: ByteString,
    name: ByteString,
    inner: IgnoreRules,
  ): Promise<FileStats | undefined> {
    try {
      const found = look(folder, path, name, inner);
      if (found?.isDirectory()) await survey(path, inner, found);
      return found;
    } catch (error) {
      problems.addError(path, error);
      return undefined;
    }
  }

  /** Undefined: it is left out, or cannot be stored. */
  function look(
    folder: SourceFolder,
    path: ByteString,
    name: ByteString,
    inner: IgnoreRules,
  ): FileStats | undefined {
    const found = folder.lookAt(name);
    // The reader of the tree reports an entry that went away.
    if (found === undefined || inner.isIgnored(path, found.isDirectory())) return undefined;
    if (kindOf(found) === undefined) {
      if (!options.skipsSpecial) problems.add(path, describeSpecial(found));
      return undefined;
    }
    surveyedFiles += 1;
    if (found.isFile()) {
      // The system is asked only where the mode leaves it open, and where the answer matters now.
      // Everyone may read it.
      const isOpen = !options.isStrict || (found.mode & 0o444) === 0o444;
      if (!isOpen) accessSync(folder.pathOf(name), constants.R_OK);
      surveyedBytes += found.size;
    }
    return found;
  }
}

export function describeSpecial(stats: FileStats): string {
  if (stats.isSocket()) return 'socket';
  if (stats.isFIFO()) return 'named pipe';
  return stats.isBlockDevice() || stats.isCharacterDevice() ? 'device' : 'special file';
}

/**
 * Texts of the pattern files of a folder. A link in their place is not followed, which `onLink` hears; what went away is not there.
 * Throws what the system says of one that cannot be read, because then nobody knows what is to be left out.
 */
export function readPatternTexts(
  folder: SourceFolder,
  names: NameList,
  fileNames: readonly string[],
  onLink: (name: ByteString) => void = () => undefined,
): string[] {
  return fileNames.flatMap((name) => {
    if (!names.has(name)) return [];
    const stats = folder.lookAt(name);
    if (stats?.isSymbolicLink()) onLink(name);
    return stats?.isFile() ? [readPatterns(folder, name, stats)] : [];
  });
}

function readPatterns(folder: SourceFolder, name: string, { size }: FileStats): string {
  if (size > IGNORE_FILE_BYTES_MAX) {
    throw new PatternFileError(name, `a file of patterns has at most ${IGNORE_FILE_BYTES_MAX} bytes`);
  }
  try {
    return readText(folder.openFile(name), size);
  } catch (error) {
    if (!isSystemError(error) || isShortage(error)) throw error;
    throw new PatternFileError(name, describeSystemError(error));
  }
}

function readText(file: number, size: number): string {
  try {
    const room = Buffer.alloc(size);
    let filled = 0;
    for (let count = -1; count !== 0; filled += count) {
      count = readSync(file, room, filled, size - filled, null);
    }
    return room.toString('utf8', 0, filled);
  } finally {
    closeSync(file);
  }
}
