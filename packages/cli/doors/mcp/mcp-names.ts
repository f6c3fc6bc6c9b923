/** The names that the tools work on: paths begin with a name, and each edit becomes one snapshot. */
import { hostname } from 'node:os';
import {
  CatalogError,
  type Client,
  checkSnapshotId,
  checkSnapshotName,
  createNodeSource,
  editName,
  findText,
  type NodeSource,
  openTree,
  parseEditPath,
  pathBytes,
  type Snapshot,
  type TreeEdit,
  type TreeItem,
  type TreePath,
  TreePathError,
  type TreeReader,
} from '@holdfast/client/internal';
import { EMPTY_FOLDER, KnownNames, NAMES_UNREADABLE } from '../known-names.ts';
import { ToolError } from './arguments.ts';

/** A place: `NAME` or `NAME/a/b`. */
export interface Place {
  readonly text: string;
  readonly name: string;
  /** below the name; empty: the name itself */
  readonly rest: string;
}

export const PATH_BYTES_MAX = 4096;
/** The largest file that a tool reads or writes whole. */
export const WHOLE_BYTES_MAX = 8 * 1024 * 1024;

/** Throws ToolError, CatalogError, EditError. */
export function parsePlace(text: string): Place {
  const bytes = Buffer.byteLength(text);
  if (bytes > PATH_BYTES_MAX)
    throw new ToolError(`the path has ${bytes} bytes; at most ${PATH_BYTES_MAX} are allowed`);
  const slash = text.indexOf('/');
  const name = checkSnapshotName(slash === -1 ? text : text.slice(0, slash));
  const rest = slash === -1 ? '' : text.slice(slash + 1);
  if (slash !== -1) parseEditPath(rest, 0);
  return { text, name, rest };
}

/** A place below a name: the name itself is no file. Throws as `parsePlace`. */
export function parseBelow(text: string): Place {
  const place = parsePlace(text);
  if (place.rest === '') throw new ToolError(`${text} is a name; give a path below it: ${text}/PATH`);
  return place;
}

/** undefined: no UTF-8, which no path of a call can hold. */
export function textBelow(place: Place, path: TreePath | undefined): string | undefined {
  const text = findText(pathBytes(path));
  return text === '' ? place.text : text && `${place.text}/${text}`;
}

export interface Step {
  readonly message?: string | undefined;
  readonly signal: AbortSignal;
}

export interface Written {
  readonly version: string;
  readonly root: string;
}

export class McpNames {
  readonly client: Client;
  readonly source: NodeSource;
  readonly tree: TreeReader;
  readonly #given: readonly string[];
  readonly #known: KnownNames;
  #writes: Promise<unknown> = Promise.resolve();

  constructor(client: Client, given: readonly string[]) {
    this.client = client;
    this.source = createNodeSource(client);
    this.tree = openTree(this.source);
    this.#given = given;
    this.#known = new KnownNames(client);
  }

  /** As KnownNames has it. Throws ToolError where a name may be in a list that cannot be read. */
  async names(wanted?: string): Promise<ReadonlyMap<string, readonly Snapshot[]>> {
    const names = await this.#known.find(this.#given, wanted);
    if (names === undefined) throw new ToolError(NAMES_UNREADABLE);
    return names;
  }

  /** Throws ToolError. */
  async snapshots(name: string): Promise<readonly Snapshot[]> {
    const names = await this.names(name);
    const snapshots = names.get(name);
    if (snapshots !== undefined) return snapshots;
    throw new ToolError(`there is no name ${name} here; list without a path shows the names`);
  }

  /** The latest, or the one that is asked for; undefined where the name is empty. Throws ToolError, CatalogError. */
  async snapshot(name: string, version: string | undefined): Promise<Snapshot | undefined> {
    const snapshots = await this.snapshots(name);
    if (version === undefined) return snapshots.at(-1);
    checkSnapshotId(version);
    const fits = snapshots.filter(({ id }) => id.startsWith(version));
    if (fits.length === 1) return fits[0];
    const found = fits.length === 0 ? 'no version' : `${fits.length} versions that begin with`;
    throw new ToolError(`${name} has ${found} ${version}; history lists them`);
  }

  /** Throws ToolError. */
  async find({ name, rest, text }: Place, version: string | undefined): Promise<TreeItem> {
    const snapshot = await this.snapshot(name, version);
    const item = snapshot === undefined && rest === '' ? EMPTY_FOLDER : await this.findIn(snapshot, rest);
    if (item !== undefined) return item;
    throw new ToolError(`${text} does not exist${version === undefined ? '' : ` in version ${version}`}`);
  }

  async findIn(snapshot: Snapshot | undefined, rest: string): Promise<TreeItem | undefined> {
    if (snapshot === undefined) return undefined;
    try {
      return await this.tree.resolvePath(snapshot.root, rest === '' ? [] : parseEditPath(rest, 0));
    } catch (error) {
      if (error instanceof TreePathError) return undefined;
      throw error;
    }
  }

  /** Throws ToolError. */
  async findFile(place: Place, version: string | undefined): Promise<TreeItem> {
    const item = await this.find(place, version);
    if (item.kind === 'directory') throw new ToolError(`${place.text} is a folder; list shows its entries`);
    if (item.kind === 'symlink') {
      const target = findText(await this.tree.readSymlink(item));
      throw new ToolError(
        `${place.text} is a link to ${JSON.stringify(target ?? 'a path that is not UTF-8')}`,
      );
    }
    return item;
  }

  async bytes(file: TreeItem, start: number, end: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.tree.readFile(file, { range: { start, end } })) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  /** One write at a time, in the order in which they came. */
  async inOrder<T>(write: () => Promise<T>): Promise<T> {
    const done = this.#writes.then(write);
    this.#writes = done.catch(() => undefined);
    return done.finally(() => this.forget());
  }

  /** Forgets the names that were read: they have changed. */
  forget(): void {
    this.#known.forget();
  }

  /** Settles when the writes are done that came before. */
  async settled(): Promise<void> {
    await this.#writes;
  }

  /** One snapshot. Throws what `check` throws, ToolError, EditError. */
  async edit(
    name: string,
    edits: readonly TreeEdit[],
    {
      message,
      signal,
      check,
    }: Step & {
      readonly check?: (head: Snapshot | undefined) => Promise<void>;
    },
  ): Promise<Written> {
    this.checkWritable(name);
    const { memory } = this.#known;
    const options = { message, signal, check, parents: true, memory, ...this.origin() };
    const { root, snapshot } = await editName(this.client, name, edits, options);
    return { version: snapshot.id, root };
  }

  checkWritable(name: string): void {
    if (this.#given.length === 0 || this.#given.includes(name)) return;
    throw new CatalogError('NOT_FOUND', `${name} is none of the names that this door was started with`);
  }

  /** The origin of snapshots, as lists show it. */
  origin(): { readonly host: string; readonly path: string } {
    return { host: hostname().toWellFormed(), path: 'mcp' };
  }
}
