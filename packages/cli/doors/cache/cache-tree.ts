/**
 * The map as a tree of which a name keeps one snapshot. What is put lies in a small folder first (`cas.new` beside `cas`): each entry of a
 * folder that is stored anew costs the server a change of a row. When that folder is full, all of it moves by one commit.
 */
import { hostname } from 'node:os';
import {
  CasError,
  type Client,
  createNodeSource,
  type DirectoryEntry,
  editName,
  findText,
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
import { KnownNames, NAMES_MS_MAX, NAMES_UNREADABLE } from '../known-names.ts';

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

/** For an answer that needs nothing else of the server: it must not tell that all is well when the server is away. */
export const HEAD_MS_FRESH = 100;
const NEW = '.new';
const NEW_MAX = 256;
const ATTEMPTS_MAX = 5;

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
  /** Of values that are put, or removed. */
  readonly edits = new EditQueue(async (edits, check) => {
    await this.#edit(edits.map(toNew), check);
    this.onCommit?.();
    // What fails now is done after a later commit.
    void this.edits.inTurn(() => this.#moveIfFull()).catch(() => undefined);
  });
  /** asks for what follows commits: eviction */
  onCommit: (() => void) | undefined;

  constructor(client: Client, name: string, valuesBytesMax = 0) {
    this.client = createKeptClient(client, 8 * 1024 * 1024, valuesBytesMax);
    this.#name = name;
    this.#known = new KnownNames(client);
    this.reader = openTree(createNodeSource(this.client));
  }

  /** As it is now, or was at most `ageMsMax` ago. */
  async head(ageMsMax = NAMES_MS_MAX): Promise<Head> {
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
  async find(path: string, ageMsMax = NAMES_MS_MAX): Promise<TreeItem | undefined> {
    try {
      return await this.#findInBoth(await this.head(ageMsMax), path);
    } catch (error) {
      if (!(error instanceof CasError) || error.code !== 'NOT_FOUND') throw error;
      // The head was replaced, and a collection took its nodes.
      return this.#findInBoth(await this.head(0), path);
    }
  }

  async #findInBoth(head: Head, path: string): Promise<TreeItem | undefined> {
    return (await this.#findIn(head, newPath(path))) ?? this.#findIn(head, path);
  }

  /** Whether there was a file at `path`. Commits of others hold it up only if they put or move this file. */
  async remove(path: string): Promise<boolean> {
    for (let attempt = 1; ; attempt += 1) {
      const places = await this.#placesIn(await this.head(attempt === 1 ? undefined : 0), path);
      if (places.length === 0) return false;
      const edits = places.map((place): TreeEdit => ({ op: 'remove', path: place }));
      const check: CheckHead = async (now) => {
        if (`${await this.#placesIn({ root: now?.root }, path)}` !== `${places}`) throw new HeadMovedError();
      };
      try {
        await this.edits.add({ paths: [path], edits, bytes: 0, check });
        return true;
      } catch (error) {
        if (!(error instanceof HeadMovedError) || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  async #placesIn(head: Pick<Head, 'root'>, path: string): Promise<readonly string[]> {
    const places: string[] = [];
    for (const place of [newPath(path), path])
      if ((await this.#findIn(head, place)) !== undefined) places.push(place);
    return places;
  }

  async #findIn({ root }: Pick<Head, 'root'>, path: string): Promise<TreeItem | undefined> {
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

  /** One commit of what `plan` makes of the head, or of a newer one. In the turn of the commits. Throws HeadMovedError. */
  async change(plan: (head: Head) => Promise<readonly TreeEdit[]>): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const head = await this.head(attempt === 1 ? undefined : 0);
      const edits = await plan(head);
      if (edits.length === 0) return;
      try {
        return await this.apply(edits, head);
      } catch (error) {
        if (!(error instanceof HeadMovedError) || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  /** One commit of edits that were planned for `head`, after what is new has moved. Throws HeadMovedError where it is another. */
  async apply(edits: readonly TreeEdit[], head: Head): Promise<void> {
    const moves: TreeEdit[] = [];
    for (const folder of await this.folders(head)) {
      const name = findText(folder.name) ?? '';
      if (!name.endsWith(NEW)) continue;
      for await (const entry of this.reader.readDirectory(folder)) {
        const from = `${name}/${findText(entry.name)}`;
        moves.push({ op: 'move', from, to: oldPath(from), replace: true });
      }
      moves.push({ op: 'remove', path: name });
    }
    if (moves.length + edits.length === 0) return;
    await this.#edit([...moves, ...edits], async (now) => {
      if (now?.id !== head.snapshotId) throw new HeadMovedError();
    });
  }

  async #moveIfFull(): Promise<void> {
    const head = await this.head();
    let count = 0;
    for (const { name, entryCount } of await this.folders(head))
      if (findText(name)?.endsWith(NEW)) count += entryCount;
    if (count >= NEW_MAX) await this.apply([], head);
  }

  async folders({ root }: Head): Promise<readonly DirectoryEntry[]> {
    const folders: DirectoryEntry[] = [];
    if (root === undefined) return folders;
    for await (const entry of this.reader.readDirectory(root))
      if (entry.kind === 'directory') folders.push(entry);
    return folders;
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

const newPath = (path: string): string => path.replace('/', `${NEW}/`);

/** Where it is for all others. */
export const oldPath = (path: string): string => path.replace(`${NEW}/`, '/');

function toNew(edit: TreeEdit): TreeEdit {
  if (edit.op === 'remove') return edit;
  if (!('path' in edit) || typeof edit.path !== 'string') throw new TypeError('only values are put');
  return { ...edit, path: newPath(edit.path) };
}
