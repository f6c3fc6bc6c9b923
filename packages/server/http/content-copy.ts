/** One object's content in a private file that grows piece by piece. Each piece is proven and written once. */

import type { Generation } from '../core/model.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import type { CopySource } from '../core/read/content-caller.ts';
import { closePrivateFile, createPrivateFile, type PrivateFile, writeAll } from '../runtime/private-file.ts';
import { discardSpare, type SpareFile, type SpareFiles } from '../runtime/spare-files.ts';
import type { FairShares, Hold } from '../shares/fair-shares.ts';

/** A folder whose file system holds copies. */
export interface CopyPlace {
  readonly folder: string;
  /** if set, copies here begin as spare files */
  readonly spares?: SpareFiles | undefined;
  /** bytes for the copies of this process */
  readonly shares: FairShares;
  /** bytes that must stay free on the file system, whatever else happens there */
  readonly keptFreeBytes: () => number;
  /** how many processes keep copies on this file system, by the same rules */
  readonly processes: number;
  /** bytes of all copies here, written or about to be */
  heldBytes: number;
  writtenBytes: number;
}

/** Canonical bytes [start, end) of an object. */
export interface Piece {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}

/** This file system cannot hold the copy or more of it; another one may. */
export class PlaceFailed extends Error {
  override readonly name = 'PlaceFailed';
}

export class ContentCopy {
  readonly place: CopyPlace;
  readonly generation: Generation;
  /** the version of the stored bytes, read before any of them */
  readonly version: string;
  /** responses that wait for the copy */
  users = 0;
  usedAt = 0;
  /** Offsets are those of the object; a header before the content is left as a hole. */
  readonly #file: PrivateFile;
  readonly #memory: Uint8Array | undefined;
  readonly #reserved = new Set<number>();
  /** pieces that are written, or being written */
  readonly #pieces = new Map<number, Promise<void>>();
  readonly #written = new Set<number>();
  #bringing = new AbortController();
  #underWay = 0;
  readonly #hold: Hold;
  #heldBytes = 0;
  #writtenBytes = 0;

  /** The copy takes over `hold`, the share for its first reservation. Throws PlaceFailed. */
  constructor(
    place: CopyPlace,
    { generation, offset, size }: CopySource,
    version: string,
    hold: Hold,
    spare?: SpareFile,
  ) {
    this.place = place;
    this.#hold = hold;
    this.generation = generation;
    this.version = version;
    this.#memory = spare?.memory;
    try {
      this.#file = spare?.file ?? createPrivateFile(place.folder, offset + size);
    } catch (error) {
      hold.release();
      throw new PlaceFailed(`no copy can be made in ${place.folder}`, { cause: error });
    }
  }

  /** Whether a response waits or a piece is being written. The file stays open then, because its descriptor could be reused. */
  get isBusy(): boolean {
    return this.users > 0 || this.#underWay > 0;
  }

  missingBytes(pieces: readonly Piece[]): number {
    return bytesOf(pieces.filter(({ index }) => !this.#reserved.has(index)));
  }

  /** Returns false if the share of the copy's Space is used up. */
  reserve(pieces: readonly Piece[]): boolean {
    const bytes = this.missingBytes(pieces);
    const more = this.#heldBytes + bytes - this.#hold.amount;
    if (more > 0 && !this.#hold.tryGrow(more)) return false;
    for (const { index } of pieces) this.#reserved.add(index);
    this.#heldBytes += bytes;
    this.place.heldBytes += bytes;
    return true;
  }

  /** Resolves when the piece is written, by this call or an earlier one. The next call tries a failed piece again. */
  put(piece: Piece, bring: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const known = this.#pieces.get(piece.index);
    if (known !== undefined) return known;
    this.#underWay += 1;
    const putting = bring(this.#bringing.signal).then(
      () => this.#noteWritten(piece),
      (error: unknown) => {
        this.#underWay -= 1;
        if (this.#pieces.get(piece.index) === putting) this.#pieces.delete(piece.index);
        throw error;
      },
    );
    this.#pieces.set(piece.index, putting);
    return putting;
  }

  /** Stops writing pieces, because no response waits. False: a piece is still being read into the copy, so nobody may use it. */
  abandon(): boolean {
    for (const index of this.#pieces.keys()) if (!this.#written.has(index)) this.#pieces.delete(index);
    this.#bringing.abort();
    this.#bringing = new AbortController();
    return this.#memory === undefined || this.#underWay === 0;
  }

  /** The piece's place in memory, if the file is mapped. Bytes read into it must be verified there or read again. */
  memoryOf({ index, end }: Piece): Uint8Array | undefined {
    return this.#memory?.subarray(index * CONTENT_PIECE_BYTES, end);
  }

  /** Proven canonical bytes from `position` on. Rejects with PlaceFailed. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    const isOwn = bytes.buffer === this.#memory?.buffer;
    if (isOwn && bytes.byteOffset === this.#memory?.byteOffset + position) return;
    try {
      await writeAll(this.#file, isOwn ? new Uint8Array(bytes) : bytes, position);
    } catch (error) {
      throw new PlaceFailed(`a copy could not be written in ${this.place.folder}`, { cause: error });
    }
  }

  /** Canonical bytes [start, end). The runtime opens the file when it sends it, which must be before `close`. */
  toBlob(start: number, end: number): Blob {
    return Bun.file(this.#file.path).slice(start, end);
  }

  /** `openings`: the result of `countOpenings`. */
  hasReaders(openings: ReadonlyMap<string, number>): boolean {
    return (openings.get(this.#file.identity) ?? 0) > 1;
  }

  /** Closes the file here; readers continue. Without readers the copy's memory is freed at once. */
  close(hasReaders: boolean): void {
    if (this.#memory === undefined || hasReaders) closePrivateFile(this.#file);
    else discardSpare({ file: this.#file });
    this.place.heldBytes -= this.#heldBytes;
    this.place.writtenBytes -= this.#writtenBytes;
    this.#hold.release();
  }

  #noteWritten({ index, start, end }: Piece): void {
    this.#underWay -= 1;
    if (this.#written.has(index)) return;
    this.#written.add(index);
    this.#writtenBytes += end - start;
    this.place.writtenBytes += end - start;
  }
}

/**
 * The pieces that hold content [start, end). Where the store fills memory they begin at whole numbers of it within the object, as
 * its checksums do. Elsewhere each is a request, so they begin with the content: 8 MiB behind a header are not five pieces.
 */
export function piecesOf(
  { offset, size, fillsScratch }: Pick<CopySource, 'offset' | 'size' | 'fillsScratch'>,
  start: number,
  end: number,
): readonly Piece[] {
  const base = fillsScratch ? 0 : offset;
  const first = Math.floor((offset + start - base) / CONTENT_PIECE_BYTES);
  const behind = Math.ceil((offset + end - base) / CONTENT_PIECE_BYTES);
  return Array.from({ length: behind - first }, (_, at) => {
    const from = base + (first + at) * CONTENT_PIECE_BYTES;
    return {
      index: first + at,
      start: Math.max(from, offset),
      end: Math.min(from + CONTENT_PIECE_BYTES, offset + size),
    };
  });
}

export function bytesOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { start, end }) => sum + end - start, 0);
}
