/** Answers what the kernel asks of a mount: the nodes of trees, which never change, and the names above them where they are mounted. */
import { NAME_BYTES_MAX, type TreeItem } from '@holdfast/client/internal';
import { FuseError, type FuseHandler } from './fuse-session.ts';
import {
  type Attributes,
  answerAttributes,
  answerEntry,
  answerOpenFolder,
  answerStatfs,
  ERRNO,
  type FuseRequest,
  Listing,
  type NamedNode,
  OPCODES,
  parseLookup,
  parseRead,
  parseRelease,
} from './fuse-wire.ts';
import { type MountedNames, type MountedTrees, NAMES_VALID_S } from './mounted-names.ts';
import { endOf, type MountedTree, type Placed, placeIn } from './mounted-tree.ts';
import { ReadAhead } from './read-ahead.ts';

/** A hash never changes its meaning. */
const VALID_S = 365 * 24 * 60 * 60;
const MODES: Readonly<Record<TreeItem['kind'], number>> = {
  file: 0o100444,
  directory: 0o040555,
  symlink: 0o120777,
};
const DOTS = [Uint8Array.of(0x2e), Uint8Array.of(0x2e, 0x2e)] as const;

interface Found {
  readonly tree: MountedTree;
  /** of the root */
  readonly base: number;
  readonly placed: Placed;
}

export class MountedFiles {
  readonly #trees: MountedTrees;
  /** above the trees; undefined where one tree is mounted */
  readonly #names: MountedNames | undefined;
  readonly #ahead = new ReadAhead();
  /** listings of names that are under way, by their handles */
  readonly #listings = new Map<number, readonly Pick<NamedNode, 'name' | 'mode'>[]>();
  #handles = 0;

  constructor(trees: MountedTrees, names: MountedNames | undefined) {
    this.#trees = trees;
    this.#names = names;
  }

  readonly handle: FuseHandler = async (request) => {
    const found = await this.#find(request.node);
    if (request.opcode === OPCODES.statfs) return [answerStatfs(found?.tree.root ?? NOTHING, NAME_BYTES_MAX)];
    if (request.opcode === OPCODES.ioctl) throw new FuseError(ERRNO.notATerminal);
    return found === undefined ? this.#answerOfNames(request) : this.#answerOfTree(request, found);
  };

  async #find(node: number): Promise<Found | undefined> {
    const found = this.#trees.find(node);
    if (found === undefined) return undefined;
    return { ...found, placed: await found.tree.find(node - found.base) };
  }

  async #answerOfTree(request: FuseRequest, found: Found): Promise<readonly Uint8Array[]> {
    const { tree, base, placed } = found;
    switch (request.opcode) {
      case OPCODES.lookup: {
        const entry = await tree.findName(placed, parseLookup(request.body));
        return [answerEntry(entry && describe(tree, base, entry), VALID_S)];
      }
      case OPCODES.getattr:
        return [answerAttributes(describe(tree, base, placed), VALID_S)];
      case OPCODES.readlink:
        this.#ahead.step(tree, 'files', placed.ordinal);
        return [await tree.parts.readLink(placed.item)];
      case OPCODES.opendir:
        // The kernel then asks no more, and keeps every folder.
        if (this.#names === undefined) throw new FuseError(ERRNO.notSupported);
        return [answerOpenFolder(0, true)];
      case OPCODES.readdir:
      case OPCODES.readdirplus:
        return [await this.#listTree(request, found)];
      case OPCODES.releasedir:
        return [];
      case OPCODES.read:
        return this.#read(request, found);
      default:
        throw new FuseError(ERRNO.notSupported);
    }
  }

  /** Positions: 0 and 1 are `.` and `..`; an entry is at 1 and its distance from the folder. */
  async #listTree({ opcode, body }: FuseRequest, { tree, base, placed }: Found): Promise<Buffer> {
    const { offset, bytes } = parseRead(body);
    const listing = new Listing(bytes, opcode === OPCODES.readdirplus);
    const folder = describe(tree, base, placed);
    for (let next = offset; next < DOTS.length; next += 1) {
      listing.add({ ...folder, name: DOTS[next] as Uint8Array, next: next + 1, validS: 0 });
    }
    if (offset === 0) this.#ahead.step(tree, 'folders', placed.ordinal);
    let from = placed.ordinal + Math.max(1, offset - 1);
    // A folder that should be empty is looked at too.
    for (let isFirst = offset <= DOTS.length; from < endOf(placed) || isFirst; isFirst = false) {
      const { page, first, at } = await tree.findPage(placed, from);
      for (let index = at; index < page.children.length; index += 1) {
        const entry = placeIn(page, first, index);
        const next = endOf(entry) - placed.ordinal + 1;
        const described = { ...describe(tree, base, entry), name: entry.item.name, next, validS: VALID_S };
        if (!listing.add(described)) return listing.end();
        from = endOf(entry);
      }
    }
    return listing.end();
  }

  /** Exactly what is asked for, as far as the file goes. */
  async #read({ body }: FuseRequest, { tree, placed }: Found): Promise<readonly Uint8Array[]> {
    const { offset, bytes } = parseRead(body);
    const { item, ordinal } = placed;
    const end = Math.min(offset + bytes, item.bytes);
    // A large file is read ahead by itself, small ones together.
    if (item.bytes > 256 * 1024) this.#ahead.run(tree, item, offset, end);
    else if (offset === 0) this.#ahead.step(tree, 'files', ordinal);
    const pieces: Uint8Array[] = [];
    for await (const chunk of tree.chunks(item, offset, end)) {
      const content = await tree.parts.readFile(chunk.hash, chunk);
      if (!(content instanceof Uint8Array)) throw new TypeError('a chunk is no index');
      pieces.push(content.subarray(Math.max(0, offset - chunk.start), end - chunk.start));
    }
    const length = pieces.reduce((total, piece) => total + piece.length, 0);
    if (length !== Math.max(0, end - offset)) throw new TypeError('the chunks of a file are not its bytes');
    return pieces;
  }

  async #answerOfNames({ opcode, node, body }: FuseRequest): Promise<readonly Uint8Array[]> {
    const names = this.#names;
    if (names === undefined) throw new FuseError(ERRNO.noEntry);
    switch (opcode) {
      case OPCODES.lookup: {
        const entry = await names.lookup(node, parseLookup(body));
        if (typeof entry !== 'number') return [answerEntry(entry, NAMES_VALID_S)];
        const found = await this.#find(entry);
        return [answerEntry(found && describe(found.tree, found.base, found.placed), NAMES_VALID_S)];
      }
      case OPCODES.getattr:
        return [answerAttributes(await names.attributesOf(node), NAMES_VALID_S)];
      case OPCODES.readlink:
        return [names.readLink(node)];
      case OPCODES.opendir:
        this.#handles += 1;
        return [answerOpenFolder(this.#handles, false)];
      case OPCODES.readdir:
      case OPCODES.readdirplus:
        return [await this.#listNames(names, node, opcode === OPCODES.readdirplus, body)];
      case OPCODES.releasedir:
        this.#listings.delete(parseRelease(body));
        return [];
      default:
        throw new FuseError(ERRNO.notSupported);
    }
  }

  /** The entries that were there when the listing began. */
  async #listNames(names: MountedNames, node: number, isPlus: boolean, body: Buffer): Promise<Buffer> {
    const { handle, offset, bytes } = parseRead(body);
    const begun = offset === 0 ? undefined : this.#listings.get(handle);
    const dots = DOTS.map((name) => ({ name, mode: MODES.directory }));
    const entries = begun ?? [...dots, ...(await names.list(node))];
    this.#listings.set(handle, entries);
    if (offset >= entries.length && !(await names.isWhole())) {
      throw new Error('a list of snapshots cannot be read, so that names may be missing');
    }
    const listing = new Listing(bytes, isPlus);
    for (const [at, entry] of entries.entries()) {
      if (at < offset) continue;
      // The node has no number until the kernel asks for one.
      if (!listing.add({ ...entry, node: 0xffff_ffff, bytes: 0, mtimeNs: 0n, next: at + 1, validS: 0 }))
        break;
    }
    return listing.end();
  }
}

const NOTHING = { bytes: 0, entryCount: 0 };

function describe({ mtimeNs }: MountedTree, base: number, { ordinal, item }: Placed): Attributes {
  const isExecutable = item.kind === 'file' && item.isExecutable;
  return {
    node: base + ordinal,
    bytes: item.kind === 'directory' ? 0 : item.bytes,
    mode: MODES[item.kind] | (isExecutable ? 0o111 : 0),
    mtimeNs: item.mtimeNs ?? mtimeNs,
  };
}
