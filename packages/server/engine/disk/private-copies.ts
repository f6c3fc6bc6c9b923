/**
 * Copies of proven ranges on their way out: files without a name, which nothing but their answers can reach. What is sent
 * must be what was proven, however slowly it is read; sending it from memory costs a second copy of it in the runtime, while
 * the system sends a file without copying. The blocks on the disk are proven for every answer all the same; a copy that is
 * still there only spares making it again.
 */
import { codeOf } from '../local-failure.ts';
import type { Files, UnnamedFile } from './files.ts';

/** over all copies; they lie in the system's file cache */
const COPIES_BYTES_MAX = 128 * 1024 * 1024;
/** a copy that no answer asked for in this time goes */
const IDLE_MS_MAX = 5_000;
/** the runtime opens a copy in the turn in which the answer is handed over; until then it stays */
const OPENABLE_MS_MIN = 250;
const CHECK_INTERVAL_MS = 1_000;

interface Copy {
  readonly file: UnnamedFile;
  readonly bytes: number;
  usedAt: number;
}

/** Calls `write` with the range's bytes in order, all proven. */
type Fill = (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>;

export class PrivateCopies {
  readonly #files: Files;
  readonly #folder: string;
  readonly #bytesMax: number;
  readonly #now: () => number;
  /** least recently used first */
  readonly #copies = new Map<string, Copy>();
  readonly #making = new Map<string, Promise<Copy | undefined>>();
  #bytes = 0;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(
    files: Files,
    folder: string,
    bytesMax: number = COPIES_BYTES_MAX,
    now = (): number => performance.now(),
  ) {
    this.#files = files;
    this.#folder = folder;
    this.#bytesMax = bytesMax;
    this.#now = now;
    this.#timer = setInterval(() => this.#letGo(), CHECK_INTERVAL_MS);
    this.#timer.unref();
  }

  /** A copy that is there, or is being made by another answer. */
  async find(key: string): Promise<Blob | undefined> {
    const copy = this.#copies.get(key) ?? (await this.#making.get(key)?.catch(() => undefined));
    return copy && this.#use(key, copy);
  }

  isKnown(key: string): boolean {
    return this.#copies.has(key) || this.#making.has(key);
  }

  /** `undefined`: no copy can be made (disk full, too many files). Errors of `fill`'s own reading come through. */
  async make(key: string, bytes: number, fill: Fill): Promise<Blob | undefined> {
    const making = this.#write(key, bytes, fill);
    this.#making.set(key, making);
    try {
      const copy = await making;
      return copy && this.#use(key, copy);
    } finally {
      this.#making.delete(key);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.allSettled(this.#making.values());
    for (const key of [...this.#copies.keys()]) this.#forget(key);
  }

  async #write(key: string, bytes: number, fill: Fill): Promise<Copy | undefined> {
    const file = await this.#files.createUnnamed(this.#folder).catch(() => undefined);
    if (file === undefined) return undefined;
    let position = 0;
    try {
      await fill(async (part) => {
        await file.write(part, position).catch((error) => {
          throw new CopyFailed(`the copy could not be written (${codeOf(error)})`, { cause: error });
        });
        position += part.length;
      });
    } catch (error) {
      file.close();
      if (error instanceof CopyFailed) return undefined;
      throw error;
    }
    const other = this.#copies.get(key);
    if (other !== undefined) {
      file.close();
      return other;
    }
    const copy: Copy = { file, bytes, usedAt: this.#now() };
    this.#copies.set(key, copy);
    this.#bytes += bytes;
    return copy;
  }

  #use(key: string, copy: Copy): Blob {
    copy.usedAt = this.#now();
    if (this.#copies.delete(key)) this.#copies.set(key, copy);
    this.#letGo();
    return copy.file.toBlob(copy.bytes);
  }

  #letGo(): void {
    const now = this.#now();
    for (const [key, { usedAt }] of this.#copies) {
      const idleMs = now - usedAt;
      if (idleMs < OPENABLE_MS_MIN) return;
      if (idleMs < IDLE_MS_MAX && this.#bytes <= this.#bytesMax) return;
      this.#forget(key);
    }
  }

  #forget(key: string): void {
    const copy = this.#copies.get(key);
    if (copy === undefined) return;
    this.#copies.delete(key);
    this.#bytes -= copy.bytes;
    copy.file.close();
  }
}

class CopyFailed extends Error {
  override readonly name = 'CopyFailed';
}
