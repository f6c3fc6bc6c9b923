/**
 * The map as a tree of which a name keeps one snapshot. Each entry of a folder that is stored anew costs the server a change of a row. So
 * values that are put lie in a small folder first (`cas.new` beside `cas`). When it is full, all of it moves by one commit to a larger one
 * (`cas.new2`), from there to `cas.new3`, and last to `cas`.
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

interface Place {
  readonly place: string;
  readonly item: TreeItem;
}

/** Another writer was faster: what was planned is planned again. */
export class HeadMovedError extends Error {
  override readonly name = 'HeadMovedError';
}

/** For an answer that needs nothing else of the server: it must not tell that all is well when the server is away. */
export const HEAD_MS_FRESH = 100;
/** Where values lie before they come to the folder of their kind, the newest first. */
const LEVELS = ['.new', '.new2', '.new3'] as const;
/**
 * How many entries a level and those before it hold until they move. Each is eight times the one before, because a commit stores
 * half of a level anew on average.
 */
const ENTRIES_MAX = [64, 512, 4_096] as const;
const ATTEMPTS_MAX = 5;

export class CacheTree {
  readonly reader: TreeReader;
  /** keeps folders, and the values that were read or put last */
  readonly client: KeptClient;
  readonly #name: string;
  readonly #known: KnownNames;
  #head: (Head & { readonly at: number }) | undefined;
  #reading: Promise<Head> | undefined;
  #folders: { readonly root: Hash; readonly of: ReadonlyMap<string, DirectoryEntry> } | undefined;
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
      return await this.#findNewest(await this.head(ageMsMax), path);
    } catch (error) {
      if (!(error instanceof CasError) || error.code !== 'NOT_FOUND') throw error;
      // The head was replaced, and a collection took its nodes.
      return this.#findNewest(await this.head(0), path);
    }
  }

  async #findNewest(head: Head, path: string): Promise<TreeItem | undefined> {
    for await (const { item } of this.#look(head, path)) return item;
    return undefined;
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
    return (await Array.fromAsync(this.#look(head, path))).map(({ place }) => place);
  }

  /** What lies at `path`, the newest first. */
  async *#look(head: Pick<Head, 'root'>, path: string): AsyncGenerator<Place, void, undefined> {
    const [kind, name = ''] = path.split('/');
    const folders = await this.folders(head);
    for (const level of [...LEVELS, '']) {
      const folder = folders.get(`${kind}${level}`);
      const item = folder && (await this.reader.findEntry(folder, ENCODER.encode(name)));
      if (item?.kind === 'file') yield { place: `${kind}${level}/${name}`, item };
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
    const all = [...(await this.#planMoves(head, LEVELS.length)), ...edits];
    if (all.length === 0) return;
    await this.#edit(all, mustBe(head));
  }

  /** All of the first `count` levels moves to the one after them. The oldest moves first, because what is newer takes its place. */
  async #planMoves(head: Head, count: number): Promise<readonly TreeEdit[]> {
    const moves: TreeEdit[] = [];
    for (const [kind, levels] of await this.#levelsOf(head)) {
      for (const [level, folder] of [...levels.slice(0, count).entries()].reverse()) {
        if (folder === undefined) continue;
        const from = `${kind}${LEVELS[level]}`;
        for await (const entry of this.reader.readDirectory(folder)) {
          const name = findText(entry.name);
          const to = `${kind}${LEVELS[count] ?? ''}/${name}`;
          moves.push({ op: 'move', from: `${from}/${name}`, to, replace: true });
        }
        moves.push({ op: 'remove', path: from });
      }
    }
    return moves;
  }

  async #moveIfFull(): Promise<void> {
    const head = await this.head();
    const kinds = [...(await this.#levelsOf(head)).values()];
    let [entries, full] = [0, 0];
    for (const [level, max] of ENTRIES_MAX.entries()) {
      for (const levels of kinds) entries += levels[level]?.entryCount ?? 0;
      if (entries >= max) full = level + 1;
    }
    if (full === 0) return;
    await this.#edit(await this.#planMoves(head, full), mustBe(head));
  }

  /** The folders of what is new, by their kind. */
  async #levelsOf(head: Head): Promise<ReadonlyMap<string, readonly (DirectoryEntry | undefined)[]>> {
    const folders = await this.folders(head);
    const kinds = new Set([...folders.keys()].map((name) => name.replace(/\.new\d?$/, '')));
    return new Map([...kinds].map((kind) => [kind, LEVELS.map((level) => folders.get(`${kind}${level}`))]));
  }

  /** By their names. Those of the root that was asked for last are known. */
  async folders({ root }: Pick<Head, 'root'>): Promise<ReadonlyMap<string, DirectoryEntry>> {
    if (root === undefined) return new Map();
    if (this.#folders?.root === root) return this.#folders.of;
    const of = new Map<string, DirectoryEntry>();
    const { kind } = await this.reader.readItem(root);
    if (kind === 'directory')
      for await (const entry of this.reader.readDirectory(root))
        if (entry.kind === 'directory') of.set(findText(entry.name) ?? '', entry);
    this.#folders = { root, of };
    return of;
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

const ENCODER = new TextEncoder();

function mustBe({ snapshotId }: Head): CheckHead {
  return async (now) => {
    if (now?.id !== snapshotId) throw new HeadMovedError();
  };
}

/** Where it is for all others. */
export const oldPath = (path: string): string => path.replace(/\.new\d?(?=\/)/, '');

function toNew(edit: TreeEdit): TreeEdit {
  if (edit.op === 'remove') return edit;
  if (!('path' in edit) || typeof edit.path !== 'string') throw new TypeError('only values are put');
  return { ...edit, path: edit.path.replace('/', `${LEVELS[0]}/`) };
}
