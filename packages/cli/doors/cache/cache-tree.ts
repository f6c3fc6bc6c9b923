/**
 * The map as a tree of which a name keeps one snapshot. Writes that come while a commit is under way become the next one; each is answered
 * when its commit is durable.
 */
import { hostname } from 'node:os';
import {
  CasError,
  type Client,
  createNodeSource,
  EditError,
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
import { KnownNames, NAMES_UNREADABLE } from '../known-names.ts';
import { createKeptClient } from './kept-client.ts';

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

interface Write {
  readonly path: string;
  readonly edits: readonly TreeEdit[];
  /** of the values among the edits */
  readonly bytes: number;
  readonly settle: PromiseWithResolvers<undefined>;
}

/** What others committed shows after so long. */
const HEAD_MS_MAX = 2_000;
/** For an answer that needs nothing else of the server: it must not tell that all is well when the server is away. */
export const HEAD_MS_FRESH = 100;
/** Writes of clients that were all answered by one commit come again about together. */
const GATHER_MS = 5;
const COMMIT_WRITES_MAX = 1_000;
const COMMIT_BYTES_MAX = 8 * 1024 * 1024;

export class CacheTree {
  readonly reader: TreeReader;
  readonly #client: Client;
  readonly #name: string;
  readonly #known: KnownNames;
  #head: (Head & { readonly at: number }) | undefined;
  #reading: Promise<Head> | undefined;
  /** commits of this process */
  #commits = 0;
  #waiting: Write[] = [];
  #running: Promise<void> | undefined;
  /** asks for what follows commits: eviction */
  onCommit: (() => void) | undefined;

  constructor(client: Client, name: string) {
    this.#client = createKeptClient(client);
    this.#name = name;
    this.#known = new KnownNames(client);
    this.reader = openTree(createNodeSource(this.#client));
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

  /** Settles once the edits, all of `path`, are committed. */
  write(path: string, edits: readonly TreeEdit[], bytes: number): Promise<undefined> {
    const settle = Promise.withResolvers<undefined>();
    this.#waiting.push({ path, edits, bytes, settle });
    // One commit a turn: writes that never pause must not keep others from theirs.
    void this.inTurn(async () => {
      if (this.#waiting.length === 0) return;
      await Bun.sleep(GATHER_MS);
      await this.#commit(this.#take());
      this.onCommit?.();
    });
    return settle.promise;
  }

  /** Does `work` when no commit is under way. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const turn = (this.#running ?? Promise.resolve()).then(async () => {
      await work();
    });
    this.#running = turn.catch(() => undefined);
    return turn;
  }

  #take(): readonly Write[] {
    let bytes = 0;
    let count = 0;
    for (const write of this.#waiting) {
      bytes += write.bytes;
      if (count === COMMIT_WRITES_MAX || (count > 0 && bytes > COMMIT_BYTES_MAX)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #commit(all: readonly Write[]): Promise<void> {
    let writes = all;
    while (writes.length > 0) {
      // The last of several writes of one key counts.
      const last = [...new Map(writes.map((write) => [write.path, write])).values()];
      const owners = last.flatMap((write) => write.edits.map(() => write));
      try {
        await this.apply(last.flatMap(({ edits }) => edits));
        for (const { settle } of writes) settle.resolve(undefined);
        return;
      } catch (error) {
        const owner = error instanceof EditError ? owners[error.index] : undefined;
        const failed = owner === undefined ? writes : writes.filter(({ path }) => path === owner.path);
        for (const { settle } of failed) settle.reject(error);
        writes = writes.filter((write) => !failed.includes(write));
      }
    }
  }

  /** One commit. `planned`: the head that the edits are for; throws HeadMovedError where it is another. */
  async apply(edits: readonly TreeEdit[], planned?: Head): Promise<void> {
    const { snapshot } = await editName(this.#client, this.#name, edits, {
      amend: 'latest',
      parents: true,
      host: hostname().toWellFormed(),
      path: 'cache',
      memory: this.#known.memory,
      check: (head) => {
        if (planned !== undefined && head?.id !== planned.snapshotId) throw new HeadMovedError();
      },
    });
    this.#commits += 1;
    this.#setHead(snapshot, performance.now());
  }
}
