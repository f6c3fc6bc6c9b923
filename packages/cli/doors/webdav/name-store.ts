/** The names of a domain as folders: heads read a short while ago, and edits that come together as one commit. */
import { hostname } from 'node:os';
import {
  type CatalogMemory,
  type Client,
  createNodeSource,
  type DirectoryEntry,
  EditError,
  editName,
  editTree,
  openTree,
  readNames,
  type Snapshot,
  type TreeEdit,
  type TreeItem,
  TreePathError,
  type TreeReader,
} from '@holdfast/client/internal';
import { DoorError } from '../door.ts';

/** What others committed shows after so long. */
const HEADS_MS_MAX = 2_000;
/** Edits that come within so long become one commit. */
const GATHER_MS = 50;
/** A folder in use does not leave a snapshot for every save. */
const AMEND_MS = 10 * 60_000;

export type Check = (item: TreeItem | undefined) => void;

interface Waiting {
  readonly path: string;
  readonly edits: readonly TreeEdit[];
  readonly check: (head: Snapshot | undefined) => Promise<void>;
  readonly settle: PromiseWithResolvers<undefined>;
}

export interface Found {
  readonly item: TreeItem;
  readonly head: Snapshot | undefined;
}

const EMPTY: TreeItem = {
  kind: 'directory',
  hash: '',
  bytes: 0,
  entryCount: 0,
  isExecutable: false,
  mtimeNs: undefined,
};

export class NameStore {
  readonly tree: TreeReader;
  readonly #client: Client;
  readonly #given: readonly string[];
  readonly #memory: CatalogMemory = new Map();
  readonly #waiting = new Map<string, Waiting[]>();
  #heads: { readonly at: number; readonly names: Promise<ReadonlyMap<string, Snapshot>> } | undefined;

  constructor(client: Client, given: readonly string[]) {
    this.#client = client;
    this.#given = given;
    this.tree = openTree(createNodeSource(client));
  }

  /** The latest snapshot of each name; a name that was given and has none is undefined. */
  async heads(): Promise<ReadonlyMap<string, Snapshot | undefined>> {
    const now = Date.now();
    if (this.#heads === undefined || now - this.#heads.at > HEADS_MS_MAX) {
      const names = this.#readHeads();
      this.#heads = { at: now, names };
      names.catch(() => this.forgetHeads());
    }
    const names = await this.#heads.names;
    if (this.#given.length === 0) return names;
    return new Map(this.#given.map((name) => [name, names.get(name)]));
  }

  forgetHeads(): void {
    this.#heads = undefined;
  }

  async #readHeads(): Promise<ReadonlyMap<string, Snapshot>> {
    const { snapshots } = await readNames(this.#client, { memory: this.#memory });
    return new Map(snapshots.map((snapshot) => [snapshot.name, snapshot]));
  }

  /** What is at `path` of a name; undefined when nothing is. */
  async find(name: string, path: string): Promise<Found | undefined> {
    const heads = await this.heads();
    if (!heads.has(name)) return undefined;
    return this.#findIn(heads.get(name), path);
  }

  async #findIn(head: Snapshot | undefined, path: string): Promise<Found | undefined> {
    if (head === undefined) return path === '' ? { item: EMPTY, head } : undefined;
    const names = path === '' ? [] : path.split('/').map((part) => new TextEncoder().encode(part));
    try {
      return { item: await this.tree.resolvePath(head.root, names), head };
    } catch (error) {
      if (error instanceof TreePathError) return undefined;
      throw error;
    }
  }

  /** Settles once the edits are committed. `check` judges what is at `path` of the head that they are done on. */
  edit(
    name: string,
    edits: readonly TreeEdit[],
    path: string,
    check: Check = () => undefined,
  ): Promise<void> {
    const settle = Promise.withResolvers<undefined>();
    const judge = async (head: Snapshot | undefined): Promise<void> =>
      check((await this.#findIn(head, path))?.item);
    const waiting = this.#waiting.get(name);
    if (waiting !== undefined) waiting.push({ path, edits, check: judge, settle });
    else {
      this.#waiting.set(name, [{ path, edits, check: judge, settle }]);
      setTimeout(() => void this.#commit(name), GATHER_MS);
    }
    return settle.promise;
  }

  async #commit(name: string): Promise<void> {
    const all = this.#waiting.get(name) ?? [];
    this.#waiting.delete(name);
    if (all.length > 1 && (await this.#tryTogether(name, all))) return;
    for (const one of all) {
      try {
        await this.#apply(name, [one]);
        one.settle.resolve(undefined);
      } catch (error) {
        one.settle.reject(error);
      }
    }
  }

  /** False where one of them cannot be, or two are of one path and so judge each other's result: each then goes alone. */
  async #tryTogether(name: string, all: readonly Waiting[]): Promise<boolean> {
    if (new Set(all.map(({ path }) => path)).size < all.length) return false;
    try {
      await this.#apply(name, all);
    } catch (error) {
      if (error instanceof EditError || error instanceof DoorError) return false;
      for (const { settle } of all) settle.reject(error);
      return true;
    }
    for (const { settle } of all) settle.resolve(undefined);
    return true;
  }

  async #apply(name: string, all: readonly Waiting[]): Promise<void> {
    const amend = { within: AMEND_MS };
    const options = { amend, host: hostname().toWellFormed(), path: 'webdav', memory: this.#memory };
    await editName(
      this.#client,
      name,
      all.flatMap(({ edits }) => edits),
      {
        ...options,
        check: async (head) => {
          for (const { check } of all) await check(head);
        },
      },
    );
    this.forgetHeads();
  }

  /** Stores the bytes of a file, to be set by an edit. */
  async store(bytes: ReadableStream<Uint8Array>): Promise<TreeItem> {
    const { root } = await editTree(this.#client, undefined, [{ op: 'set', path: 'file', bytes }]);
    return this.tree.resolvePath(root, [new TextEncoder().encode('file')]);
  }

  async *list({ hash, bytes, entryCount }: TreeItem): AsyncGenerator<DirectoryEntry, void, undefined> {
    if (hash === '') return;
    yield* this.tree.readDirectory({ hash, bytes, entryCount });
  }

  usage() {
    return this.#client.getUsage();
  }
}

/** Throws DoorError 412. */
export function judge(wanted: boolean): void {
  if (!wanted) throw new DoorError(412, 'what is there is not what the request says');
}
