/** Entries of ac/: each is served only while all that it names is there, and then all of it counts as used. */
import { Kept, type TreeItem } from '@holdfast/client/internal';
import {
  type ActionOutputs,
  type Digest,
  type DirectoryOutputs,
  parseActionResult,
  parseDirectory,
  parseTree,
} from './action-result.ts';
import type { CacheTree } from './cache-tree.ts';
import { ProtobufError } from './protobuf.ts';

/** The size limit of an entry, and of a Tree or Directory that it names. */
export const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

export class Actions {
  readonly #tree: CacheTree;
  /** what an entry names, by the hash of its value */
  // Digests of entries that were looked at lately take some hundred bytes each.
  readonly #outputs = new Kept<readonly Digest[]>(100_000);

  constructor(tree: CacheTree) {
    this.#tree = tree;
  }

  /** The outputs that the entry names, by paths in the tree; undefined if one is missing. Throws ProtobufError. */
  async findOutputs(entry: TreeItem, readEntry: () => Promise<Uint8Array>): Promise<Outputs | undefined> {
    const kept = this.#outputs.find(entry.hash);
    const digests = kept ?? (await this.#collect(parseActionResult(await readEntry())));
    if (digests === undefined) return undefined;
    if (kept === undefined) this.#outputs.keep(entry.hash, digests, 1 + digests.length);
    const { outputs, isWhole } = await this.#findAll(digests);
    return isWhole ? outputs : undefined;
  }

  /** Those that are there, for an entry that is not there yet: the others may come after it. Throws ProtobufError. */
  async findOutputsOf(message: Uint8Array): Promise<Outputs> {
    const named = parseActionResult(message);
    const digests = await this.#collect(named);
    const { files, trees, directories } = named;
    return (await this.#findAll(digests ?? [...files, ...trees, ...directories])).outputs;
  }

  async #findAll(digests: readonly Digest[]): Promise<{ outputs: Outputs; isWhole: boolean }> {
    let isWhole = true;
    const outputs = new Map<string, TreeItem>();
    for (const digest of digests) {
      // Clients neither send nor ask for nothing.
      if (digest.bytes === 0) continue;
      const path = pathOf(digest);
      const item = outputs.get(path) ?? (await this.#tree.find(path));
      if (item?.bytes === digest.bytes) outputs.set(path, item);
      else isWhole = false;
    }
    return { outputs, isWhole };
  }

  /** Undefined when a Tree or Directory is missing. */
  async #collect({ files, trees, directories }: ActionOutputs): Promise<readonly Digest[] | undefined> {
    const all = new Map<string, Digest>();
    const add = (digests: readonly Digest[]): void => {
      for (const digest of digests) all.set(digest.sha256, digest);
    };
    add(files);
    for (const tree of trees) {
      const found = await this.#read(tree, parseTree);
      if (found === undefined) return undefined;
      add([tree]);
      add(found);
    }
    const waiting = [...directories];
    for (let count = 0; waiting.length > 0; count += 1) {
      const directory = waiting.pop() as Digest;
      if (all.has(directory.sha256)) continue;
      const found: DirectoryOutputs | undefined = await this.#read(directory, parseDirectory);
      if (found === undefined || count === 100_000) return undefined;
      add([directory]);
      add(found.files);
      waiting.push(...found.directories);
    }
    return [...all.values()];
  }

  /** Undefined when it is not there, too large, or something else. */
  async #read<T>(digest: Digest, parse: (message: Uint8Array) => T): Promise<T | undefined> {
    if (digest.bytes === 0) return parse(new Uint8Array());
    const item = await this.#tree.find(pathOf(digest));
    if (item === undefined || item.bytes > MESSAGE_BYTES_MAX) return undefined;
    try {
      return parse(await readWhole(this.#tree, item));
    } catch (error) {
      if (error instanceof ProtobufError) return undefined;
      throw error;
    }
  }
}

/** The files of cas/ by their paths. */
export type Outputs = ReadonlyMap<string, TreeItem>;

function pathOf({ sha256 }: Digest): string {
  return `cas/${sha256}`;
}

export async function readWhole(tree: CacheTree, item: TreeItem): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of tree.reader.readFile(item)) pieces.push(piece);
  return Buffer.concat(pieces);
}
