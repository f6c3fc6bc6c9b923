/** A directory of a tree as a tar: every file is read and verified, one after another. */
import type { TreeItem, TreeReader } from '@holdfast/client/internal';
import { BIG_NS_PER_S, concatBytes } from '@holdfast/protocol';
import { tarEnd, tarHead, tarPadding } from './tar.ts';

const SLASH = Uint8Array.of(0x2f);

export interface TarProgress {
  readonly entries: number;
  readonly bytes: number;
}

type Reader = Pick<TreeReader, 'readDirectory' | 'readFile' | 'readSymlink'>;

/** Yields the pieces of the archive, in which the directory has the name `top`. */
export async function* tarFolder(
  tree: Reader,
  directory: TreeItem,
  top: Uint8Array,
  signal: AbortSignal,
  onProgress: (progress: TarProgress) => void,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  let entries = 0;
  let bytes = 0;
  /** The last one comes next, so a folder's content follows it. */
  const waiting: { readonly path: Uint8Array; readonly item: TreeItem }[] = [{ path: top, item: directory }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { path, item } = next;
    const target = item.kind === 'symlink' ? await tree.readSymlink(item, { signal }) : undefined;
    yield tarHead({
      ...{ path, kind: item.kind, bytes: item.bytes, isExecutable: item.isExecutable },
      mtime: Number((item.mtimeNs ?? 0n) / BIG_NS_PER_S),
      ...(target === undefined ? {} : { target }),
    });
    entries += 1;
    if (item.kind === 'file') {
      for await (const piece of tree.readFile(item, { signal })) {
        bytes += piece.length;
        onProgress({ entries, bytes });
        yield piece as Uint8Array<ArrayBuffer>;
      }
      yield tarPadding(item.bytes);
    } else if (item.kind === 'directory') {
      const found = await Array.fromAsync(tree.readDirectory(item, { signal }));
      for (const entry of found.reverse()) {
        waiting.push({ path: concatBytes([path, SLASH, entry.name]), item: entry });
      }
    }
    onProgress({ entries, bytes });
  }
  yield tarEnd();
}
