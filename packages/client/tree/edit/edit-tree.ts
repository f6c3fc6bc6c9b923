/** Changes a stored tree without reading the rest of it: only the folders on the paths are read, and only what changes is sent. */
import { concatBytes, type Hash, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import {
  type CheckedCall,
  checkHash,
  checkLeaseDuration,
  checkMethod,
  checkOptions,
  isBlob,
} from '../../arguments.ts';
import { CasError } from '../../errors.ts';
import type { AloneReader } from '../../get-alone.ts';
import { mapInOrder } from '../../map-in-order.ts';
import type { CallOptions } from '../../operations.ts';
import { type BuiltFile, buildFile, buildSmallFile, buildSymlink } from '../build/builders.ts';
import { CHUNK_BYTES_MIN } from '../format/tree-format.ts';
import type { FolderKeeper } from '../read/node-source.ts';
import { EditedTree } from './edited-tree.ts';
import { type NodePutter, NodeSender } from './node-sender.ts';
import { RememberedParts } from './remembered-parts.ts';
import {
  checkEdits,
  parseEditPath,
  type SetFile,
  type StoredItem,
  type TreeEdit,
  toRawText,
} from './tree-edit.ts';

/** The client that edits need: `cas:nodes:read` and `cas:nodes:lease`. */
export type EditClient = AloneReader & NodePutter & FolderKeeper;

export interface EditTreeOptions extends CallOptions {
  /** Makes folders that a path is in and that are missing; a folder that is to be made may then be there. */
  readonly parents?: boolean | undefined;
  /** The lease of the tree: 60 s to 24 h, clamped by the service; 24 h when left out. */
  readonly leaseDurationMs?: number | undefined;
}

export interface TreeEdited {
  readonly root: Hash;
  /** all files, folders and links of the tree, without the root */
  readonly entries: number;
  /** of all files and link targets */
  readonly bytes: number;
  readonly sentNodes: number;
  /** canonical bytes */
  readonly sentBytes: number;
}

const EDIT_TREE: CheckedCall = { name: 'editTree', requestOperation: 'uploadNode' };

/**
 * The tree `root` (undefined: empty) with `edits` done in order, ready and leased. Its hash is that of a push of the edited folder.
 * Rejects with EditError, TreeFormatError, CasError, or the signal's reason.
 */
export async function editTree(
  client: EditClient,
  root: Hash | undefined,
  edits: readonly TreeEdit[],
  options: EditTreeOptions = {},
): Promise<TreeEdited> {
  const editor = new TreeEditor(EDIT_TREE, client, edits, options);
  if (root !== undefined) checkHash(EDIT_TREE, root);
  await editor.prepare();
  const edited = await editor.apply(root);
  const { unready } = await editor.sender.finish(options.leaseDurationMs ?? LEASE_DURATION_MS_MAX);
  const [missing] = unready;
  if (missing !== undefined) {
    const message = `editTree: ${missing.hash} refers to nodes that are not ready on the server; push the tree again with a check of every node`;
    throw new CasError(message, { code: 'UPLOAD_UNSETTLED', requestOperation: 'leaseNode' });
  }
  const { sentNodes, sentBytes } = editor.sender;
  return { ...edited, sentNodes, sentBytes };
}

export class TreeEditor {
  readonly sender: NodeSender;
  readonly #client: EditClient;
  readonly #options: EditTreeOptions;
  readonly #edits: readonly TreeEdit[];
  /** what the files and links among the edits are, by their place */
  readonly #contents = new Map<number, StoredItem>();
  #preparedCount = 0;

  /** Throws EditError INVALID_PATH, CasError INVALID_ARGUMENT. */
  constructor(call: CheckedCall, client: EditClient, edits: readonly TreeEdit[], options: EditTreeOptions) {
    for (const method of ['getNode', 'putNode', 'leaseNode']) checkMethod(call, 'client', client, method);
    checkOptions(call, options);
    checkEdits(call, edits);
    const { signal, leaseDurationMs = LEASE_DURATION_MS_MAX } = options;
    checkLeaseDuration(call, leaseDurationMs);
    this.#client = client;
    this.#options = options;
    this.#edits = edits;
    this.sender = new NodeSender(client, { signal, leaseDurationMs });
  }

  /** Cuts and hashes the files, once: a stream can be read no second time. */
  async prepare(): Promise<void> {
    const item = { entryCount: 0 };
    for (const [index, edit] of this.#edits.entries()) {
      if (edit.op !== 'set') continue;
      if ('bytes' in edit) {
        this.#contents.set(index, { kind: 'file', ...item, ...(await this.#buildFile(edit)) });
      } else if ('target' in edit) {
        const built = await buildSymlink(this.sender, toRawText(edit.target));
        this.#contents.set(index, { kind: 'symlink', ...item, ...built });
      }
    }
    this.#preparedCount = this.sender.heldCount;
  }

  #buildFile({ bytes }: SetFile): Promise<BuiltFile> {
    if (isBlob(bytes)) return this.#buildStream(bytes.stream());
    if (bytes instanceof ReadableStream) return this.#buildStream(bytes);
    return bytes.length <= CHUNK_BYTES_MIN
      ? buildSmallFile(this.sender, bytes)
      : buildFile(this.sender, [bytes]);
  }

  /** A small file does without the memory that cutting takes. */
  async #buildStream(stream: ReadableStream<Uint8Array>): Promise<BuiltFile> {
    const pieces = readPieces(stream, this.#options.signal);
    const first: Uint8Array[] = [];
    let length = 0;
    while (length <= CHUNK_BYTES_MIN) {
      const { done, value } = await pieces.next();
      if (done === true) return buildSmallFile(this.sender, concatBytes(first));
      first.push(value);
      length += value.length;
    }
    const all = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      yield* first;
      yield* pieces;
    };
    return buildFile(this.sender, all());
  }

  /** Nothing of it is visible before its nodes are sent. Rejects with EditError, TreeFormatError, CasError. */
  async apply(root: Hash | undefined): Promise<Pick<TreeEdited, 'root' | 'entries' | 'bytes'>> {
    this.sender.forgetSince(this.#preparedCount);
    const parts = new RememberedParts(this.#client, this.#options);
    const tree = await EditedTree.open(parts, root, this.#options);
    await this.#readAhead(tree);
    for (const [index, edit] of this.#edits.entries()) {
      this.#options.signal?.throwIfAborted();
      await tree.apply(edit, index, this.#contents.get(index));
    }
    const { hash, entryCount, bytes } = await tree.build(this.sender);
    return { root: hash, entries: entryCount, bytes };
  }

  /** Many paths are looked up together. A path that is not found says nothing, because an earlier edit may make it. */
  async #readAhead(tree: EditedTree): Promise<void> {
    if (this.#edits.length < 2) return;
    const paths = this.#edits.flatMap((edit) => ('path' in edit ? [edit.path] : [edit.from, edit.to]));
    const looks = mapInOrder(paths, 64, (path) => tree.look(parseEditPath(path, 0)));
    for await (const _ of looks);
  }
}

/** A reader of its own: not every browser can iterate a stream. */
async function* readPieces(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
