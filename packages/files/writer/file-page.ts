/**
 * Memory that two threads share, in pages: one thread fills a page with small files, the other writes them to the disk and gives
 * the page back. A page belongs to one of them at a time.
 */
import type { UnprovenFile } from '@holdfast/client/internal';
import { RECORD_CODEC_NONE, RECORD_CODEC_ZSTD } from '@holdfast/protocol';
import type { SmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';

export const PAGE_BYTES = 512 * 1024;

/**
 * Lengths of content, partial name, name, the node's header and hash; canonical length; descriptor of the folder; flags; modification
 * time in nanoseconds. Without a proof to make, the lengths of the node's parts are 0.
 */
const HEADER_BYTES = 8 * 4 + 8;
const FLAG = { executable: 1, fsync: 2, mtime: 4, compressed: 8 } as const;

const NO_NODE = { header: new Uint8Array(0), hash: '' } as const;

export interface PagedFile {
  readonly file: SmallFile;
  /** A view of the page: the bytes of the file, or the node as it came. */
  readonly content: Uint8Array | UnprovenFile;
}

export class FilePage {
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #length = 0;
  #count = 0;

  constructor(memory: SharedArrayBuffer) {
    this.#bytes = Buffer.from(memory);
    this.#view = new DataView(memory);
  }

  get count(): number {
    return this.#count;
  }

  /** False when the page has no room for the file, or its folder has no descriptor. */
  add(file: SmallFile, content: Uint8Array | UnprovenFile): boolean {
    const { folder, partialName, name, mtimeNs } = file;
    const unproven = content instanceof Uint8Array ? undefined : content;
    const bytes = content instanceof Uint8Array ? content : content.record.stored;
    const { header, hash } = unproven ?? NO_NODE;
    const lengths = [bytes.length, partialName.length, name.length, header.length, hash.length];
    const length = lengths.reduce((sum, part) => sum + part, HEADER_BYTES);
    // Each file may keep the descriptor of its folder open.
    const hasRoom = this.#count < 64 && this.#length + length <= PAGE_BYTES;
    if (!hasRoom || folder.descriptor === undefined) return false;
    let at = this.#length;
    const canonicalLength = unproven?.record.canonicalLength ?? 0;
    for (const number of [...lengths, canonicalLength, folder.descriptor, flagsOf(file, unproven)]) {
      this.#view.setUint32(at, number);
      at += 4;
    }
    this.#view.setBigInt64(at, mtimeNs ?? 0n);
    at += 8;
    for (const part of [bytes, Buffer.from(partialName, 'latin1'), name, header]) {
      this.#bytes.set(part, at);
      at += part.length;
    }
    this.#bytes.write(hash, at, 'latin1');
    this.#length = at + hash.length;
    this.#count += 1;
    return true;
  }

  /** The files of a page that was filled in another thread, `count` of them. */
  *read(count: number): Generator<PagedFile, void, undefined> {
    let at = 0;
    for (let index = 0; index < count; index += 1) {
      const number = (position: number): number => this.#view.getUint32(at + 4 * position);
      const [canonicalLength, descriptor, flags] = [number(5), number(6), number(7)];
      const mtimeNs = this.#view.getBigInt64(at + 32);
      const parts: Buffer[] = [];
      let start = at + HEADER_BYTES;
      for (const position of [0, 1, 2, 3, 4]) {
        const end = start + number(position);
        parts.push(this.#bytes.subarray(start, end));
        start = end;
      }
      at = start;
      const [bytes, partialName, name, header, hash] = parts as [Buffer, Buffer, Buffer, Buffer, Buffer];
      const file: SmallFile = {
        folder: folderOf(descriptor),
        partialName: partialName.toString('latin1'),
        name,
        isExecutable: (flags & FLAG.executable) !== 0,
        mtimeNs: (flags & FLAG.mtime) === 0 ? undefined : mtimeNs,
        fsync: (flags & FLAG.fsync) !== 0,
      };
      const codec = (flags & FLAG.compressed) === 0 ? RECORD_CODEC_NONE : RECORD_CODEC_ZSTD;
      const record = { codec, canonicalLength, stored: bytes } as const;
      const content = hash.length === 0 ? bytes : { hash: hash.toString('latin1'), record, header };
      yield { file, content };
    }
  }

  clear(): void {
    this.#length = 0;
    this.#count = 0;
  }
}

function flagsOf({ isExecutable, fsync, mtimeNs }: SmallFile, unproven: UnprovenFile | undefined): number {
  const isCompressed = unproven !== undefined && unproven.record.codec !== RECORD_CODEC_NONE;
  return (
    (isExecutable ? FLAG.executable : 0) |
    (fsync ? FLAG.fsync : 0) |
    (mtimeNs === undefined ? 0 : FLAG.mtime) |
    (isCompressed ? FLAG.compressed : 0)
  );
}
