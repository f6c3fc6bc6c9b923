/** The tree of a folder, hashed file by file. Nodes with bytes of files are read again when they are sent, so it may be large. */
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
import type { GivenFolder } from './given-folder.ts';

/** Where the bytes of a node are on the disk. */
interface Place {
  readonly contentType: string;
  readonly file: File;
  readonly start: number;
  readonly end: number;
}

export interface FolderTree {
  readonly root: BuiltDirectory;
  readonly supply: NodeSupply<PushNode>;
}

/** `onBytes` is told what was hashed. Rejects with the reason of `signal`. */
export async function buildFolderTree(
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
