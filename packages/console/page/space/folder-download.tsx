/** A folder as one file: put together in the browser, so up to a bound. Beyond it the command line is the way. */
import { formatName } from '@holdfast/client';
import type { TreeItem, TreeReader } from '@holdfast/client/internal';
import { BIG_NS_PER_S, concatBytes } from '@holdfast/protocol';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatBytes, formatThings } from '../parts/format.ts';
import { useAction } from '../parts/loaded.ts';
import { Failure, Notice } from '../parts/notices.tsx';
import type { Connection } from './connection.ts';

/** The tar format, as far as a folder needs it. Long names have GNU's entries, which take any bytes and which every tar reads. */
export interface TarEntry {
  /** from the top of the archive */
  readonly path: Uint8Array;
  readonly kind: 'file' | 'directory' | 'symlink';
  /** of a file */
  readonly bytes: number;
  readonly isExecutable: boolean;
  /** seconds since the epoch */
  readonly mtime: number;
  /** of a link */
  readonly target?: Uint8Array;
}

const BLOCK_BYTES = 512;
const NAME_BYTES_MAX = 100;
const TYPES = { file: '0', symlink: '2', directory: '5' } as const;
const LONG_NAME = 'L';
const LONG_TARGET = 'K';
const CHECKSUM_AT = 148;
const encoder = new TextEncoder();

export function tarHead(entry: TarEntry): Uint8Array<ArrayBuffer> {
  const path = entry.kind === 'directory' ? concatBytes([entry.path, encoder.encode('/')]) : entry.path;
  const { target = new Uint8Array(0) } = entry;
  return concatBytes([
    ...(path.length > NAME_BYTES_MAX ? [longText(LONG_NAME, path)] : []),
    ...(target.length > NAME_BYTES_MAX ? [longText(LONG_TARGET, target)] : []),
    header({
      ...{ path, target, type: TYPES[entry.kind], mtime: Math.max(0, Math.floor(entry.mtime)) },
      mode: entry.kind === 'file' && !entry.isExecutable ? 0o644 : 0o755,
      bytes: entry.kind === 'file' ? entry.bytes : 0,
    }),
  ]);
}

export function tarPadding(bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

export function tarEnd(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(2 * BLOCK_BYTES);
}

function longText(type: string, text: Uint8Array): Uint8Array {
  const content = concatBytes([text, Uint8Array.of(0)]);
  const path = encoder.encode('././@LongLink');
  const head = header({ path, target: new Uint8Array(0), type, mode: 0, bytes: content.length, mtime: 0 });
  return concatBytes([head, content, tarPadding(content.length)]);
}

interface Header {
  readonly path: Uint8Array;
  readonly target: Uint8Array;
  readonly type: string;
  readonly mode: number;
  readonly bytes: number;
  readonly mtime: number;
}

function header({ path, target, type, mode, bytes, mtime }: Header): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  const put = (at: number, text: string): void => block.set(encoder.encode(text), at);
  const octal = (at: number, digits: number, value: number): void =>
    // The largest number of 11 octal digits. A file in a tar that a browser makes is far smaller.
    put(at, Math.min(value, 0o77777777777).toString(8).padStart(digits, '0'));
  block.set(path.subarray(0, NAME_BYTES_MAX));
  octal(100, 7, mode);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, bytes);
  octal(136, 11, mtime);
  block.fill(0x20, CHECKSUM_AT, CHECKSUM_AT + 8);
  put(156, type);
  block.set(target.subarray(0, NAME_BYTES_MAX), 157);
  put(257, 'ustar  \0');
  octal(
    CHECKSUM_AT,
    6,
    block.reduce((sum, byte) => sum + byte, 0),
  );
  block[CHECKSUM_AT + 6] = 0;
  return block;
}

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

/** Hands bytes that the page has put together to the browser, as a download. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name.replaceAll(/[\\/:]/g, '_');
  link.click();
  // The browser may read it for a while.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
