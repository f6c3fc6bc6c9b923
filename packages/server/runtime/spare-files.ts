/**
 * Why: most of what a copy of large content costs is its new memory, which the system finds page by page. A spare is a file without a
 * name in the system's memory, made ahead. It has its pages already, and this process sees them as an array, so stored bytes are
 * read straight into it and proven there. A spare becomes one copy and is never used again: the runtime closes a file when the
 * system has taken its bytes, but a connection, and a reader on the same machine, may hold these very pages for long after that.
 * Since: Bun 1.4.5 or earlier.
 * Without it: the first byte of 32 MiB comes after 25 ms instead of 11.
 * Goes when: private-file.ts goes.
 */
import * as fs from 'node:fs';
import { closePrivateFile, createPrivateFile, type PrivateFile, writeAll } from './private-file.ts';

export interface SpareFile {
  readonly file: PrivateFile;
  /** the same bytes */
  readonly memory: Uint8Array;
}

interface SpareFilesOptions {
  /** on a file system in memory */
  readonly folder: string;
  /** of spares and of the copies that they became */
  readonly bytesMax: number;
  readonly copiedBytes: () => number;
  /** whether the file system can spare so much more */
  readonly hasRoom: (bytes: number) => boolean;
  /** Making waits meanwhile, because a reader waits for the same processors. */
  readonly isCopying: () => boolean;
  readonly unwantedMsMax?: number;
}

/** Between its steps others may work. */
const STEP_BYTES = 2 * 1024 * 1024;

export class SpareFiles {
  readonly #options: SpareFilesOptions;
  readonly #ready: SpareFile[] = [];
  #makingBytes = 0;
  /** the size of the largest content that was asked for lately: the next may be as large */
  #wantedBytes = 0;
  #wantedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: SpareFilesOptions) {
    this.#options = options;
  }

  /** Bytes of memory that no copy has yet. */
  get readyBytes(): number {
    return this.#ready.reduce((sum, { memory }) => sum + memory.length, this.#makingBytes);
  }

  /** A spare for a copy of so many bytes; `undefined`: none is ready. */
  take(bytes: number): SpareFile | undefined {
    if (bytes > this.#options.bytesMax) return undefined;
    this.#wantedAt = performance.now();
    this.#wantedBytes = Math.max(this.#wantedBytes, bytes);
    const index = this.#ready.findIndex(({ memory }) => memory.length >= bytes);
    const [spare] = index === -1 ? [] : this.#ready.splice(index, 1);
    if (spare === undefined) return undefined;
    fs.ftruncateSync(spare.file.fd, bytes);
    return { file: spare.file, memory: spare.memory.subarray(0, bytes) };
  }

  /** Makes spares for the content that comes next, while nothing is copied. A server that sends nothing large has none. */
  async replenish(): Promise<void> {
    if (this.#makingBytes > 0) return;
    try {
      while (this.#isShort()) {
        this.#makingBytes = this.#wantedBytes;
        this.#ready.push(await this.#make(this.#makingBytes));
        this.#makingBytes = 0;
      }
    } catch {
      // The file system has no room: copies lie elsewhere until the next large read.
      this.#makingBytes = 0;
    }
  }

  /** Gives all memory back if nothing large has been read for a while. */
  tidy(): void {
    if (performance.now() - this.#wantedAt >= (this.#options.unwantedMsMax ?? 60_000)) this.#giveBack();
  }

  close(): void {
    this.#isClosed = true;
    this.#giveBack();
  }

  #isShort(): boolean {
    const { bytesMax, copiedBytes, hasRoom } = this.#options;
    const bytes = this.#wantedBytes;
    const tooSmall = this.#ready.findIndex(({ memory }) => memory.length < bytes);
    if (tooSmall !== -1) this.#ready.splice(tooSmall, 1).forEach(discardSpare);
    if (this.#isClosed || bytes === 0 || this.#ready.length >= 2) return false;
    return bytes <= bytesMax - copiedBytes() - this.readyBytes && hasRoom(this.readyBytes + bytes);
  }

  async #make(bytes: number): Promise<SpareFile> {
    const file = createPrivateFile(this.#options.folder, bytes);
    try {
      // Without its pages an access to the array would end the process. A write that finds no room is an error.
      const zeros = new Uint8Array(STEP_BYTES);
      for (let at = 0; at < bytes; at += zeros.length) {
        while (this.#options.isCopying()) await Bun.sleep(5);
        await writeAll(file, zeros.subarray(0, Math.min(zeros.length, bytes - at)), at);
        if (this.#isClosed || this.#wantedBytes === 0) throw new Error('the spare is not wanted any more');
      }
      const memory = Bun.mmap(file.path, { shared: true });
      // One access makes the system map so much.
      for (let at = 0; at < bytes; at += 64 * 1024) {
        if (memory[at] !== 0) throw new Error('a new file in memory is not empty');
        if (at % STEP_BYTES === 0) await Bun.sleep(0);
      }
      return { file, memory };
    } catch (error) {
      closePrivateFile(file);
      throw error;
    }
  }

  #giveBack(): void {
    this.#wantedBytes = 0;
    this.#ready.splice(0).forEach(discardSpare);
  }
}

/** The pages go now, though the array stays mapped until it is collected: nobody touches it any more. */
export function discardSpare({ file }: Pick<SpareFile, 'file'>): void {
  fs.ftruncate(file.fd, 0, () => closePrivateFile(file));
}
