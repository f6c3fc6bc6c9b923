/** The map as a tree of which a name keeps one snapshot. */
import { hostname } from 'node:os';
import {
  CasError,
  type Client,
  createNodeSource,
  editName,
  type Hash,
  openTree,
  type Snapshot,
  type TreeEdit,
  type TreeItem,
  TreePathError,
  type TreeReader,
} from '@holdfast/client/internal';
import { DoorError } from '../door.ts';
import { type CheckHead, EditQueue } from '../edit-queue.ts';
import { createKeptClient, type KeptClient } from '../kept-client.ts';
import { KnownNames, NAMES_UNREADABLE } from '../known-names.ts';

export interface Head {
  /** undefined: there is no snapshot yet */
  readonly root: Hash | undefined;
  readonly snapshotId: string | undefined;
  /** of all values */
  readonly bytes: number;
}

/** Another writer was faster: what was planned is planned again. */
export class HeadMovedError extends Error {
  override readonly name = 'HeadMovedError';
}

/** Commits of others become visible within this time. */
const HEAD_MS_MAX = 2_000;
/** For an answer that needs nothing else of the server: it must not tell that all is well when the server is away. */
export const HEAD_MS_FRESH = 100;
const KEPT_BYTES_MAX = 8 * 1024 * 1024;

export class CacheTree {
  readonly reader: TreeReader;
  /** keeps folders, and the values that were read or put last */
  readonly client: KeptClient;
  readonly #name: string;
  readonly #known: KnownNames;
  #head: (Head & { readonly at: number }) | undefined;
  #reading: Promise<Head> | undefined;
  /** commits of this process */
  #commits = 0;
  readonly edits = new EditQueue(async (edits, check) => {
    await this.#edit(edits, check);
    this.onCommit?.();
  });
  /** asks for what follows commits: eviction */
  onCommit: (() => void) | undefined;

  constructor(client: Client, name: string, valuesBytesMax = 0) {
    this.client = createKeptClient(client, KEPT_BYTES_MAX, valuesBytesMax);
    this.#name = name;
    this.#known = new KnownNames(client);
    this.reader = openTree(createNodeSource(this.client));
  }

  /** As it is now, or was at most `ageMsMax` ago. */
  async head(ageMsMax = HEAD_MS_MAX): Promise<Head> {
    if (this.#head !== undefined && performance.now() - this.#head.at <= ageMsMax) return this.#head;
    this.#reading ??= this.#readHead().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readHead(): Promise<Head> {
    const [at, commits] = [performance.now(), this.#commits];
    this.#known.forget();
    const names = await this.#known.find([this.#name], this.#name);
    if (names === undefined) throw new DoorError(503, NAMES_UNREADABLE);
    // A commit that ended meanwhile knows better.
    if (commits === this.#commits || this.#head === undefined)
      this.#setHead(names.get(this.#name)?.at(-1), at);
    return this.#head as Head;
  }

  #setHead(snapshot: Snapshot | undefined, at: number): void {
    const { root, id: snapshotId, bytes = 0 } = snapshot ?? {};
    this.#head = { root, snapshotId, bytes, at };
  }

  /** The file at `path`; undefined when there is none. */
  async find(path: string, ageMsMax = HEAD_MS_MAX): Promise<TreeItem | undefined> {
    try {
      return await this.#findIn(await this.head(ageMsMax), path);
    } catch (error) {
      if (!(error instanceof CasError) || error.code !== 'NOT_FOUND') throw error;
      // The head was replaced, and a collection took its nodes.
      return this.#findIn(await this.head(0), path);
    }
  }

  async #findIn({ root }: Head, path: string): Promise<TreeItem | undefined> {
    if (root === undefined) return undefined;
    const names = path.split('/').map((name) => new TextEncoder().encode(name));
    try {
      const item = await this.reader.resolvePath(root, names);
      return item.kind === 'file' ? item : undefined;
    } catch (error) {
      if (error instanceof TreePathError) return undefined;
      throw error;
    }
  }

  /** One commit of edits that were planned for `head`. Throws HeadMovedError where it is another. */
  apply(edits: readonly TreeEdit[], head: Head): Promise<void> {
    return this.#edit(edits, async (now) => {
      if (now?.id !== head.snapshotId) throw new HeadMovedError();
    });
  }

  async #edit(edits: readonly TreeEdit[], check: CheckHead): Promise<void> {
    const { snapshot } = await editName(this.client, this.#name, edits, {
      amend: 'latest',
      parents: true,
      host: hostname().toWellFormed(),
      path: 'cache',
      memory: this.#known.memory,
      names: this.#known,
      check,
    });
    this.#commits += 1;
    this.#setHead(snapshot, performance.now());
  }
}
