/**
 * The files that large answers are sent from. An answer must send what was proven, and must have a length. But the runtime frames a
 * stream in chunks, and sends a file as it is at that time. So an object that is a file is proven and sent as it lies. Other content
 * is put into a private copy. Pieces are brought side by side, and an answer begins when all of its pieces are proven.
 *
 * All readers of an object share one file, which counts until the runtime has closed it for its last reader. If the disk has no
 * room for a copy, the copy lies in the system's memory.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import type { ContentSource } from '../core/content-caller.ts';
import type { Generation, Space } from '../core/model.ts';
import type { ObjectFile } from '../core/object-file.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import { exhausted } from '../shares/exhausted.ts';
import { FairQueue } from '../shares/fair-queue.ts';
import type { Hold } from '../shares/fair-shares.ts';
import {
  COPIED_BYTES_MAX,
  COPIED_IN_MEMORY_BYTES_MAX,
  PIECES_MAX,
  PIECES_OF_ANSWER_MAX,
  SENT_OBJECT_BYTES_MAX,
  SHED_RETRY_AFTER_SECONDS,
} from './http-limits.ts';
import { makePrivateCopy } from './private-copy.ts';
import { type ByteFile, bytesOf, countOpenings, piecesOf, SentFile } from './sent-file.ts';
import { hasRoom, makeCopyPlace, makeObjectPlace, PlaceFailed, type SentPlace } from './sent-place.ts';

/** The request that waits for content. */
export interface SendWatch {
  /** whose share the file is held out of */
  readonly space: Space;
  /** aborts when nobody waits any more */
  readonly signal: AbortSignal;
  /** called for every piece, so that the connection of a waiting request does not count as dead */
  onProgress(): void;
}

/** a file without readers and requests is let go of after this long */
const IDLE_MS_MAX = 5_000;
/** the runtime opens a file in the turn in which the answer is handed over; until then it stays open here */
const OPENABLE_MS_MIN = 250;
/** between looks at who still reads; the cost of a look grows with the open files of the process */
const LOOK_MS = 500;
const MEMORY_FOLDER = '/dev/shm';
/** how long an answer waits for its share, and between looks */
const SHARE_WAIT_MS_MAX = 1000;
const SHARE_LOOK_MS = 250;
const SCRATCHES_KEPT_MAX = 8;
/** An object that changes while it is proven is proven again, this many times in all. */
const PROOFS_MAX = 3;

class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

interface Wanted {
  readonly source: ContentSource;
  /** content [start, end) */
  readonly start: number;
  readonly end: number;
  readonly watch: SendWatch;
  /** of the stored bytes */
  readonly version: string;
  /** the object, if it is a file */
  readonly object: ByteFile | undefined;
}

export class SentFiles {
  readonly #copyPlaces: readonly SentPlace[];
  readonly #objectPlace: SentPlace;
  /** the files that further answers may share */
  readonly #shared = new Map<Generation, SentFile>();
  readonly #files = new Map<ByteFile, SentFile>();
  readonly #lanes = new Lanes(PIECES_MAX);
  readonly #timer: ReturnType<typeof setInterval>;
  #lookedAt = Number.NEGATIVE_INFINITY;

  /** `folder` belongs to this process alone: files that an earlier process left in it are removed. */
  static async open(
    folder: string,
    {
      bytesMax = COPIED_BYTES_MAX,
      objectBytesMax = SENT_OBJECT_BYTES_MAX,
      memoryFolder = MEMORY_FOLDER,
      processes = 1,
      keptFreeBytes = (): number => 0,
    } = {},
  ): Promise<SentFiles> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
    const disk = {
      resource: 'copied bytes',
      folder: await realpath(folder),
      bytesMax,
      processes,
      keptFreeBytes,
    };
    const places = [makeCopyPlace(disk)];
    if (existsSync(memoryFolder)) {
      const bytesMax = COPIED_IN_MEMORY_BYTES_MAX;
      const resource = 'copied bytes in memory';
      places.push(
        makeCopyPlace({ resource, folder: memoryFolder, bytesMax, processes, keptFreeBytes: () => 0 }),
      );
    }
    return new SentFiles(places, makeObjectPlace(Math.floor(objectBytesMax / processes)));
  }

  private constructor(copyPlaces: readonly SentPlace[], objectPlace: SentPlace) {
    this.#copyPlaces = copyPlaces;
    this.#objectPlace = objectPlace;
    this.#timer = setInterval(() => this.#forgetIdle(IDLE_MS_MAX), IDLE_MS_MAX);
    this.#timer.unref();
  }

  /** bytes of all these files, proven or about to be */
  get heldBytes(): number {
    const places = [this.#objectPlace, ...this.#copyPlaces];
    return places.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  }

  /**
   * Content [start, end) as a file, to be handed to the runtime in this turn. Rejects with the error of reading or of the disk,
   * with 503 if there is no room at all, with 429 if the share of the Space is used up, or when the caller goes away.
   */
  async take(source: ContentSource, start: number, end: number, watch: SendWatch): Promise<Blob> {
    for (let proof = 0; proof < PROOFS_MAX; proof += 1) {
      const opened = await source.openFile();
      const object = opened && sendAsItLies(opened, source);
      try {
        const version = opened?.version ?? (await source.getVersion());
        const blob = await this.#takeAsItIs({ source, start, end, watch, version, object });
        if (blob !== undefined) return blob;
      } finally {
        if (object !== undefined && !this.#files.has(object)) object.close();
      }
    }
    throw new ApiError(
      'SERVICE_UNAVAILABLE',
      'the stored file of this node is changing; repeat the request',
      {
        retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
      },
    );
  }

  close(): void {
    clearInterval(this.#timer);
    for (const file of this.#files.values()) if (!file.isBusy) this.#forget(file);
  }

  /** `undefined`: the object has changed since it was opened. */
  async #takeAsItIs(wanted: Wanted): Promise<Blob | undefined> {
    const { watch, object } = wanted;
    const patienceEndsAt = performance.now() + SHARE_WAIT_MS_MAX;
    for (;;) {
      let failure: unknown = noRoom();
      for (const place of object === undefined ? this.#copyPlaces : [this.#objectPlace]) {
        try {
          const file = this.#reserve(place, wanted);
          if (file === 'share used up') failure = shareUsedUp();
          else if (file !== undefined) return await this.#fill(file, wanted);
        } catch (error) {
          if (!(error instanceof PlaceFailed)) throw error;
          failure = error.cause;
        }
      }
      const isShort = failure instanceof ApiError && failure.code === 'RESOURCE_EXHAUSTED';
      if (!isShort || performance.now() >= patienceEndsAt || watch.signal.aborted) throw failure;
      await Bun.sleep(SHARE_LOOK_MS);
    }
  }

  /** `undefined`: there is no room for these pieces, or the copy lies elsewhere. Throws PlaceFailed. */
  #reserve(place: SentPlace, wanted: Wanted): SentFile | 'share used up' | undefined {
    const { source, start, end, version, watch } = wanted;
    const { generation, size } = source;
    // A stalled reader keeps all of an object on the disk, once it was deleted.
    const pieces = place === this.#objectPlace ? piecesOf(source, 0, size) : piecesOf(source, start, end);
    // The stored bytes have changed since this file was opened: only answers that began before may use it.
    if (this.#shared.get(generation)?.version !== version) this.#shared.delete(generation);
    let file = this.#shared.get(generation);
    if (file !== undefined && file.place !== place) return undefined;
    if (!hasRoom(place, file?.missingBytes(pieces) ?? bytesOf(pieces))) {
      this.#forgetIdle(OPENABLE_MS_MIN);
      file = this.#shared.get(generation);
      if (!hasRoom(place, file?.missingBytes(pieces) ?? bytesOf(pieces))) return undefined;
    }
    if (file === undefined) {
      const hold = this.#takeShare(place, watch.space, bytesOf(pieces));
      if (hold === undefined) return 'share used up';
      file = makeSentFile(place, wanted, hold);
      this.#shared.set(generation, file);
      this.#files.set(file.file, file);
    }
    return file.reserve(pieces) ? file : 'share used up';
  }

  /** Files that nobody reads any more are kept for a while: they give way first. */
  #takeShare({ shares }: SentPlace, { appId, spaceId }: Space, bytes: number): Hold | undefined {
    const hold = shares.tryAcquire(appId, spaceId, bytes);
    if (hold !== undefined) return hold;
    this.#forgetIdle(OPENABLE_MS_MIN);
    return shares.tryAcquire(appId, spaceId, bytes);
  }

  /** `undefined`: the file has changed, so what was proven may be so no longer. */
  async #fill(file: SentFile, { source, start, end, watch }: Wanted): Promise<Blob | undefined> {
    const pieces = piecesOf(source, start, end).values();
    const gone = Promise.withResolvers<never>();
    const leave = (): void => gone.reject(new CallerGone('the caller went away before its answer'));
    let isOver = false;
    file.users += 1;
    watch.signal.addEventListener('abort', leave, { once: true });
    if (watch.signal.aborted) leave();
    try {
      const bringAll = async (): Promise<void> => {
        for (const piece of pieces) {
          if (isOver) return;
          await file.put(piece, source, (work) => this.#lanes.run(watch.space, work));
          watch.onProgress();
        }
      };
      const all = Promise.all(Array.from({ length: PIECES_OF_ANSWER_MAX }, bringAll));
      await Promise.race([gone.promise, all]);
      if (file.isUnchanged) return file.toBlob(start, end);
      this.#unshare(file);
      return undefined;
    } catch (error) {
      // The next request makes a new copy, perhaps in another place.
      if (error instanceof PlaceFailed) this.#unshare(file);
      throw error;
    } finally {
      isOver = true;
      watch.signal.removeEventListener('abort', leave);
      file.users -= 1;
      if (file.users === 0) file.abandon();
      file.usedAt = performance.now();
    }
  }

  /** Lets go of files without readers. The runtime does not report that it has sent a file, but closes it then. */
  #forgetIdle(idleMs: number): void {
    const now = performance.now();
    const idle = [...this.#files.values()].filter(({ isBusy, usedAt }) => !isBusy && now - usedAt >= idleMs);
    if (idle.length === 0 || now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const openings = countOpenings();
    // An object that has changed is open here more than once.
    const ownOpenings = Map.groupBy(this.#files.values(), ({ identity }) => identity);
    for (const file of idle) {
      const own = ownOpenings.get(file.identity)?.length ?? 0;
      if ((openings.get(file.identity) ?? 0) <= own) this.#forget(file);
    }
  }

  #unshare(file: SentFile): void {
    if (this.#shared.get(file.generation) === file) this.#shared.delete(file.generation);
  }

  #forget(file: SentFile): void {
    this.#unshare(file);
    this.#files.delete(file.file);
    file.close();
  }
}

/** The hold is the file's from now on. Throws PlaceFailed. */
function makeSentFile(place: SentPlace, { source, version, object }: Wanted, hold: Hold): SentFile {
  const { generation } = source;
  try {
    const file = place.copies === undefined ? object : makePrivateCopy(place.copies.folder, source.size);
    return new SentFile({ place, generation, version, file: file as ByteFile, hold });
  } catch (error) {
    hold.release();
    throw error;
  }
}

function sendAsItLies(object: ObjectFile, { offset }: ContentSource): ByteFile {
  return {
    path: object.path,
    contentAt: offset,
    read: object.read,
    isUnchanged: object.isUnchanged,
    close: object.close,
  };
}

const shareUsedUp = (): ApiError =>
  exhausted(
    'the large answers that this Space is reading use up its share; read some to their end, then try again',
  );

const noRoom = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'large answers wait for slow readers; repeat the request', {
    retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
  });

/** Bounds the pieces that are brought at once, each with memory of its own. Others wait, and Apps and their Spaces take turns. */
class Lanes {
  #free: number;
  readonly #waiting = new FairQueue<() => void>();
  /** Kept, because new memory costs three times as much as the reading: the system clears it page by page. */
  readonly #scratches: Uint8Array[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run({ appId, spaceId }: Space, work: (scratch: Uint8Array) => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(appId, spaceId, 1, resolve));
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
