/**
 * What the survey saw of the folders ahead of the scan, so that the scan need not list them, nor look at their files, again. What
 * changes in between shows when a file is read.
 */
import type { Stats } from 'node:fs';
import type { ByteString } from '../byte-names.ts';
import type { NameList } from './name-list.ts';

export interface SurveyedFolder {
  readonly names: NameList;
  /** In the order of the names; of regular files alone. */
  readonly files: readonly (Stats | undefined)[];
}

/** Entries that are kept at once, each some 300 bytes. */
const ENTRIES_MAX = 32_768;

export class SurveyedFolders {
  readonly #folders = new Map<ByteString, SurveyedFolder>();
  readonly #entriesMax: number;
  #entryCount = 0;
  /** The folder that the scan came to last. */
  #reached: ByteString | undefined;

  constructor(entriesMax = ENTRIES_MAX) {
    this.#entriesMax = entriesMax;
  }

  /** Whether so many entries of a folder would be kept. */
  wants(path: ByteString, entryCount: number): boolean {
    if (this.#entryCount + entryCount > this.#entriesMax) return false;
    return this.#reached === undefined || scanOrder(path) > scanOrder(this.#reached);
  }

  put(path: ByteString, folder: SurveyedFolder): void {
    // The scan may have come to it while the survey looked.
    if (!this.wants(path, folder.names.length)) return;
    this.#entryCount += folder.names.length;
    this.#folders.set(path, folder);
  }

  /** Folders are taken in the order of the scan. Undefined: look yourself. */
  take(path: ByteString): SurveyedFolder | undefined {
    this.#reached = path;
    const folder = this.#folders.get(path);
    if (folder === undefined) return undefined;
    this.#folders.delete(path);
    this.#entryCount -= folder.names.length;
    return folder;
  }
}

/** Sorts folders as the scan enters them: what lies in one comes before its neighbours. */
function scanOrder(path: ByteString): string {
  return path.replaceAll('/', '\0');
}
