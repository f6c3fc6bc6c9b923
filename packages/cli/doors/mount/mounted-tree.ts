/**
 * A tree whose entries are known by their ordinals: 0 is the root, and each entry comes before those below it. Every folder says how
 * many entries are below it, so an ordinal is found from the root by the nodes on its path. A mount thus remembers nothing of what
 * the kernel knows, and the nodes of an unchanged tree have the same numbers in every mount.
 */
import {
  compareNames,
  type DirectoryEntry,
  expectChild,
  type Hash,
  type TreeItem,
} from '@holdfast/client/internal';
import { type FolderPart, findChildAt, type Page, type TreeParts, type WantedPart } from './tree-parts.ts';

export interface Placed {
  readonly ordinal: number;
  readonly item: TreeItem;
}

export interface PlacedEntry extends Placed {
  readonly item: DirectoryEntry;
}

/** A chunk of a file and the bytes of the file that it has. */
export interface FileChunk {
  readonly hash: Hash;
  /** undefined: it is the whole file */
  readonly level: 0 | undefined;
  readonly start: number;
  readonly bytes: number;
}

interface FoundPage {
  readonly page: Page;
  /** of the first entry in it */
  readonly first: number;
}

export class MountedTree {
  readonly parts: TreeParts;
  readonly root: TreeItem;
  /** of what has no time of its own */
  readonly mtimeNs: bigint;

  constructor(parts: TreeParts, root: TreeItem, mtimeNs: bigint) {
    this.parts = parts;
    this.root = root;
    this.mtimeNs = mtimeNs;
  }

  /** Throws what reading nodes does. `ordinal` is at most the number of entries. */
  async find(ordinal: number): Promise<Placed> {
    let place: Placed = { ordinal: 0, item: this.root };
    while (place.ordinal < ordinal) {
      const { page, first } = await this.#findPage(place, (part, begin) =>
        findChildAt(part, ordinal - begin),
      );
      place = placeIn(page, first, findChildAt(page, ordinal - first));
    }
    return place;
  }

  /** Undefined when the folder has no such name. */
  async findName(folder: Placed, name: Uint8Array): Promise<PlacedEntry | undefined> {
    const { page, first } = await this.#findPage(folder, ({ children }) => findLastNotAfter(children, name));
    const at = findLastNotAfter(page.children, name);
    const entry = page.children[at];
    return entry !== undefined && compareNames(entry.name, name) === 0 ? placeIn(page, first, at) : undefined;
  }

  /** The page of a folder that has the entry of that ordinal, and its position there. A folder that is empty has an empty one. */
  async findPage(folder: Placed, ordinal: number): Promise<FoundPage & { readonly at: number }> {
    const found = await this.#findPage(folder, (part, first) => findChildAt(part, ordinal - first));
    return { ...found, at: Math.max(0, findChildAt(found.page, ordinal - found.first)) };
  }

  async #findPage(
    { ordinal, item }: Placed,
    choose: (part: FolderPart, first: number) => number,
  ): Promise<FoundPage> {
    let first = ordinal + 1;
    let wanted: WantedPart = wantFolder(item);
    for (;;) {
      const part = this.parts.findFolder(wanted) ?? (await this.parts.readFolder(wanted));
      if (part.type === 'page') return { page: part, first };
      // A name before the first one is in no page.
      const at = Math.max(0, choose(part, first));
      first += part.starts[at] ?? 0;
      wanted = wantChild(part, at, wanted);
    }
  }

  async *chunks(
    { hash, bytes }: TreeItem,
    start: number,
    end: number,
  ): AsyncGenerator<FileChunk, void, undefined> {
    const stop = Math.min(end, bytes);
    if (start < stop) yield* this.#chunksIn({ hash, start: 0, bytes }, undefined, start, stop);
  }

  async *#chunksIn(
    place: Omit<FileChunk, 'level'>,
    level: number | undefined,
    start: number,
    end: number,
  ): AsyncGenerator<FileChunk, void, undefined> {
    if (level === 0) return yield { ...place, level };
    const part = await this.parts.readFile(place.hash, { level, bytes: place.bytes });
    if (part instanceof Uint8Array) return yield { ...place, level: undefined };
    const first = Math.max(0, findChildAt(part, start - place.start));
    for (let at = first; at < part.children.length; at += 1) {
      const from = place.start + (part.starts[at] ?? 0);
      const child = part.children[at];
      if (child === undefined || from >= end) return;
      yield* this.#chunksIn({ ...child, start: from }, part.level - 1, start, end);
    }
  }
}

export function wantFolder(item: TreeItem): WantedPart {
  return { hash: item.hash, expected: { totals: item } };
}

/** A child of an index of a folder, as the nodes above say that it is. */
export function wantChild(part: Exclude<FolderPart, Page>, at: number, { expected }: WantedPart): WantedPart {
  const below = expectChild(part, at, expected.endName);
  return { hash: (part.children[at] as { readonly hash: Hash }).hash, expected: below };
}

/** The ordinal after all that is below. */
export function endOf({ ordinal, item }: Placed): number {
  return ordinal + 1 + item.entryCount;
}

export function placeIn({ children, starts }: Page, first: number, at: number): PlacedEntry {
  return { ordinal: first + (starts[at] ?? 0), item: children[at] as DirectoryEntry };
}

/** Position of the last child whose name, or first name, is not after `name`; -1 when all are. */
function findLastNotAfter(children: FolderPart['children'], name: Uint8Array): number {
  let low = 0;
  let high = children.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const child = children[middle] as FolderPart['children'][number];
    if (compareNames('name' in child ? child.name : child.firstName, name) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
