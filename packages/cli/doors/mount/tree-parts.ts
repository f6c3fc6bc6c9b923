/** The nodes that a mount has read, checked against those above. Each knows where its children begin: by ordinals, or by bytes. */
import {
  type DirectoryEntry,
  type DirectoryIndexChild,
  type ExpectedDirectoryPart,
  type ExpectedFilePart,
  type FileIndexChild,
  type Hash,
  Kept,
  type NodeSource,
  openTree,
  readDirectoryPart,
  readFilePart,
  type TreeItem,
} from '@holdfast/client/internal';

export interface Page {
  readonly type: 'page';
  readonly children: readonly DirectoryEntry[];
  /** of each child, and where the part ends */
  readonly starts: Float64Array;
}

interface Index<T> {
  readonly type: 'index';
  readonly level: number;
  readonly children: readonly T[];
  readonly starts: Float64Array;
}

export type FolderPart = Page | Index<DirectoryIndexChild>;
type FileIndexPart = Index<FileIndexChild>;

export interface WantedPart {
  readonly hash: Hash;
  readonly expected: ExpectedDirectoryPart;
}

export class TreeParts {
  readonly #source: NodeSource;
  // Children of folders and of indexes of files take some hundred bytes each.
  readonly #parts = new Kept<FolderPart | FileIndexPart>(64 * 1024);
  readonly #contents = new Kept<Uint8Array>(48 * 1024 * 1024);
  /** on their way, by the keys they will be kept under */
  readonly #coming = new Map<string, Promise<unknown>>();

  constructor(source: NodeSource) {
    this.#source = source;
  }

  findFolder({ hash, expected }: WantedPart): FolderPart | undefined {
    return this.#parts.find(keyOf(hash, expected)) as FolderPart | undefined;
  }

  /** Throws TreeFormatError, and what the source does. */
  async readFolder({ hash, expected }: WantedPart): Promise<FolderPart> {
    const key = keyOf(hash, expected);
    const kept = this.#parts.find(key) as FolderPart | undefined;
    return kept ?? this.#once(key, () => this.#fetchFolder(key, hash, expected));
  }

  async #fetchFolder(key: string, hash: Hash, expected: ExpectedDirectoryPart): Promise<FolderPart> {
    const part = await readDirectoryPart(this.#source, hash, expected, {});
    const read: FolderPart =
      part.type === 'directory'
        ? {
            type: 'page',
            children: part.entries,
            starts: sumUp(part.entries, (entry) => 1 + entry.entryCount),
          }
        : {
            type: 'index',
            level: part.level,
            children: part.children,
            starts: sumUp(part.children, ({ entryCount }) => entryCount),
          };
    this.#parts.keep(key, read, 1 + read.children.length);
    return read;
  }

  /** The content of a chunk or a small file, or the index that it is. Throws as `readFolder`. */
  async readFile(hash: Hash, expected: ExpectedFilePart): Promise<Uint8Array | FileIndexPart> {
    const key = fileKeyOf(hash, expected);
    const kept = this.#contents.find(key) ?? (this.#parts.find(key) as FileIndexPart | undefined);
    return kept ?? this.#once(key, () => this.#fetchFile(key, hash, expected));
  }

  /** A file of one node, mostly. */
  readSmall({ hash, bytes }: TreeItem): Promise<Uint8Array | FileIndexPart> {
    return this.readFile(hash, { level: undefined, bytes });
  }

  /** Whether it is there, or on its way. */
  hasFile(hash: Hash, expected: ExpectedFilePart): boolean {
    const key = fileKeyOf(hash, expected);
    return this.#contents.has(key) || this.#parts.has(key) || this.#coming.has(key);
  }

  async readLink({ hash, bytes }: TreeItem): Promise<Uint8Array> {
    const key = `${hash}/link/${bytes}`;
    const kept = this.#contents.find(key);
    return (
      kept ??
      this.#once(key, async () => {
        const target = await openTree(this.#source).readSymlink({ hash, bytes });
        return this.#keepContent(key, target);
      })
    );
  }

  async #fetchFile(key: string, hash: Hash, expected: ExpectedFilePart): Promise<Uint8Array | FileIndexPart> {
    const part = await readFilePart(this.#source, hash, expected, {});
    if (part.type === 'file-index') {
      const { level, children } = part;
      const index = {
        type: 'index',
        level,
        children,
        starts: sumUp(children, ({ bytes }) => bytes),
      } as const;
      this.#parts.keep(key, index, 1 + children.length);
      return index;
    }
    return this.#keepContent(key, part.content);
  }

  #keepContent(key: string, content: Uint8Array): Uint8Array {
    const isView = content.length !== content.buffer.byteLength;
    // A view would keep the whole answer that it came in.
    const own = isView ? new Uint8Array(content) : content;
    // Content takes 512 bytes of memory beside its bytes.
    this.#contents.keep(key, own, 512 + own.length);
    return own;
  }

  #once<T>(key: string, fetch: () => Promise<T>): Promise<T> {
    const coming = this.#coming.get(key) as Promise<T> | undefined;
    if (coming !== undefined) return coming;
    const fetching = fetch().finally(() => this.#coming.delete(key));
    this.#coming.set(key, fetching);
    return fetching;
  }
}

/** One node may stand where others are expected, and is checked for each. */
function keyOf(hash: Hash, { level, totals, firstName, endName }: ExpectedDirectoryPart): string {
  const bounds =
    level === undefined ? '' : [firstName, endName].map((name) => name && Buffer.from(name).toString('hex'));
  return `${hash}/${level}/${totals?.bytes}/${totals?.entryCount}/${bounds}`;
}

function fileKeyOf(hash: Hash, { level, bytes }: ExpectedFilePart): string {
  return `${hash}/${level}/${bytes}`;
}

function sumUp<T>(children: readonly T[], lengthOf: (child: T) => number): Float64Array {
  const starts = new Float64Array(children.length + 1);
  for (const [at, child] of children.entries()) starts[at + 1] = (starts[at] ?? 0) + lengthOf(child);
  return starts;
}

/** Position of the last child that begins at or before `place`. */
export function findChildAt({ starts }: Pick<Page, 'starts'>, place: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] as number) <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
