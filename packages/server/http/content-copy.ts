/** One object's content in a private file that grows piece by piece. Each piece is proven and written once. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { CopySource } from '../core/content-caller.ts';
import type { Generation } from '../core/model.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import type { FairShares, Hold } from '../shares/fair-shares.ts';

/** A folder whose file system holds copies. */
export interface CopyPlace {
  readonly folder: string;
  /** out of which the copies of this process are made, in bytes */
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

/** This file system cannot take a copy, or more of it: another one may. */
export class PlaceFailed extends Error {
  override readonly name = 'PlaceFailed';
}

const CAN_OPEN_DESCRIPTORS = process.platform === 'linux';
const DESCRIPTORS = '/proc/self/fd';

export class ContentCopy {
  readonly place: CopyPlace;
  readonly generation: Generation;
  /** the version of the stored bytes, read before any of them */
  readonly version: string;
  /** answers that wait for the copy */
  users = 0;
  usedAt = 0;
  readonly #fd: number;
  readonly #path: string;
  readonly #identity: string;
  readonly #reserved = new Set<number>();
  /** pieces that are written, or being written */
  readonly #pieces = new Map<number, Promise<void>>();
  readonly #written = new Set<number>();
  #bringing = new AbortController();
  #underWay = 0;
  readonly #hold: Hold;
  #heldBytes = 0;
  #writtenBytes = 0;

  /** `hold` is the copy's from now on: the share of all that it will reserve first. Throws PlaceFailed. */
  constructor(place: CopyPlace, { generation, size }: CopySource, version: string, hold: Hold) {
    this.place = place;
    this.#hold = hold;
    this.generation = generation;
    this.version = version;
    const path = join(place.folder, `holdfast-${crypto.randomUUID()}`);
    let fd: number | undefined;
    try {
      fd = fs.openSync(path, 'wx+', 0o600);
      if (CAN_OPEN_DESCRIPTORS) fs.unlinkSync(path);
      // The parts of the file that are not written yet take no room.
      fs.ftruncateSync(fd, size);
      this.#identity = identityOf(fd);
      this.#fd = fd;
    } catch (error) {
      hold.release();
      if (fd !== undefined) fs.closeSync(fd);
      fs.rmSync(path, { force: true });
      throw new PlaceFailed(`no copy can be made in ${place.folder}`, { cause: error });
    }
    this.#path = CAN_OPEN_DESCRIPTORS ? `${DESCRIPTORS}/${this.#fd}` : path;
  }

  /**
   * Whether an answer waits or a piece is being written. Then the file stays open: its descriptor could become another file's.
   */
  get isBusy(): boolean {
    return this.users > 0 || this.#underWay > 0;
  }

  missingBytes(pieces: readonly Piece[]): number {
    return bytesOf(pieces.filter(({ index }) => !this.#reserved.has(index)));
  }

  /** False: the share of the copy's Space is used up. */
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

  /** Ends the writing of pieces, because no answer waits any more. */
  abandon(): void {
    for (const index of this.#pieces.keys()) if (!this.#written.has(index)) this.#pieces.delete(index);
    this.#bringing.abort();
    this.#bringing = new AbortController();
  }

  /** Bytes of the content from `position` on. Rejects with PlaceFailed. */
  async write(bytes: Uint8Array, position: number): Promise<void> {
    try {
      for (let written = 0; written < bytes.length; ) {
        written += await writeFd(this.#fd, bytes, written, position + written);
      }
    } catch (error) {
      throw new PlaceFailed(`a copy could not be written in ${this.place.folder}`, { cause: error });
    }
  }

  /** Content [start, end). The runtime opens the file when it sends it, which must be before `close`. */
  toBlob(start: number, end: number): Blob {
    return Bun.file(this.#path).slice(start, end);
  }

  /** `openings`: the result of `countOpenings`. */
  hasReaders(openings: ReadonlyMap<string, number>): boolean {
    return (openings.get(this.#identity) ?? 0) > 1;
  }

  /** Closes the file here; the runtime can still read a file that it has opened. */
  close(): void {
    fs.closeSync(this.#fd);
    if (!CAN_OPEN_DESCRIPTORS) fs.rmSync(this.#path, { force: true });
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

/** The pieces that hold content [start, end). */
export function piecesOf({ offset, size }: CopySource, start: number, end: number): readonly Piece[] {
  const first = Math.floor((offset + start) / CONTENT_PIECE_BYTES);
  const behind = Math.ceil((offset + end) / CONTENT_PIECE_BYTES);
  return Array.from({ length: behind - first }, (_, at) => {
    const from = (first + at) * CONTENT_PIECE_BYTES;
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

/** How often this process has each file open; empty if the system does not tell. */
export function countOpenings(): ReadonlyMap<string, number> {
  const openings = new Map<string, number>();
  for (const name of CAN_OPEN_DESCRIPTORS ? fs.readdirSync(DESCRIPTORS) : []) {
    try {
      const identity = identityOf(Number(name));
      openings.set(identity, (openings.get(identity) ?? 0) + 1);
    } catch (error) {
      // The descriptor was closed after it was listed.
      if ((error as { code?: unknown }).code !== 'EBADF') throw error;
    }
  }
  return openings;
}

function identityOf(fd: number): string {
  const { dev, ino } = fs.fstatSync(fd);
  return `${dev}:${ino}`;
}

function writeFd(fd: number, bytes: Uint8Array, from: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, from, bytes.length - from, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}
