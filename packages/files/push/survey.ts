/**
 * Looks at every entry of a tree before much of it is read, so that entries that cannot be stored are reported now and not after
 * gigabytes. It takes one system call for each entry. In memory it keeps the open folders, and what surveyed-folders.ts has room for.
 */
import { accessSync, constants, lstatSync, readFileSync, type Stats } from 'node:fs';
import type { ProgressReporter } from '@holdfast/client';
import { type ByteString, displayName, joinPath, toFsPath } from '../byte-names.ts';
import { isSettled, kindOf } from './entry-reader.ts';
import { fingerprintOf } from './hash-file.ts';
import type { IgnoreRules } from './ignore-rules.ts';
import { listNames, type NameList } from './name-list.ts';
import { describeSystemError, isGone, isSystemError, ScanProblems } from './scan-problem.ts';
import { SurveyedFolders } from './surveyed-folders.ts';

export interface SurveyOptions {
  /** absolute path of a folder, file or link */
  readonly root: ByteString;
  readonly rules: IgnoreRules;
  /** Names of pattern files that are honoured in every folder. */
  readonly ignoreFileNames: readonly string[];
  /** Sockets, pipes and devices are no problem: they are to be left out. */
  readonly skipsSpecial: boolean;
  /** is told what there is to read */
  readonly progress: Pick<ProgressReporter, 'expect'>;
  readonly signal: AbortSignal | undefined;
}

/** How long the survey may keep the process to itself. */
const TURN_MS = 25;
/** By everyone. */
const READ_BITS = 0o444;
/** A pattern file is no larger. */
const IGNORE_FILE_BYTES_MAX = 1024 * 1024;

/** The survey of a tree, which is made when it is first asked for. */
export class Survey {
  readonly folders = new SurveyedFolders();
  readonly #options: SurveyOptions;
  #made: Promise<void> | undefined;

  constructor(options: SurveyOptions) {
    this.#options = options;
  }

  /** Rejects with ScanError, or the reason of the signal. */
  make(): Promise<void> {
    this.#made ??= surveyTree(this.#options, this.folders);
    return this.#made;
  }
}

async function surveyTree(options: SurveyOptions, folders: SurveyedFolders): Promise<void> {
  const { root, rules, progress, signal } = options;
  const stats = lstatSync(toFsPath(root));
  let surveyedFiles = 1;
  let surveyedBytes = stats.isFile() ? stats.size : 0;
  // A root that is a file or a link is all there is, and is looked at by who reads it.
  if (!stats.isDirectory()) return progress.expect({ surveyedFiles, surveyedBytes });
  const problems = new ScanProblems();
  let turnEndsAt = performance.now() + TURN_MS;
  await survey('', rules, stats);
  problems.throwIfAny();
  progress.expect({ surveyedFiles, surveyedBytes });

  /** `folder`: what it was before it is listed. */
  async function survey(path: ByteString, outer: IgnoreRules, folder: Stats): Promise<void> {
    const seenAt = Date.now();
    const names = listNames(absolute(path));
    const patterns = readPatternTexts(absolute(path), names, options.ignoreFileNames, (name, reason) =>
      refuse(joinPath(path, name), reason),
    );
    const inner = outer.enter(path, patterns);
    // A folder that was changed a moment ago may change again, and its times stay the same.
    const isKept = isSettled(folder, seenAt) && folders.reserve(path, names.length);
    const files: (Stats | undefined)[] = [];
    for (const name of names) {
      if (performance.now() > turnEndsAt) {
        signal?.throwIfAborted();
        await new Promise((resolve) => setImmediate(resolve));
        turnEndsAt = performance.now() + TURN_MS;
      }
      const below = joinPath(path, name);
      let stats: Stats | undefined;
      try {
        stats = look(below, inner);
        if (stats?.isDirectory()) await survey(below, inner, stats);
      } catch (error) {
        if (!isSystemError(error)) throw error;
        if (!isGone(error)) refuse(below, describeSystemError(error));
      }
      if (isKept) files.push(stats?.isFile() ? stats : undefined);
    }
    if (isKept) folders.put(path, { names, files, fingerprint: fingerprintOf(folder) });
  }

  /** Undefined: it is left out, or cannot be stored. */
  function look(path: ByteString, inner: IgnoreRules): Stats | undefined {
    const at = toFsPath(absolute(path));
    const stats = lstatSync(at, { throwIfNoEntry: false });
    if (stats === undefined || inner.isIgnored(path, stats.isDirectory())) return undefined;
    if (kindOf(stats) === undefined) {
      if (!options.skipsSpecial) refuse(path, describeSpecial(stats));
      return undefined;
    }
    surveyedFiles += 1;
    if (stats.isFile()) {
      // The system is asked only where the mode leaves it open.
      if ((stats.mode & READ_BITS) !== READ_BITS) accessSync(at, constants.R_OK);
      surveyedBytes += stats.size;
    }
    return stats;
  }

  function refuse(path: ByteString, reason: string): void {
    problems.add(displayName(path), reason);
  }

  function absolute(path: ByteString): ByteString {
    return path === '' ? root : `${root}/${path}`;
  }
}

export function describeSpecial(stats: Stats): string {
  if (stats.isSocket()) return 'socket';
  if (stats.isFIFO()) return 'named pipe';
  return stats.isBlockDevice() || stats.isCharacterDevice() ? 'device' : 'special file';
}

/** Texts of the pattern files of a folder. A link in their place is not followed, which `onLink` hears; what went away is not there. */
export function readPatternTexts(
  folder: ByteString,
  names: NameList,
  fileNames: readonly string[],
  onProblem: (name: ByteString, reason: string) => void,
  onLink: (name: ByteString) => void = () => undefined,
): string[] {
  return fileNames.flatMap((name) => {
    if (!names.has(name)) return [];
    try {
      const file = toFsPath(`${folder}/${name}`);
      const stats = lstatSync(file);
      if (stats.isSymbolicLink()) onLink(name);
      if (!stats.isFile()) return [];
      if (stats.size <= IGNORE_FILE_BYTES_MAX) return [readFileSync(file, 'utf8')];
      onProblem(name, `a file of patterns has at most ${IGNORE_FILE_BYTES_MAX} bytes`);
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (!isGone(error)) onProblem(name, describeSystemError(error));
    }
    return [];
  });
}
