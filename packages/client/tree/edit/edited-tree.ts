/** A tree while edits are applied to it, one after the other. */

import type { Hash } from '@holdfast/protocol';
import type { CallOptions } from '../../operations.ts';
import type { NodeSink } from '../build/builders.ts';
import { compareNames, type DirectoryEntry, type EntryKind, type TreeTotals } from '../format/tree-format.ts';
import { findEntryInParts } from '../read/directory-parts.ts';
import { openTree } from '../read/open-tree.ts';
import { EditError, type EditErrorCode } from './edit-error.ts';
import { buildEdited, type NameChange, type StoredDirectory } from './paged-directory.ts';
import type { RememberedParts } from './remembered-parts.ts';
import { type EditPath, parseEditPath, type StoredItem, type TreeEdit } from './tree-edit.ts';

/** The entry under a name. */
interface EditedItem extends TreeTotals {
  readonly kind: EntryKind;
  readonly hash: string;
  readonly isExecutable: boolean;
  readonly mtimeNs: bigint | undefined;
  /** a directory that somebody has looked into: what it is now */
  readonly folder?: EditedFolder | undefined;
}

interface KnownName {
  readonly name: Uint8Array;
  /** undefined: there is none */
  item: EditedItem | undefined;
  isChanged: boolean;
}

class EditedFolder {
  /** undefined: a new folder */
  readonly #stored: StoredDirectory | undefined;
  readonly #known = new Map<string, KnownName>();

  constructor(stored: StoredDirectory | undefined) {
    this.#stored = stored;
  }

  async find(parts: RememberedParts, name: Uint8Array): Promise<EditedItem | undefined> {
    const key = keyOf(name);
    const known = this.#known.get(key);
    if (known !== undefined) return known.item;
    const item =
      this.#stored === undefined
        ? undefined
        : await findEntryInParts((hash, expected) => parts.read(hash, expected), this.#stored, name);
    this.#known.set(key, { name, item, isChanged: false });
    return item;
  }

  /** The folder under `name`, to be edited; undefined when none is there. */
  async open(parts: RememberedParts, name: Uint8Array): Promise<EditedFolder | undefined> {
    const item = await this.find(parts, name);
    if (item?.kind !== 'directory') return undefined;
    if (item.folder !== undefined) return item.folder;
    const folder = new EditedFolder(item);
    const known = this.#known.get(keyOf(name));
    if (known !== undefined) known.item = { ...item, folder };
    return folder;
  }

  put(name: Uint8Array, item: EditedItem | undefined): void {
    this.#known.set(keyOf(name), { name, item, isChanged: true });
  }

  /** Another folder of the same entries, which are edited apart. */
  copy(): EditedFolder {
    const copy = new EditedFolder(this.#stored);
    for (const [key, { name, item, isChanged }] of this.#known) {
      copy.#known.set(key, { name, item: item && copyItem(item), isChanged });
    }
    return copy;
  }

  /** Emits what is new, children before parents. */
  async build(parts: RememberedParts, sink: NodeSink): Promise<StoredDirectory> {
    const changes: NameChange[] = [];
    for (const { name, item, isChanged } of this.#known.values()) {
      const built = await item?.folder?.build(parts, sink);
      if (isChanged || (built !== undefined && built.hash !== item?.hash)) {
        changes.push({ name, entry: item && toEntry(name, item, built) });
      }
    }
    if (changes.length === 0 && this.#stored !== undefined) return this.#stored;
    changes.sort((a, b) => compareNames(a.name, b.name));
    return buildEdited(this.#stored, changes, { parts, sink });
  }
}

function copyItem(item: EditedItem): EditedItem {
  return item.folder === undefined ? item : { ...item, folder: item.folder.copy() };
}

function toEntry(name: Uint8Array, item: EditedItem, built: StoredDirectory | undefined): DirectoryEntry {
  const { kind, isExecutable, mtimeNs } = item;
  const { hash, bytes, entryCount } = built ?? item;
  return { name, kind, hash, bytes, entryCount, isExecutable, mtimeNs };
}

/** Gives each byte a character of its own, and is fifteen times as fast as String.fromCharCode. */
const BYTES = new TextDecoder('windows-1252');

function keyOf(name: Uint8Array): string {
  return BYTES.decode(name);
}

interface Place {
  readonly folder: EditedFolder;
  readonly name: Uint8Array;
}

export interface EditedTreeOptions extends CallOptions {
  readonly parents?: boolean | undefined;
}

const NO_HASH = '';
/** Before its nodes are made. */
const NEW_ITEM = { hash: NO_HASH, bytes: 0, entryCount: 0, isExecutable: false, mtimeNs: undefined };

type Set = TreeEdit & { readonly op: 'set' };
type Transfer = TreeEdit & { readonly op: 'move' | 'copy' };

export class EditedTree {
  readonly #parts: RememberedParts;
  readonly #options: EditedTreeOptions;
  readonly #root: EditedFolder;

  private constructor(
    parts: RememberedParts,
    options: EditedTreeOptions,
    stored: StoredDirectory | undefined,
  ) {
    this.#parts = parts;
    this.#options = options;
    this.#root = new EditedFolder(stored);
  }

  /** Rejects with TreeFormatError for a root that is no folder. */
  static async open(
    parts: RememberedParts,
    root: Hash | undefined,
    options: EditedTreeOptions,
  ): Promise<EditedTree> {
    if (root === undefined) return new EditedTree(parts, options, undefined);
    const { bytes, entryCount } = await openTree(parts).readItem(root, options);
    return new EditedTree(parts, options, { hash: root, bytes, entryCount });
  }

  /** Reads what is stored of a path, for the edits that follow. */
  async look(names: readonly Uint8Array[]): Promise<void> {
    let folder: EditedFolder | undefined = this.#root;
    for (const name of names) {
      folder = await folder.open(this.#parts, name);
      if (folder === undefined) return;
    }
  }

  /** `content`: the file or link that a set puts there. */
  async apply(edit: TreeEdit, index: number, content: StoredItem | undefined): Promise<void> {
    const step = new Step(this.#parts, this.#root, index, this.#options);
    switch (edit.op) {
      case 'set':
        return step.set(edit, content);
      case 'move':
      case 'copy':
        return step.transfer(edit);
      case 'remove': {
        const { folder, name } = await step.findPlace(edit.path);
        return folder.put(name, undefined);
      }
      case 'executable': {
        const { folder, name, item } = await step.findPlace(edit.path);
        if (item.kind !== 'file')
          throw step.fail('NOT_FOUND', edit.path, 'this is no file, and only files are executable');
        return folder.put(name, { ...item, isExecutable: edit.executable });
      }
      case 'time': {
        const { folder, name, item } = await step.findPlace(edit.path);
        return folder.put(name, { ...item, mtimeNs: edit.mtimeNs });
      }
    }
  }

  build(sink: NodeSink): Promise<StoredDirectory> {
    return this.#root.build(this.#parts, sink);
  }
}

class Step {
  readonly #parts: RememberedParts;
  readonly #root: EditedFolder;
  readonly #index: number;
  readonly #options: EditedTreeOptions;

  constructor(parts: RememberedParts, root: EditedFolder, index: number, options: EditedTreeOptions) {
    this.#parts = parts;
    this.#root = root;
    this.#index = index;
    this.#options = options;
  }

  fail(code: EditErrorCode, path: EditPath, reason: string): EditError {
    return new EditError(code, reason, { path, index: this.#index });
  }

  async set(edit: Set, content: StoredItem | undefined): Promise<void> {
    const { path } = edit;
    const { folder, name } = await this.#openParent(path);
    const there = await folder.find(this.#parts, name);
    const isFolder = there?.kind === 'directory';
    if (isFolder && 'directory' in edit && this.#options.parents && edit.replace !== true) return;
    if (there !== undefined && !(edit.replace ?? !isFolder)) {
      throw this.fail(
        'EXISTS',
        path,
        isFolder ? 'a folder is there, which is not replaced' : `a ${there.kind} is there already`,
      );
    }
    folder.put(name, describeSet(edit, content, there));
  }

  async transfer({ op, from, to, replace }: Transfer): Promise<void> {
    const source = await this.findPlace(from);
    const [fromNames, toNames] = [from, to].map((path) => parseEditPath(path, this.#index));
    if (isWithin(toNames ?? [], fromNames ?? [])) {
      throw this.fail(
        'INTO_ITSELF',
        to,
        `nothing can be ${op === 'move' ? 'moved' : 'copied'} onto itself or below itself`,
      );
    }
    const target = await this.#openParent(to);
    const there = await target.folder.find(this.#parts, target.name);
    if (there !== undefined && replace !== true) {
      throw this.fail(
        'EXISTS',
        to,
        `a ${there.kind === 'directory' ? 'folder' : there.kind} is there already`,
      );
    }
    if (op === 'move') source.folder.put(source.name, undefined);
    target.folder.put(target.name, op === 'move' ? source.item : copyItem(source.item));
  }

  /** The entry at `path`. */
  async findPlace(path: EditPath): Promise<Place & { readonly item: EditedItem }> {
    const names = parseEditPath(path, this.#index);
    let folder: EditedFolder | undefined = this.#root;
    for (const name of names.slice(0, -1)) folder = await folder?.open(this.#parts, name);
    const name = names.at(-1) as Uint8Array;
    const item = await folder?.find(this.#parts, name);
    if (folder === undefined || item === undefined) throw this.fail('NOT_FOUND', path, 'there is nothing');
    return { folder, name, item };
  }

  /** The folder that `path` is in, made where it may be. */
  async #openParent(path: EditPath): Promise<Place> {
    const names = parseEditPath(path, this.#index);
    let folder = this.#root;
    for (const name of names.slice(0, -1)) {
      const open = await folder.open(this.#parts, name);
      if (open !== undefined) folder = open;
      else if (await folder.find(this.#parts, name)) {
        throw this.fail('NO_PARENT', path, 'the path goes through a file or link');
      } else if (this.#options.parents) {
        const made = new EditedFolder(undefined);
        folder.put(name, { ...NEW_ITEM, kind: 'directory', folder: made });
        folder = made;
      } else throw this.fail('NO_PARENT', path, 'the folder that it would be in does not exist');
    }
    return { folder, name: names.at(-1) as Uint8Array };
  }
}

function describeSet(edit: Set, content: StoredItem | undefined, there: EditedItem | undefined): EditedItem {
  if ('directory' in edit) return { ...NEW_ITEM, kind: 'directory', folder: new EditedFolder(undefined) };
  const item = 'node' in edit ? edit.node : (content as StoredItem);
  const { kind, hash, bytes, entryCount } = item;
  const asked = 'executable' in edit ? edit.executable : false;
  const isExecutable = asked === 'kept' ? there?.isExecutable === true : asked === true;
  return { kind, hash, bytes, entryCount, isExecutable: kind === 'file' && isExecutable, mtimeNs: undefined };
}

/** Whether `names` is `above` itself or a path below it. */
function isWithin(names: readonly Uint8Array[], above: readonly Uint8Array[]): boolean {
  return above.every((name, at) => {
    const other = names[at];
    return (
      other !== undefined &&
      other.length === name.length &&
      other.every((byte, index) => byte === name[index])
    );
  });
}
