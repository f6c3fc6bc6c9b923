/** Pushing a folder from the page, step by step. */

import { addSnapshot, pushTree, startProgress } from '@holdfast/client';
import {
  type BuiltDirectory,
  buildFile,
  CHUNK_CONTENT_TYPE,
  compareNames,
  DirectoryBuilder,
  FILE_CONTENT_TYPE,
  MemoryTree,
  type NodeSupply,
  type PushNode,
} from '@holdfast/client/internal';
import { encodeNode, type Hash } from '@holdfast/protocol';
import type { Connection } from './connection.ts';
import { type GivenFolder, measureFolder } from './given-folder.ts';

/** Where the bytes of a node are on the disk. */
interface Place {
  readonly contentType: string;
  readonly file: File;
  readonly start: number;
  readonly end: number;
}

/** The tree of a folder, hashed file by file. Nodes with bytes of files are read again when they are sent, so it may be large. */
interface FolderTree {
  readonly root: BuiltDirectory;
  readonly supply: NodeSupply<PushNode>;
}

/** `onBytes` is told what was hashed. Rejects with the reason of `signal`. */
async function buildFolderTree(
  folder: GivenFolder,
  onBytes: (more: number) => void,
  signal: AbortSignal,
): Promise<FolderTree> {
  const memory = new MemoryTree();
  const places = new Map<Hash, Place>();

  async function addFile(file: File): Promise<{ readonly hash: Hash; readonly bytes: number }> {
    let offset = 0;
    const sink = {
      emit(node: Parameters<MemoryTree['emit']>[0]): void {
        const { hash, contentType, content } = node;
        if (contentType !== FILE_CONTENT_TYPE && contentType !== CHUNK_CONTENT_TYPE) {
          memory.emit(node);
          return;
        }
        places.set(hash, { contentType, file, start: offset, end: offset + content.length });
        offset += content.length;
      },
    };
    return buildFile(sink, readPieces(file, onBytes, signal));
  }

  async function addFolder({ entries }: GivenFolder): Promise<BuiltDirectory> {
    const utf8 = new TextEncoder();
    const named = Array.from(entries, ([name, entry]) => ({ name: utf8.encode(name), entry }));
    named.sort((a, b) => compareNames(a.name, b.name));
    const directory = new DirectoryBuilder(memory);
    const common = { isExecutable: false, mtimeNs: undefined };
    for (const { name, entry } of named) {
      signal.throwIfAborted();
      const isFile = entry instanceof File;
      const built = isFile ? { ...(await addFile(entry)), entryCount: 0 } : await addFolder(entry);
      await directory.add({ name, kind: isFile ? 'file' : 'directory', ...built, ...common });
    }
    return directory.finish();
  }

  const root = await addFolder(folder);
  const inMemory = memory.supply(root.hash);
  return {
    root,
    supply: {
      ...inMemory,
      makeNode: (node) => {
        const place = places.get(node.hash);
        return place === undefined ? inMemory.makeNode(node) : makeLeaf(place);
      },
      listChildren: async (node) => (places.has(node.hash) ? [] : inMemory.listChildren(node)),
      sizeOf: (node) => {
        const place = places.get(node.hash);
        return place === undefined ? inMemory.sizeOf(node) : place.end - place.start;
      },
      nameOf: ({ hash }) => places.get(hash)?.file.name ?? hash,
    },
  };
}

async function makeLeaf({ contentType, file, start, end }: Place): Promise<Uint8Array> {
  const content = new Uint8Array(await file.slice(start, end).arrayBuffer());
  return encodeNode({ contentType, refs: [], content });
}

/** A reader of its own: not every browser can iterate a stream. */
async function* readPieces(
  file: File,
  onBytes: (more: number) => void,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = file.stream().getReader();
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) return;
      onBytes(value.length);
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export type PushStep =
  | { readonly step: 'hashing'; readonly bytes: number; readonly totalBytes: number }
  | {
      readonly step: 'sending';
      readonly bytes: number;
      readonly totalBytes: number;
      readonly sentBytes: number;
      readonly stall: string | undefined;
    }
  | { readonly step: 'naming' }
  | { readonly step: 'done'; readonly result: Pushed };

export interface Pushed {
  readonly root: string;
  readonly entryCount: number;
  readonly bytes: number;
  readonly uploadedBytes: number;
  readonly leaseExpiresAt: number;
  /** undefined: it was not to be kept under a name */
  readonly name: string | undefined;
}

/** `name` undefined: the tree is leased for a day and nothing more. */
export async function pushFolder(
  space: Connection,
  folder: GivenFolder,
  name: string | undefined,
  onStep: (step: PushStep) => void,
  signal: AbortSignal,
): Promise<void> {
  const totalBytes = measureFolder(folder).bytes;
  let hashed = 0;
  let toldAt = 0;
  onStep({ step: 'hashing', bytes: 0, totalBytes });
  const { root, supply } = await buildFolderTree(
    folder,
    (more) => {
      hashed += more;
      if (performance.now() - toldAt < 100) return;
      toldAt = performance.now();
      onStep({ step: 'hashing', bytes: hashed, totalBytes });
    },
    signal,
  );
  const pushed = await send(space, supply, root.bytes, onStep, signal);
  if (name !== undefined) {
    onStep({ step: 'naming' });
    const path = `/${folder.name}`;
    const snapshot = { name, root: root.hash, host: 'console', path, bytes: root.bytes };
    await addSnapshot(space.client, snapshot, { signal });
  }
  const { hash, entryCount, bytes } = root;
  const { uploadedBytes, leaseExpiresAt } = pushed;
  onStep({ step: 'done', result: { root: hash, entryCount, bytes, uploadedBytes, leaseExpiresAt, name } });
}

async function send(
  { jobClient }: Connection,
  supply: Parameters<typeof pushTree>[1],
  totalBytes: number,
  onStep: (step: PushStep) => void,
  signal: AbortSignal,
) {
  let stall: string | undefined;
  let counted = { bytes: 0, sentBytes: 0 };
  const tell = (): void => onStep({ step: 'sending', ...counted, totalBytes, stall });
  tell();
  const progress = startProgress({
    job: 'push',
    subject: 'folder',
    onEvent: (event) => {
      if (event.type === 'stall') stall = event.cause;
      else if (event.type === 'resumed') stall = undefined;
      else if (event.type === 'progress') {
        counted = { bytes: event.counters.bytes, sentBytes: event.counters.transferredBytes };
      } else return;
      tell();
    },
  });
  try {
    const pushed = await pushTree(jobClient, supply, { signal, progress });
    progress.done(pushed.root);
    return pushed;
  } catch (error) {
    progress.fail(error instanceof Error ? error.message : String(error));
    throw error;
  }
}
