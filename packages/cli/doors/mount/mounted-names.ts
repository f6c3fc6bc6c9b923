/** Names as folders, above the trees of their snapshots: `NAME/TIME`, and `NAME/latest`, which is a link to the newest of them. */
import { type NodeSource, openTree, type Snapshot, type TreeItem } from '@holdfast/client/internal';
import { BIG_NS_PER_MS } from '@holdfast/protocol';
import { type KnownNames, type NamesRead, nameTimes } from '../known-names.ts';
import { FuseError } from './fuse-session.ts';
import { type Attributes, ERRNO, type NamedNode } from './fuse-wire.ts';
import { MountedTree } from './mounted-tree.ts';
import { TreeParts } from './tree-parts.ts';

const FOLDER_MODE = 0o040_555;
const LINK_MODE = 0o120_777;
const LATEST = 'latest';
/** The kernel may keep what is here for so long; then others' snapshots show. */
export const NAMES_VALID_S = 1;
/** Nodes of trees are below. */
const NAMES_BASE = 2 ** 52;
export const ROOT_NODE = 1;

/** A folder of a name, or a link in it, which another snapshot replaces. */
interface NameNode {
  readonly name: string;
  /** of links only: where it leads */
  readonly target: string | undefined;
}

export class MountedTrees {
  readonly parts: TreeParts;
  readonly #source: NodeSource;
  readonly #trees: { readonly base: number; readonly tree: MountedTree }[] = [];
  readonly #known = new Map<string, Promise<number>>();
  #next: number;

  constructor(source: NodeSource, firstNode: number) {
    this.#source = source;
    this.parts = new TreeParts(source);
    this.#next = firstNode;
  }

  /** The node of the root. Rejects with what reading nodes does, and for a tree that no numbers are left for. */
  add(hash: string, timeMs: number): Promise<number> {
    const key = `${hash}/${timeMs}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const added = this.#add(hash, timeMs);
    this.#known.set(key, added);
    added.catch(() => this.#known.delete(key));
    return added;
  }

  async #add(hash: string, timeMs: number): Promise<number> {
    return this.place(await openTree(this.#source).readItem(hash), timeMs);
  }

  /** The same for a root that is known. */
  place(root: TreeItem, timeMs: number): number {
    const base = this.#next;
    const next = base + 1 + root.entryCount;
    if (next > NAMES_BASE) throw new RangeError(`${root.hash} has more entries than can be numbered`);
    this.#next = next;
    this.#trees.push({ base, tree: new MountedTree(this.parts, root, BigInt(timeMs) * BIG_NS_PER_MS) });
    return base;
  }

  /** Undefined when the node is in no tree. */
  find(node: number): { readonly base: number; readonly tree: MountedTree } | undefined {
    const found = this.#trees.findLast(({ base }) => base <= node);
    return found !== undefined && node - found.base <= found.tree.root.entryCount ? found : undefined;
  }
}

export class MountedNames {
  readonly #names: Pick<KnownNames, 'read'>;
  readonly #trees: MountedTrees;
  readonly #nodes: NameNode[] = [];
  readonly #numbers = new Map<string, number>();

  constructor(names: Pick<KnownNames, 'read'>, trees: MountedTrees) {
    this.#names = names;
    this.#trees = trees;
  }

  /** Throws FuseError for a name that is there no more, and what reading names does. */
  async attributesOf(node: number): Promise<Attributes> {
    const read = await this.#names.read();
    if (node === ROOT_NODE) {
      const times = [...read.names.values()].map((snapshots) => snapshots.at(-1)?.time ?? 0);
      return describe(node, undefined, Math.max(0, ...times));
    }
    const { name, target } = this.#get(node);
    return describe(node, target, getSnapshots(read, name).at(-1)?.time ?? 0);
  }

  async lookup(folder: number, wanted: Uint8Array): Promise<Attributes | number | undefined> {
    const read = await this.#names.read();
    const text = new TextDecoder().decode(wanted);
    if (folder === ROOT_NODE) {
      const snapshots = read.names.get(text);
      if (snapshots === undefined) return missing(read);
      return describe(this.#number(text, undefined), undefined, snapshots.at(-1)?.time);
    }
    const { name } = this.#get(folder);
    const times = nameTimes(getSnapshots(read, name));
    const [newest, snapshot] = [...times].at(-1) ?? [];
    if (text === LATEST && newest !== undefined) {
      missing(read);
      return describe(this.#number(name, newest), newest, snapshot?.time);
    }
    // A second that has got another snapshot still leads to its first.
    const first = text.endsWith('Z') ? [...times].find(([time]) => time.startsWith(`${text}-`)) : undefined;
    const found = times.get(text) ?? first?.[1];
    return found === undefined ? missing(read) : this.#trees.add(found.root, found.time);
  }

  async list(folder: number): Promise<readonly Pick<NamedNode, 'name' | 'mode'>[]> {
    const read = await this.#names.read();
    if (folder === ROOT_NODE) return [...read.names.keys()].map((name) => entry(name, FOLDER_MODE));
    const times = nameTimes(getSnapshots(read, this.#get(folder).name));
    // The tree of a snapshot may be a file.
    return [...[...times.keys()].map((time) => entry(time, 0)), entry(LATEST, LINK_MODE)];
  }

  /** Whether nothing can be missing in the listing. */
  async isWhole(): Promise<boolean> {
    return (await this.#names.read()).isWhole;
  }

  readLink(node: number): Uint8Array {
    return new TextEncoder().encode(this.#get(node).target ?? '');
  }

  #get(node: number): NameNode {
    const found = this.#nodes[node - NAMES_BASE];
    if (found === undefined) throw new FuseError(ERRNO.noEntry);
    return found;
  }

  #number(name: string, target: string | undefined): number {
    const key = `${name}/${target ?? ''}`;
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = NAMES_BASE + this.#nodes.push({ name, target }) - 1;
    this.#numbers.set(key, number);
    return number;
  }
}

/** Throws FuseError for a name that is there no more, and what `missing` does. */
function getSnapshots(read: NamesRead, name: string): readonly Snapshot[] {
  const snapshots = read.names.get(name) ?? missing(read);
  if (snapshots === undefined) throw new FuseError(ERRNO.noEntry);
  return snapshots;
}

/** Throws where it, or a newer one, may be in a list that cannot be read: that is no absence. */
function missing({ isWhole }: NamesRead): undefined {
  if (!isWhole) throw new Error('a list of snapshots cannot be read, so that names may be missing');
}

function entry(name: string, mode: number): Pick<NamedNode, 'name' | 'mode'> {
  return { name: new TextEncoder().encode(name), mode };
}

function describe(node: number, target: string | undefined, timeMs = 0): Attributes {
  const mode = target === undefined ? FOLDER_MODE : LINK_MODE;
  return { node, bytes: target?.length ?? 0, mode, mtimeNs: BigInt(timeMs) * BIG_NS_PER_MS };
}
