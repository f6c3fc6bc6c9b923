/** The tar format, as far as a folder needs it. Long names have GNU's entries, which take any bytes and which every tar reads. */
import { concatBytes } from '@holdfast/protocol';

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

/** The header before the content of the entry. */
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

/** The padding after `bytes` of content. */
export function tarPadding(bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

/** The end of the archive. */
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
