/** The names of a domain as folders: snapshots read a short while ago, and edits that come together as one commit. */

import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import {
  CasError,
  type Client,
  createNodeSource,
  editName,
  findText,
  type Hash,
  Kept,
  mapInOrder,
  openTree,
  type Snapshot,
  type TreeEdit,
  type TreeItem,
  TreePathError,
  type TreeReader,
} from '@holdfast/client/internal';
import { printable, printNote } from '../../terminal/output.ts';
import { canShow, DoorError } from '../door.ts';
import { EditQueue, type QueuedEdit } from '../edit-queue.ts';
import { createKeptClient } from '../kept-client.ts';
import { EMPTY_FOLDER, KnownNames, NAMES_UNREADABLE, nameTimes } from '../known-names.ts';
import { ReceivedValues } from '../received-values.ts';
import type { DavPlace } from './places.ts';

interface WatchedBody {
  readonly chunks: AsyncGenerator<Uint8Array, void, undefined>;
  /** Throws DoorError 400 where the client says another checksum. */
  finish(hash: Hash, said: string | string[] | undefined): void;
}

class Checksums {
  readonly #known = new Kept<string>(50_000);

  find(hash: Hash): string | undefined {
    return this.#known.find(hash);
  }

  watch(chunks: AsyncGenerator<Uint8Array, void, undefined>, isWanted: boolean): WatchedBody {
    if (!isWanted) return { chunks, finish: () => undefined };
    const [sha1, md5] = [createHash('sha1'), createHash('md5')];
    const watching = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      for await (const chunk of chunks) {
        sha1.update(chunk);
        md5.update(chunk);
        yield chunk;
      }
    };
    return {
      chunks: watching(),
      finish: (hash, said) => {
        const is: Readonly<Record<string, string>> = { SHA1: sha1.digest('hex'), MD5: md5.digest('hex') };
        for (const [, kind = '', digits = ''] of String(said ?? '').matchAll(/(\w+):([0-9a-fA-F]+)/g)) {
          const wanted = is[kind.toUpperCase()];
          if (wanted !== undefined && wanted !== digits.toLowerCase())
            throw new DoorError(400, `the ${kind} of what came is ${wanted}`);
        }
        this.#known.keep(hash, `SHA1:${is.SHA1} MD5:${is.MD5}`);
      },
    };
  }
}

export type Check = (item: TreeItem | undefined) => void;

export interface Found {
  readonly parts: readonly string[];
  readonly item: TreeItem;
  /** of the snapshot, ms */
  readonly at: number;
  /** what is in a folder that no tree has; undefined where a tree is */
  readonly list: 'names' | 'old' | 'times' | undefined;
}

export interface EditedPlace {
  readonly name: string;
  readonly path: string;
  /** other paths of the name that the edits change */
  readonly also?: readonly string[];
}

export class NameStore {
  readonly tree: TreeReader;
  readonly #client: Client;
  readonly #given: readonly string[];
  readonly #known: KnownNames;
  readonly values: ReceivedValues;
  readonly checksums = new Checksums();
  readonly #told = new Set<string>();
  readonly #edits = new Map<string, EditQueue>();

  constructor(client: Client, given: readonly string[]) {
    this.#client = createKeptClient(client, 8 * 1024 * 1024);
    this.#given = given;
    this.#known = new KnownNames(client);
    this.values = new ReceivedValues(this.#client);
    this.tree = openTree(createNodeSource(this.#client));
  }

  /**
   * The snapshots of each name, the latest last; a name that was given and has none stands empty. `wanted`: a name, undefined for all.
   * Throws DoorError where it may be in a list that cannot be read: a program that mirrors would delete what is absent.
   */
  async #names(wanted: string | undefined): Promise<ReadonlyMap<string, readonly Snapshot[]>> {
    const names = await this.#known.find(this.#given, wanted);
    if (names === undefined) throw new DoorError(503, NAMES_UNREADABLE);
    return names;
  }

  /** The entry at a place, also a link; undefined if there is none. */
  async find({ parts, isOld }: Pick<DavPlace, 'parts' | 'isOld'>): Promise<Found | undefined> {
    const [name, ...rest] = isOld ? parts.slice(1) : parts;
    if (name === undefined) {
      await this.#known.read();
      return { parts, item: EMPTY_FOLDER, at: 0, list: isOld ? 'old' : 'names' };
    }
    const snapshots = (await this.#names(name)).get(name);
    if (snapshots === undefined) return undefined;
    const head = snapshots.at(-1);
    if (!isOld) return this.#findIn(head, parts, rest);
    const [time, ...below] = rest;
    if (time === undefined) return { parts, item: EMPTY_FOLDER, at: head?.time ?? 0, list: 'times' };
    const snapshot = nameTimes(snapshots).get(time);
    return snapshot && this.#findIn(snapshot, parts, below);
  }

  async #findIn(
    snapshot: Snapshot | undefined,
    parts: readonly string[],
    rest: readonly string[],
  ): Promise<Found | undefined> {
    if (snapshot === undefined)
      return rest.length === 0 ? { parts, item: EMPTY_FOLDER, at: 0, list: undefined } : undefined;
    const names = rest.map((part) => new TextEncoder().encode(part));
    try {
      const item = await this.tree.resolvePath(snapshot.root, names);
      return { parts, item, at: snapshot.time, list: undefined };
    } catch (error) {
      if (error instanceof TreePathError) return undefined;
      throw error;
    }
  }

  /** The entries of a folder; undefined stands for each one that a client cannot show. */
  async *list({ parts, item, at, list }: Found): AsyncGenerator<Found | undefined, void, undefined> {
    if (list === undefined) {
      if (item.hash === '') return;
      const { hash, bytes, entryCount } = item;
      for await (const entry of this.tree.readDirectory({ hash, bytes, entryCount })) {
        const name = findText(entry.name);
        const isShown = name !== undefined && canShow(name) && entry.kind !== 'symlink';
        yield isShown ? { parts: [...parts, name], item: entry, at, list } : undefined;
      }
      return;
    }
    const names = await this.#names(undefined);
    if (list === 'old') {
      for (const [name, snapshots] of names)
        yield { parts: [...parts, name], item: EMPTY_FOLDER, at: snapshots.at(-1)?.time ?? 0, list: 'times' };
      return;
    }
    const times = list === 'times' && nameTimes(names.get(parts.at(-1) ?? '') ?? []);
    const all = times || new Map([...names].map(([name, snapshots]) => [name, snapshots.at(-1)] as const));
    yield* mapInOrder(all, 64, async ([name, snapshot]): Promise<Found | undefined> => {
      const item = snapshot === undefined ? EMPTY_FOLDER : await this.#readHead(snapshot.root);
      return item.kind === 'symlink'
        ? undefined
        : { parts: [...parts, name], item, at: snapshot?.time ?? 0, list: undefined };
    });
  }

  /** A damaged entry is shown as a folder, because a listing must not leave anything out. */
  async #readHead(root: Hash): Promise<TreeItem> {
    try {
      return await this.tree.readItem(root);
    } catch (error) {
      if (error instanceof CasError && error.status === undefined) throw error;
      return EMPTY_FOLDER;
    }
  }

  /** Throws DoorError 403. */
  #requireGiven(name: string): void {
    if (this.#given.length > 0 && !this.#given.includes(name))
      throw new DoorError(403, `${name} is none of the names that this gateway was started with`);
  }

  /** Throws DoorError 403, 409. */
  async requireName(name: string): Promise<void> {
    this.#requireGiven(name);
    if (!(await this.#names(name)).has(name)) throw noName(name);
  }

  /** Settles once the edits are committed. `check` judges what is at `path` of the head that they are done on. */
  async edit(place: EditedPlace, edits: readonly TreeEdit[], check: Check): Promise<void> {
    await this.editsOf(place.name).add(this.toQueued(place, edits, check));
  }

  toQueued(
    { name, path, also = [] }: EditedPlace,
    edits: readonly TreeEdit[],
    check: Check,
    bytes = 0,
  ): QueuedEdit {
    this.#requireGiven(name);
    const judge = async (head: Snapshot | undefined): Promise<void> => {
      if (head === undefined && path !== '' && !this.#given.includes(name)) throw noName(name);
      if (head !== undefined && (await this.tree.readItem(head.root)).kind !== 'directory')
        throw new DoorError(409, `${name} is no folder`);
      const rest = path === '' ? [] : path.split('/');
      check((await this.#findIn(head, [name, ...rest], rest))?.item);
    };
    return { paths: [path, ...also], edits, bytes, check: judge };
  }

  /** Of a name: one commit at a time. */
  editsOf(name: string): EditQueue {
    const known = this.#edits.get(name);
    if (known !== undefined) return known;
    // A folder in use does not leave a snapshot for every save.
    const options = { host: hostname().toWellFormed(), path: 'webdav', amend: { within: 10 * 60_000 } };
    const { memory } = this.#known;
    const made = new EditQueue(async (edits, check) => {
      await editName(this.#client, name, edits, { ...options, memory, names: this.#known, check });
    });
    this.#edits.set(name, made);
    return made;
  }

  /** Once for a name. */
  tellLeftOut({ parts, list }: Found, count: number): void {
    const [name] = parts;
    if (count === 0 || name === undefined || list !== undefined || this.#told.has(name)) return;
    this.#told.add(name);
    const place = printable(parts.join('/'));
    printNote(`holdfast: ${place}: ${count} left out: links, and names that cannot be shown`);
  }

  /** The bytes of the Space; undefined where the token may not ask. */
  async usedBytes(): Promise<number | undefined> {
    try {
      return (await this.#client.getUsage()).readyContentBytes;
    } catch (error) {
      if (error instanceof CasError && error.status === 403) return undefined;
      throw error;
    }
  }
}

function noName(name: string): DoorError {
  return new DoorError(409, `there is no ${name}; MKCOL makes it`);
}

/** Throws DoorError 412. */
export function judge(wanted: boolean): void {
  if (!wanted) throw new DoorError(412, 'what is there is not what the request says');
}
