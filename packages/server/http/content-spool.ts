/**
 * Where content too large for memory waits for its reader. The runtime frames a streamed body without Content-Length, which
 * the spec wants, and keeps a connection open when a body ends early. So a large range is proven block by block into a
 * private file first, and that file is the body: damage anywhere answers 503, and what is sent was all proven. The file has
 * no name where the system can open one without (Linux), so that nothing can reach it any more and a crash leaves nothing.
 */
import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { mkdir, open, readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import { readExactly, type StreamWatch } from './content-stream.ts';
import { SHED_RETRY_AFTER_SECONDS, SPOOLED_BYTES_MAX } from './http-limits.ts';

export interface ContentSpool {
  /**
   * Takes exactly `length` bytes. Rejects as `readExactly` does, with the disk's error, or with 503 while the answers of other
   * readers leave no room; keeps nothing then.
   */
  hold(stream: ReadableStream<Uint8Array>, length: number, watch: StreamWatch): Promise<Blob>;
}

/** ms a spooled file can still be opened: the runtime does so in the turn in which the answer is handed over. */
const OPENABLE_MS = 2000;
/** ms between looks at what is left of the files: each costs a moment for every descriptor of the process */
const LOOK_MS = 500;
const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';
const DESCRIPTORS = '/proc/self/fd';

/** `folder` is this process's own: whatever an earlier life left in it goes. */
export async function openFileSpool(folder: string, bytesMax = SPOOLED_BYTES_MAX): Promise<ContentSpool> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
  return new FileSpool(await realpath(folder), bytesMax);
}

/** A file on its way to be whole. */
interface Writing {
  readonly length: number;
  inode?: number;
}

class FileSpool implements ContentSpool {
  readonly #folder: string;
  readonly #bytesMax: number;
  readonly #writing = new Set<Writing>();
  /** of whole files; what was sent since the last look still counts */
  #wholeBytes = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string, bytesMax: number) {
    this.#folder = folder;
    this.#bytesMax = bytesMax;
  }

  async hold(stream: ReadableStream<Uint8Array>, length: number, watch: StreamWatch): Promise<Blob> {
    if (!this.#hasRoom(length)) this.#look();
    if (!this.#hasRoom(length)) {
      await stream.cancel();
      throw new ApiError('SERVICE_UNAVAILABLE', 'large answers wait for slow readers; repeat the request', {
        retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
      });
    }
    const writing: Writing = { length };
    this.#writing.add(writing);
    try {
      const blob = await holdInFile(this.#folder, stream, writing, watch);
      this.#wholeBytes += length;
      return blob;
    } finally {
      this.#writing.delete(writing);
    }
  }

  #hasRoom(length: number): boolean {
    let bytes = this.#wholeBytes + length;
    for (const writing of this.#writing) bytes += writing.length;
    return bytes <= this.#bytesMax;
  }

  /** The runtime does not tell when it has sent a file, but closes it then, and what has no name is gone with that. */
  #look(): void {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const sizes = findOpenFiles(this.#folder);
    for (const { inode } of this.#writing) if (inode !== undefined) sizes.delete(inode);
    this.#wholeBytes = 0;
    for (const size of sizes.values()) this.#wholeBytes += size;
  }
}

/** Sizes, by inode, of the files of the folder that this process has open; of those that still have a name, elsewhere than on Linux. */
function findOpenFiles(folder: string): Map<number, number> {
  const sizes = new Map<number, number>();
  const parent = CAN_OPEN_DESCRIPTORS ? DESCRIPTORS : folder;
  for (const name of readdirSync(parent)) {
    const path = join(parent, name);
    try {
      if (CAN_OPEN_DESCRIPTORS && !readlinkSync(path).startsWith(`${folder}/`)) continue;
      const { ino, size } = statSync(path);
      sizes.set(ino, size);
    } catch (error) {
      // Closed, or removed, since it was listed.
      if ((error as { code?: string }).code !== 'ENOENT') throw error;
    }
  }
  return sizes;
}

async function holdInFile(
  folder: string,
  stream: ReadableStream<Uint8Array>,
  writing: Writing,
  watch: StreamWatch,
): Promise<Blob> {
  const path = join(folder, crypto.randomUUID());
  const file = await open(path, 'wx+', 0o600);
  const forget = async (): Promise<void> => {
    await file.close();
    if (!CAN_OPEN_DESCRIPTORS) await rm(path, { force: true });
  };
  try {
    writing.inode = (await file.stat()).ino;
    if (CAN_OPEN_DESCRIPTORS) await rm(path);
    await readExactly(stream, writing.length, watch, (piece) => file.writeFile(piece));
  } catch (error) {
    await forget();
    throw error;
  }
  setTimeout(() => void forget().catch(() => undefined), OPENABLE_MS).unref();
  return Bun.file(CAN_OPEN_DESCRIPTORS ? `/proc/self/fd/${file.fd}` : path);
}
