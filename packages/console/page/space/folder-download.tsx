/** A folder as one file: put together in the browser, so up to a bound. Beyond it the command line is the way. */
import { formatName } from '@holdfast/client';
import type { TreeItem, TreeReader } from '@holdfast/client/internal';
import { BIG_NS_PER_S, concatBytes } from '@holdfast/protocol';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatBytes, formatThings } from '../parts/format.ts';
import { useAction } from '../parts/loaded.ts';
import { Failure, Notice } from '../parts/notices.tsx';
import type { Connection } from './connection.ts';
import { saveFile } from './save-file.ts';
import { tarEnd, tarHead, tarPadding } from './tar.ts';

/** A browser keeps what it puts together in memory, or in files of its own. */
const BYTES_MAX = 2 * 1024 ** 3;

interface FolderDownloadProps {
  readonly space: Connection;
  readonly directory: TreeItem;
  /** of the folder */
  readonly name: Uint8Array;
}

export function FolderDownload({ space, directory, name }: FolderDownloadProps) {
  const action = useAction();
  const [progress, setProgress] = useState<TarProgress>({ entries: 0, bytes: 0 });
  const [isSaved, setSaved] = useState(false);
  const ending = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ending.current?.abort(), []);
  if (directory.bytes > BYTES_MAX) {
    return (
      <p class="soft">
        A folder of more than {formatBytes(BYTES_MAX)} is not downloaded by a browser: use the command below.
      </p>
    );
  }
  const download = async (): Promise<void> => {
    ending.current = new AbortController();
    setSaved(false);
    const { signal } = ending.current;
    const pieces = await Array.fromAsync(tarFolder(space.tree, directory, name, signal, setProgress));
    saveFile(new Blob(pieces, { type: 'application/x-tar' }), `${formatName(name)}.tar`);
    setSaved(true);
  };
  return (
    <div class="download">
      <button type="button" disabled={action.isRunning} onClick={() => void action.run(download)}>
        Download as .tar, {formatBytes(directory.bytes)}
      </button>
      {action.isRunning ? (
        <>
          <progress
            aria-label="Download"
            value={directory.bytes === 0 ? 1 : progress.bytes / directory.bytes}
            max={1}
          />
          <span class="soft">{formatThings(progress.entries, 'entry', 'entries')}</span>
          <button
            type="button"
            onClick={() => ending.current?.abort(new Error('The download was given up.'))}
          >
            Stop
          </button>
        </>
      ) : null}
      {isSaved ? (
        <Notice kind="ok">
          <p>Every file was verified against its hash. The archive was handed to the browser.</p>
        </Notice>
      ) : null}
      <Failure error={action.error} />
    </div>
  );
}

const SLASH = Uint8Array.of(0x2f);

interface TarProgress {
  readonly entries: number;
  readonly bytes: number;
}

type Reader = Pick<TreeReader, 'readDirectory' | 'readFile' | 'readSymlink'>;

/** Yields the pieces of the archive, in which the directory has the name `top`. */
async function* tarFolder(
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
