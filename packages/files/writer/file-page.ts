/**
 * Memory that two threads share, in pages: one thread fills a page with small files, the other writes them to the disk and gives
 * the page back. A page belongs to one of them at a time.
 */
import type { SmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';

export const PAGE_BYTES = 512 * 1024;
/** Few, because each file may keep the descriptor of its folder open. */
const PAGE_FILES_MAX = 64;

/** lengths of content, partial name and name; descriptor of the folder; flags; modification time in nanoseconds */
const HEADER_BYTES = 5 * 4 + 8;
const EXECUTABLE = 1;
const FSYNC = 2;
const MTIME = 4;

export interface PagedFile {
  readonly file: SmallFile;
  /** A view of the page. */
  readonly content: Uint8Array;
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
  add({ folder, partialName, name, isExecutable, mtimeNs, fsync }: SmallFile, content: Uint8Array): boolean {
    const length = HEADER_BYTES + partialName.length + name.length + content.length;
    const hasRoom = this.#count < PAGE_FILES_MAX && this.#length + length <= PAGE_BYTES;
    if (!hasRoom || folder.descriptor === undefined) return false;
    const flags = (isExecutable ? EXECUTABLE : 0) | (fsync ? FSYNC : 0) | (mtimeNs === undefined ? 0 : MTIME);
    let at = this.#length;
    for (const number of [content.length, partialName.length, name.length, folder.descriptor, flags]) {
      this.#view.setUint32(at, number);
      at += 4;
    }
    this.#view.setBigInt64(at, mtimeNs ?? 0n);
    at += 8;
    for (const part of [content, Buffer.from(partialName, 'latin1'), name]) {
      this.#bytes.set(part, at);
      at += part.length;
    }
    this.#length = at;
    this.#count += 1;
    return true;
  }

  /** The files of a page that was filled in another thread, `count` of them. */
  *read(count: number): Generator<PagedFile, void, undefined> {
    let at = 0;
    for (let index = 0; index < count; index += 1) {
      const number = (position: number): number => this.#view.getUint32(at + 4 * position);
      const [contentLength, partialLength, nameLength] = [number(0), number(1), number(2)];
      const [descriptor, flags] = [number(3), number(4)];
      const mtimeNs = this.#view.getBigInt64(at + 20);
      const contentAt = at + HEADER_BYTES;
      const partialAt = contentAt + contentLength;
      const nameAt = partialAt + partialLength;
      at = nameAt + nameLength;
      const file: SmallFile = {
        folder: folderOf(descriptor),
        partialName: this.#bytes.toString('latin1', partialAt, nameAt),
        name: this.#bytes.subarray(nameAt, at),
        isExecutable: (flags & EXECUTABLE) !== 0,
        mtimeNs: (flags & MTIME) === 0 ? undefined : mtimeNs,
        fsync: (flags & FSYNC) !== 0,
      };
      yield { file, content: this.#bytes.subarray(contentAt, partialAt) };
    }
  }

  clear(): void {
    this.#length = 0;
    this.#count = 0;
  }
}
