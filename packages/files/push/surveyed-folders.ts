/**
 * The survey's view of the folders ahead of the scan, so that the scan need not list them, nor look at their small files, again. A
 * folder whose own times have changed since is listed again. A file that has changed since is noticed when it is read.
 */
import type { ByteString } from '../byte-names.ts';
import type { FileStats } from '../entry-stats.ts';
import type { NameList } from './name-list.ts';
import { type Fingerprint, isSameFingerprint } from './stat-pages.ts';

export interface SurveyedFolder {
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
