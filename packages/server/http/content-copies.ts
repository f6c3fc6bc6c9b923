/**
 * Large content on its way out. What is sent must be what was proven, however late, and must have a length: the runtime frames a
 * stream in chunks, and sends a file as it is by then. So each object that is read has one private file, which all its readers
 * share, whatever their ranges. Pieces are read, proven and written side by side, and an answer begins when all of its own are there.
 *
 * On Linux the file has no name: nothing else can reach it, a crash leaves nothing, and it counts until the runtime has closed it
 * for its last reader. Where the disk has no room, the system's memory takes the file.
 */
import { existsSync, statfsSync } from 'node:fs';
import { mkdir, readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import type { Generation } from '../core/model.ts';
import { CONTENT_PIECE_BYTES, type CopySource, type ReadAids } from '../core/ports.ts';
import {
  bytesOf,
  ContentCopy,
  type CopyPlace,
  countOpenings,
  type Piece,
  PlaceFailed,
  piecesOf,
} from './content-copy.ts';
import {
  COPIED_BYTES_MAX,
  COPIED_IN_MEMORY_BYTES_MAX,
  COPYING_PIECES_MAX,
  COPYING_PIECES_OF_ANSWER_MAX,
  SHED_RETRY_AFTER_SECONDS,
} from './http-limits.ts';

/** Who waits for a copy. */
export interface CopyWatch {
  /** aborts when nobody waits any more */
  readonly signal: AbortSignal;
  /** told of every piece, so that a caller who waits is not taken for dead */
  onProgress(): void;
}

/** a copy that nobody reads or asks for goes after this long */
const IDLE_MS_MAX = 5_000;
/** the runtime opens a copy in the turn in which the answer is handed over; until then it stays */
const OPENABLE_MS_MIN = 250;
/** between looks at who still reads: each costs a moment for every descriptor of the process */
const LOOK_MS = 500;
const MEMORY_FOLDER = '/dev/shm';
const SCRATCHES_KEPT_MAX = 8;

class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

export class ContentCopies {
  readonly #places: readonly CopyPlace[];
  /** those that further answers may share */
  readonly #shared = new Map<Generation, ContentCopy>();
  readonly #copies = new Set<ContentCopy>();
  readonly #lanes = new Lanes(COPYING_PIECES_MAX);
  readonly #timer: ReturnType<typeof setInterval>;
  #lookedAt = Number.NEGATIVE_INFINITY;

  /** `folder` is this process's own: whatever an earlier life left in it goes. */
  static async open(
    folder: string,
    { bytesMax = COPIED_BYTES_MAX, memoryFolder = MEMORY_FOLDER } = {},
  ): Promise<ContentCopies> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
    const places = [makePlace(await realpath(folder), bytesMax)];
    if (existsSync(memoryFolder)) places.push(makePlace(memoryFolder, COPIED_IN_MEMORY_BYTES_MAX));
    return new ContentCopies(places);
  }

  private constructor(places: readonly CopyPlace[]) {
    this.#places = places;
    this.#timer = setInterval(() => this.#forgetIdle(IDLE_MS_MAX), IDLE_MS_MAX);
    this.#timer.unref();
  }

  /** of all copies: written, or about to be */
  get heldBytes(): number {
    return this.#places.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  }

  /**
   * Content [start, end) as a file, to be handed to the runtime in this turn. Rejects with what reading or the disk says, with 503
   * while other readers leave no room, or when the caller goes.
   */
  async take(source: CopySource, start: number, end: number, watch: CopyWatch): Promise<Blob> {
    let failure: unknown = noRoom();
    const version = await source.getVersion();
    for (const place of this.#places) {
      try {
        const copy = this.#reserve(place, source, version, piecesOf(source, start, end));
        if (copy !== undefined) return await this.#fill(copy, source, start, end, watch);
      } catch (error) {
        if (!(error instanceof PlaceFailed)) throw error;
        failure = error.cause;
      }
    }
    throw failure;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const copy of this.#copies) if (!copy.isBusy) this.#forget(copy);
  }

  /** `undefined`: there is no room for these pieces, or the copy lies elsewhere. Throws PlaceFailed. */
  #reserve(
    place: CopyPlace,
    source: CopySource,
    version: string,
    pieces: readonly Piece[],
  ): ContentCopy | undefined {
    const { generation } = source;
    // What was copied before something changed the stored bytes is for those who asked before.
    if (this.#shared.get(generation)?.version !== version) this.#shared.delete(generation);
    let copy = this.#shared.get(generation);
    if (copy !== undefined && copy.place !== place) return undefined;
    if (!hasRoom(place, copy?.missingBytes(pieces) ?? bytesOf(pieces))) {
      this.#forgetIdle(OPENABLE_MS_MIN);
      copy = this.#shared.get(generation);
      if (!hasRoom(place, copy?.missingBytes(pieces) ?? bytesOf(pieces))) return undefined;
    }
    if (copy === undefined) {
      copy = new ContentCopy(place, source, version);
      this.#shared.set(generation, copy);
      this.#copies.add(copy);
    }
    copy.reserve(pieces);
    return copy;
  }

  async #fill(
    copy: ContentCopy,
    source: CopySource,
    start: number,
    end: number,
    watch: CopyWatch,
  ): Promise<Blob> {
    const pieces = piecesOf(source, start, end).values();
    const gone = Promise.withResolvers<never>();
    const leave = (): void => gone.reject(new CallerGone('the caller went away before its answer'));
    let isOver = false;
    copy.users += 1;
    watch.signal.addEventListener('abort', leave, { once: true });
    if (watch.signal.aborted) leave();
    try {
      const bringAll = async (): Promise<void> => {
        for (const piece of pieces) {
          if (isOver) return;
          await copy.put(piece, (signal) =>
            this.#lanes.run((scratch) => bring(copy, source, piece, { scratch, signal })),
          );
          watch.onProgress();
        }
      };
      const all = Promise.all(Array.from({ length: COPYING_PIECES_OF_ANSWER_MAX }, bringAll));
      await Promise.race([gone.promise, all]);
      return copy.toBlob(start, end);
    } catch (error) {
      // The next one begins anew, perhaps elsewhere.
      if (error instanceof PlaceFailed && this.#shared.get(source.generation) === copy) {
        this.#shared.delete(source.generation);
      }
      throw error;
    } finally {
      isOver = true;
      watch.signal.removeEventListener('abort', leave);
      copy.users -= 1;
      if (copy.users === 0) copy.abandon();
      copy.usedAt = performance.now();
    }
  }

  /** The runtime does not tell when it has sent a file, but closes it then. */
  #forgetIdle(idleMs: number): void {
    const now = performance.now();
    const idle = [...this.#copies].filter(({ isBusy, usedAt }) => !isBusy && now - usedAt >= idleMs);
    if (idle.length === 0 || now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const openings = countOpenings();
    for (const copy of idle) if (!copy.hasReaders(openings)) this.#forget(copy);
  }

  #forget(copy: ContentCopy): void {
    if (this.#shared.get(copy.generation) === copy) this.#shared.delete(copy.generation);
    this.#copies.delete(copy);
    copy.close();
  }
}

async function bring(
  copy: ContentCopy,
  { offset, read }: CopySource,
  { start, end }: Piece,
  aids: Required<ReadAids>,
): Promise<void> {
  // While it waited for its turn those who wanted it may have gone.
  aids.signal.throwIfAborted();
  const bytes = await read(start, end, aids);
  if (bytes.length !== end - start) {
    throw new Error(`${end - start} bytes of content came as ${bytes.length}`);
  }
  await copy.write(bytes, start - offset);
}

const makePlace = (folder: string, bytesMax: number): CopyPlace => ({
  folder,
  bytesMax,
  heldBytes: 0,
  writtenBytes: 0,
});

/** Copies never hold more of a file system than they leave free, so that readers cannot keep writers from it. */
function hasRoom(place: CopyPlace, missingBytes: number): boolean {
  if (missingBytes === 0) return true;
  const heldBytes = place.heldBytes + missingBytes;
  const { bavail, bsize } = statfsSync(place.folder);
  return heldBytes <= place.bytesMax && bavail * bsize - (heldBytes - place.writtenBytes) >= heldBytes;
}

const noRoom = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'large answers wait for slow readers; repeat the request', {
    retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
  });

/** So many pieces at once, each with memory of its own; the others wait in order. */
class Lanes {
  #free: number;
  readonly #waiting: (() => void)[] = [];
  /** Fresh memory costs three times the reading: the system clears it page by page. */
  readonly #scratches: Uint8Array[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run(work: (scratch: Uint8Array) => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const scratch = this.#scratches.pop() ?? new Uint8Array(CONTENT_PIECE_BYTES);
    try {
      await work(scratch);
    } finally {
      if (this.#scratches.length < SCRATCHES_KEPT_MAX) this.#scratches.push(scratch);
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
