/** The entries of one directory as they were seen last time, looked up in the order of their names: one page in memory. */
import type { ByteString } from '../byte-names.ts';
import type { DirectoryRow, FolderState } from './folder-state.ts';
import { type SeenEntry, unpackPage } from './stat-pages.ts';

export class SeenEntries {
  readonly #state: FolderState;
  readonly #directory: number;
  #page = 0;
  #entries: readonly SeenEntry[] = [];
  #at = 0;
  #isOver: boolean;

  constructor(state: FolderState, { id, isNew }: DirectoryRow) {
    this.#state = state;
    this.#directory = id;
    this.#isOver = isNew;
  }

  /** Names must be asked for in byte order. */
  find(name: ByteString): SeenEntry | undefined {
    for (;;) {
      const entry = this.#entries[this.#at];
      if (entry !== undefined) {
        if (entry.name === name) return entry;
        if (entry.name > name) return undefined;
        this.#at += 1;
      } else if (this.#isOver) return undefined;
      else this.#load();
    }
  }

  #load(): void {
    const packed = this.#state.findPage(this.#directory, this.#page);
    this.#page += 1;
    this.#at = 0;
    this.#isOver = packed === undefined;
    this.#entries = packed === undefined ? [] : unpackPage(packed);
  }
}
