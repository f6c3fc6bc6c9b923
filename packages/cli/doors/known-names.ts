/** The names of a domain with their snapshots, read a short while ago. */

import {
  type CatalogMemory,
  type CatalogReader,
  type DomainNames,
  type NamesHolder,
  readNames,
  type Snapshot,
  type TreeItem,
} from '@holdfast/client/internal';

/** Commits of others become visible within this time. */
export const NAMES_MS_MAX = 2_000;

export interface NamesRead {
  /** the snapshots of each name, the latest last */
  readonly names: ReadonlyMap<string, readonly Snapshot[]>;
  /** False: there may be others, in lists that cannot be read. */
  readonly isWhole: boolean;
}

/** A folder that no tree has: that of names, or of a name without a snapshot. */
export const EMPTY_FOLDER: TreeItem = {
  kind: 'directory',
  hash: '',
  bytes: 0,
  entryCount: 0,
  isExecutable: false,
  mtimeNs: undefined,
};

/** Why a door answers a failure where `find` knows nothing. */
export const NAMES_UNREADABLE = 'a list of snapshots cannot be read, so that names may be missing';

/** As a holder it gives an edit the names, and keeps what the edit made of them. */
export class KnownNames implements NamesHolder {
  readonly memory: CatalogMemory = new Map();
  readonly #client: CatalogReader;
  #read: { readonly at: number; readonly names: Promise<NamesRead> } | undefined;
  /** for an edit; undefined while one is under way, or after it failed */
  #names: DomainNames | undefined;
  /** of the newest names that were seen */
  #revision = 0;
  /** when an edit read them itself */
  #editReadAt = 0;
  /** when an attempt to change them began, and how long the last one took that succeeded, ms */
  #takenAt = 0;
  #changeMs = 0;
  /** when another process was last seen to change them, or to try */
  #othersAt = Number.NEGATIVE_INFINITY;

  constructor(client: CatalogReader) {
    this.#client = client;
  }

  read(): Promise<NamesRead> {
    if (this.#read !== undefined && isFresh(this.#read.at)) return this.#read.names;
    // Each change of the names is another list.
    if (this.memory.size > 1_000) this.memory.clear();
    const reading = readNames(this.#client, { memory: this.memory });
    const read = { at: Date.now(), names: reading.then(groupNames) };
    this.#read = read;
    reading.then(
      (names) => {
        if (this.#read !== read) return;
        this.#names = names;
        this.#revision = names.revision;
      },
      () => this.forget(),
    );
    return read.names;
  }

  /** While others wait to change the names: one to three times as long as a change of this process took. */
  pauseMs(): number {
    if (performance.now() - this.#othersAt > NAMES_MS_MAX) return 0;
    return (1 + 2 * Math.random()) * this.#changeMs;
  }

  take(): DomainNames | undefined {
    const names = this.#names;
    this.#takenAt = performance.now();
    this.#names = undefined;
    if (this.#read !== undefined && isFresh(this.#read.at)) return names;
    this.#editReadAt = Date.now();
    return undefined;
  }

  give(names: DomainNames | undefined): void {
    const now = performance.now();
    this.#changeMs = Math.min(now - this.#takenAt, 500);
    if (names === undefined) this.#othersAt = now;
    // Answers may come in another order than the commits. In either case all is read again, what was just committed too.
    if (names === undefined || names.revision < this.#revision) {
      this.forget();
      return;
    }
    this.#revision = names.revision;
    this.#names = names;
    // What others do beside them is looked for as often as before.
    this.#read = {
      at: Math.max(this.#read?.at ?? 0, this.#editReadAt),
      names: Promise.resolve(groupNames(names)),
    };
  }

  /**
   * The snapshots of each name, the latest last; if names are `given`, of these alone, and one that has none stands empty. `wanted`: a
   * name, or undefined for all. Resolves with undefined if it may be in a list that cannot be read: then nothing is known to be absent.
   */
  async find(
    given: readonly string[],
    wanted: string | undefined,
  ): Promise<ReadonlyMap<string, readonly Snapshot[]> | undefined> {
    const { names, isWhole } = await this.read();
    if (!isWhole && (wanted === undefined || !names.has(wanted))) return undefined;
    return given.length === 0 ? names : new Map(given.map((name) => [name, names.get(name) ?? []]));
  }

  /** They changed, or could not be read. */
  forget(): void {
    this.#read = undefined;
    this.#names = undefined;
  }
}

function groupNames({ snapshots, unreadable }: DomainNames): NamesRead {
  return { names: Map.groupBy(snapshots, ({ name }) => name), isWhole: unreadable.length === 0 };
}

function isFresh(at: number): boolean {
  return Math.abs(Date.now() - at) <= NAMES_MS_MAX;
}

/** By the second that a snapshot was made in; where several share one, digits of the ID follow. */
export function nameTimes(snapshots: readonly Snapshot[]): ReadonlyMap<string, Snapshot> {
  const seconds = Map.groupBy(snapshots, ({ time }) => {
    const date = new Date(time);
    // A catalog may hold a time that no calendar has.
    if (Number.isNaN(date.getTime())) return `${time}ms`;
    const text = date.toISOString();
    return `${text.slice(0, text.indexOf('.')).replaceAll(':', '-')}Z`;
  });
  const named = [...seconds].flatMap(([second, all]) =>
    all.map((each) => [all.length > 1 ? `${second}-${each.id.slice(0, 8)}` : second, each] as const),
  );
  return new Map(named);
}
