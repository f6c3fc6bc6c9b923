/**
 * Copies of large content that is being sent. An answer must send exactly the proven bytes, however late, and must have a length.
 * But the runtime frames a stream in chunks, and sends a file as it is at that time. So each object that is read has one private
 * file, which all its readers share. Pieces are read, proven and written side by side, and an answer begins when all of its
 * pieces are there.
 *
 * On Linux the file has no name: nothing else can reach it, a crash leaves nothing, and it counts until the runtime has closed it
 * for its last reader. If the disk has no room, the file lies in the system's memory.
 */
import { existsSync, mkdirSync, statfsSync } from 'node:fs';
import { mkdir, readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import type { Generation, Space } from '../core/model.ts';
import type { ReadAids } from '../core/ports.ts';
import type { CopySource } from '../core/read/content-caller.ts';
import { countOpenings } from '../runtime/private-file.ts';
import { SpareFiles } from '../runtime/spare-files.ts';
import { FairShares, type Hold } from '../shares/fair-shares.ts';
import { exhausted } from '../shares/share-tree.ts';
import { bytesOf, ContentCopy, type CopyPlace, type Piece, PlaceFailed, piecesOf } from './content-copy.ts';
import { COPIED_BYTES_MAX, COPYING_PIECES_MAX, RETRY_AFTER_SECONDS } from './http-limits.ts';
import { PieceSlots } from './piece-slots.ts';

export interface CopyWatch {
  /** whose share the copy is made out of */
  readonly space: Space;
  /** aborts when nobody waits any more */
  readonly signal: AbortSignal;
  /** called for every piece, so that the connection of a waiting request does not count as dead */
  onProgress(): void;
}

/** a copy without readers and requests is removed after this long */
const IDLE_MS_MAX = 5_000;
/** the same for a copy in a spare file, whose memory is needed for the next copy */
const IDLE_IN_SPARE_MS_MAX = 1_000;
/** the runtime opens the file in the turn in which it gets the response; the copy stays at least this long */
const OPENABLE_MS_MIN = 250;

class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

/** Pieces of an object as it is now. */
interface CopyWish {
  readonly source: CopySource;
  readonly version: string;
  readonly pieces: readonly Piece[];
  readonly space: Space;
}

export class ContentCopies {
  /** in the order in which they are tried */
  readonly #places: readonly CopyPlace[];
  /** the copies that further answers may share */
  readonly #shared = new Map<Generation, ContentCopy>();
  readonly #copies = new Set<ContentCopy>();
  /** where pieces are read, of copies and of answers from memory */
  readonly slots: PieceSlots;
  readonly #timer: ReturnType<typeof setInterval>;
  #lookedAt = Number.NEGATIVE_INFINITY;

  /** `folder` belongs to this process alone: files that an earlier process left in it are removed. */
  static async open(
    folder: string,
    {
      bytesMax = COPIED_BYTES_MAX,
      memoryFolder = '/dev/shm',
      processes = 1,
      keptFreeBytes = (): number => 0,
    } = {},
  ): Promise<ContentCopies> {
    await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER_MODE });
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
    const slots = new PieceSlots(COPYING_PIECES_MAX);
    const disk = {
      resource: 'copied bytes',
      folder: await realpath(folder),
      bytesMax,
      processes,
      keptFreeBytes,
    };
    const places = [makePlace(disk)];
    if (existsSync(memoryFolder)) {
      const memory = { folder: memoryFolder, processes, keptFreeBytes: () => 0 };
      const resource = 'copied bytes in memory';
      // If the disk has no room, copies of 256 MiB may lie in the system's memory.
      places.push(makePlace({ ...memory, resource, bytesMax: 256 * 1024 * 1024 }));
      places.unshift(makeSparePlace(memory, slots));
    }
    return new ContentCopies(places, slots);
  }

  private constructor(places: readonly CopyPlace[], slots: PieceSlots) {
    this.#places = places;
    this.slots = slots;
    this.#timer = setInterval(() => this.#tidy(), IDLE_MS_MAX);
    this.#timer.unref();
  }

  /** bytes of all copies, written or reserved */
  get heldBytes(): number {
    return this.#places.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  }

  /** Content [start, end) as a file for this turn. Rejects with the error of read or disk, 503 (no room), 429, or a lost caller. */
  async take(source: CopySource, start: number, end: number, watch: CopyWatch): Promise<Blob> {
    const version = await source.getVersion();
    const pieces = piecesOf(source, start, end);
    const patienceEndsAt = performance.now() + 1000;
    for (;;) {
      let failure: unknown = noRoom();
      for (const place of this.#places) {
        try {
          const copy = this.#reserve(place, { source, version, pieces, space: watch.space });
          if (copy === 'share used up') failure = shareUsedUp();
          else if (copy !== undefined) return await this.#fill(copy, source, start, end, watch);
        } catch (error) {
          if (!(error instanceof PlaceFailed)) throw error;
          failure = error.cause;
        }
      }
      const isShort = failure instanceof ApiError && failure.code === 'RESOURCE_EXHAUSTED';
      if (!isShort || performance.now() >= patienceEndsAt || watch.signal.aborted) throw failure;
      await Bun.sleep(250);
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { spares } of this.#places) spares?.close();
    const openings = countOpenings();
    for (const copy of this.#copies) if (!copy.isBusy) this.#forget(copy, copy.hasReaders(openings));
  }

  /** undefined if there is no room for these pieces, or the copy is elsewhere. Throws PlaceFailed. */
  #reserve(place: CopyPlace, wish: CopyWish): ContentCopy | 'share used up' | undefined {
    const { generation } = wish.source;
    // The stored bytes have changed since this copy was made: only answers that began before may use it.
    if (this.#shared.get(generation)?.version !== wish.version) this.#shared.delete(generation);
    const known = this.#shared.get(generation);
    if (known !== undefined && known.place !== place) return undefined;
    if (known === undefined && place.spares !== undefined) return this.#startInSpare(place, wish);
    if (!hasRoom(place, this.#missingBytes(wish))) {
      this.#forgetIdle(OPENABLE_MS_MIN);
      if (!hasRoom(place, this.#missingBytes(wish))) return undefined;
    }
    const copy = this.#shared.get(generation) ?? this.#start(place, wish);
    return copy?.reserve(wish.pieces) ? copy : 'share used up';
  }

  #missingBytes({ source, pieces }: CopyWish): number {
    return this.#shared.get(source.generation)?.missingBytes(pieces) ?? bytesOf(pieces);
  }

  /** undefined if the Space's share is used up. */
  #start(place: CopyPlace, { source, version, pieces, space }: CopyWish): ContentCopy | undefined {
    const hold = this.#takeShare(place, space, bytesOf(pieces));
    return hold && this.#add(new ContentCopy(place, source, version, hold));
  }

  /** A spare file has memory for all of the content. So it is used only for large content that is mostly requested. */
  #startInSpare(place: CopyPlace, { source, version, pieces, space }: CopyWish): ContentCopy | undefined {
    const { fillsScratch, offset, size } = source;
    const isWorthIt = fillsScratch && size >= 8 * 1024 * 1024 && bytesOf(pieces) * 2 >= size;
    const hold = isWorthIt ? this.#takeShare(place, space, size) : undefined;
    const spare = hold && place.spares?.take(offset + size);
    if (spare === undefined) {
      hold?.release();
      return undefined;
    }
    const copy = this.#add(new ContentCopy(place, source, version, hold as Hold, spare));
    copy.reserve(piecesOf(source, 0, size));
    return copy;
  }

  #add(copy: ContentCopy): ContentCopy {
    this.#shared.set(copy.generation, copy);
    this.#copies.add(copy);
    return copy;
  }

  /** Idle copies are kept for a while, and are dropped first. */
  #takeShare({ shares }: CopyPlace, { appId, spaceId }: Space, bytes: number): Hold | undefined {
    const hold = shares.tryAcquire(appId, spaceId, bytes);
    if (hold !== undefined) return hold;
    this.#forgetIdle(OPENABLE_MS_MIN);
    return shares.tryAcquire(appId, spaceId, bytes);
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
          await copy.put(piece, (signal) => {
            const memory = source.fillsScratch ? (copy.memoryOf(piece) ?? 'a scratch') : undefined;
            return this.slots.run(watch.space, memory, (scratch) =>
              bring(copy, source, piece, { ...(scratch && { scratch }), signal }),
            );
          });
          watch.onProgress();
        }
      };
      const slots =
        // So many pieces of one response are read at once, more of them into their final place.
        copy.place.spares === undefined ? 4 : 8;
      const all = Promise.all(Array.from({ length: slots }, bringAll));
      await Promise.race([gone.promise, all]);
      return copy.toBlob(source.offset + start, source.offset + end);
    } catch (error) {
      // The next request makes a new copy, perhaps in another place.
      if (error instanceof PlaceFailed && this.#shared.get(source.generation) === copy) {
        this.#shared.delete(source.generation);
      }
      throw error;
    } finally {
      isOver = true;
      watch.signal.removeEventListener('abort', leave);
      copy.users -= 1;
      if (copy.users === 0 && !copy.abandon() && this.#shared.get(copy.generation) === copy) {
        this.#shared.delete(copy.generation);
      }
      copy.usedAt = performance.now();
      if (copy.place.spares !== undefined) this.#releaseSoon();
      for (const { spares } of this.#places) void spares?.replenish();
    }
  }

  /** The system is slow to free memory, so it happens later and not while the next reader waits. */
  #releaseSoon(): void {
    const isInSpare = ({ place }: ContentCopy): boolean => place.spares !== undefined;
    setTimeout(() => this.#forgetIdle(IDLE_IN_SPARE_MS_MAX, isInSpare), IDLE_IN_SPARE_MS_MAX + 1).unref();
  }

  #tidy(): void {
    this.#forgetIdle(IDLE_MS_MAX);
    for (const { spares } of this.#places) {
      spares?.tidy();
      void spares?.replenish();
    }
  }

  /** Removes copies without readers. The runtime does not report that it has sent a file, but closes it then. */
  #forgetIdle(idleMs: number, isMeant: (copy: ContentCopy) => boolean = () => true): void {
    const now = performance.now();
    const isIdle = ({ isBusy, usedAt }: ContentCopy): boolean => !isBusy && now - usedAt >= idleMs;
    const idle = [...this.#copies].filter((copy) => isMeant(copy) && isIdle(copy));
    // The cost of a look grows with the open files of the process.
    if (idle.length === 0 || now - this.#lookedAt < 500) return;
    this.#lookedAt = now;
    const openings = countOpenings();
    for (const copy of idle) if (!copy.hasReaders(openings)) this.#forget(copy, false);
  }

  #forget(copy: ContentCopy, hasReaders: boolean): void {
    if (this.#shared.get(copy.generation) === copy) this.#shared.delete(copy.generation);
    this.#copies.delete(copy);
    copy.close(hasReaders);
  }
}

async function bring(
  copy: ContentCopy,
  { read }: CopySource,
  { start, end }: Piece,
  aids: ReadAids,
): Promise<void> {
  // The requests for this piece may have ended while it waited.
  aids.signal?.throwIfAborted();
  await copy.write(await read(start, end, aids), start);
}

interface PlaceOptions extends Pick<CopyPlace, 'folder' | 'processes' | 'keptFreeBytes'> {
  /** names it in metrics */
  readonly resource: string;
  /** of all processes together */
  readonly bytesMax: number;
}

/** The size of the file system bounds the shares too. */
function makePlace({ resource, bytesMax, ...place }: PlaceOptions): CopyPlace {
  const { blocks, bsize } = statfsSync(place.folder);
  const capacity = Math.floor(Math.min(bytesMax, (blocks * bsize) / 2) / place.processes);
  return { ...place, shares: new FairShares({ resource, capacity }), heldBytes: 0, writtenBytes: 0 };
}

/** Spare files exist before the copies that need them, so full memory never fails a response. */
function makeSparePlace(memory: Omit<PlaceOptions, 'resource' | 'bytesMax'>, slots: PieceSlots): CopyPlace {
  const resource = 'copied bytes in spares';
  // Preallocated memory for copies, used or not, of all processes of one server.
  const plain = makePlace({ ...memory, resource, bytesMax: 128 * 1024 * 1024 });
  const spares = new SpareFiles({
    folder: memory.folder,
    bytesMax: plain.shares.capacity,
    copiedBytes: () => place.heldBytes,
    hasRoom: (bytes) => hasRoom(place, bytes),
    isCopying: () => slots.isBusy,
  });
  const place: CopyPlace = { ...plain, spares };
  return place;
}

/** Copies hold at most as much of a file system as they leave free, so that readers never block writers. */
function hasRoom(place: CopyPlace, missingBytes: number): boolean {
  if (missingBytes === 0) return true;
  const heldBytes = place.heldBytes + missingBytes;
  const unwrittenBytes = heldBytes - place.writtenBytes;
  const spareBytes = readFreeBytes(place) - unwrittenBytes - place.keptFreeBytes();
  return spareBytes >= heldBytes * place.processes;
}

/** Makes the folder again if something removed it: it looks empty, and systems clean their temporary folders. Throws PlaceFailed. */
function readFreeBytes({ folder }: CopyPlace): number {
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER_MODE });
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch (error) {
    throw new PlaceFailed(`no copy can be made in ${folder}`, { cause: error });
  }
}

const shareUsedUp = (): ApiError =>
  exhausted(
    'the large answers that this Space is reading use up its share; read some to their end, then try again',
  );

const noRoom = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'too many large responses are still being sent to slow readers; retry later',
    {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    },
  );
