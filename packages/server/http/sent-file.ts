/** A file that answers about one object are sent from, and which of its pieces are proven. Each piece is proven once. */
import * as fs from 'node:fs';
import type { ContentSource } from '../core/content-caller.ts';
import type { Generation } from '../core/model.ts';
import type { ReadAids } from '../core/object-file.ts';
import { CONTENT_PIECE_BYTES } from '../core/ports.ts';
import type { Hold } from '../shares/fair-shares.ts';
import type { SentPlace } from './sent-place.ts';

/** Canonical bytes [start, end) of an object. */
export interface Piece {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}

/** What holds the bytes of an object: the object's own file, or a private copy. */
export interface ByteFile {
  /** The runtime opens this file anew when it sends it, which must be before `close`. */
  readonly path: string;
  /** where the content begins in the file */
  readonly contentAt: number;
  /** proven bytes of the object that this file is; undefined: they come from elsewhere, and `write` puts them here */
  readonly read?: ContentSource['read'];
  /** Puts proven bytes at `position` of the content. */
  write?(bytes: Uint8Array, position: number): Promise<void>;
  /** false: the file has changed since it was opened */
  isUnchanged(): boolean;
  /** Closes the file here; the runtime can still read a file that it has opened. */
  close(): void;
}

interface SentFileOptions {
  readonly place: SentPlace;
  readonly generation: Generation;
  /** of the stored bytes, before any of them was read */
  readonly version: string;
  readonly file: ByteFile;
  /** the share of all that is reserved first; released with the file */
  readonly hold: Hold;
}

const DESCRIPTORS = '/proc/self/fd';

export class SentFile {
  readonly place: SentPlace;
  readonly generation: Generation;
  readonly version: string;
  readonly file: ByteFile;
  /** which file it is, under any path */
  readonly identity: string;
  /** answers that wait for pieces */
  users = 0;
  usedAt = 0;
  readonly #hold: Hold;
  readonly #reserved = new Set<number>();
  /** pieces that are proven, or under way */
  readonly #pieces = new Map<number, Promise<void>>();
  readonly #proven = new Set<number>();
  #bringing = new AbortController();
  #underWay = 0;
  #heldBytes = 0;
  #provenBytes = 0;

  constructor({ place, generation, version, file, hold }: SentFileOptions) {
    this.place = place;
    this.generation = generation;
    this.version = version;
    this.identity = identityOf(fs.statSync(file.path));
    this.file = file;
    this.#hold = hold;
  }

  /**
   * Whether an answer waits or a piece is under way. Then the file stays open: its descriptor could become another file's.
   */
  get isBusy(): boolean {
    return this.users > 0 || this.#underWay > 0;
  }

  get isUnchanged(): boolean {
    return this.file.isUnchanged();
  }

  missingBytes(pieces: readonly Piece[]): number {
    return bytesOf(pieces.filter(({ index }) => !this.#reserved.has(index)));
  }

  /** False: the share of the file's Space is used up. */
  reserve(pieces: readonly Piece[]): boolean {
    const bytes = this.missingBytes(pieces);
    const more = this.#heldBytes + bytes - this.#hold.amount;
    if (more > 0 && !this.#hold.tryGrow(more)) return false;
    for (const { index } of pieces) this.#reserved.add(index);
    this.#heldBytes += bytes;
    this.place.heldBytes += bytes;
    return true;
  }

  /**
   * Resolves when the piece is proven and lies in the file, by this call or an earlier one; `run` gives memory in turn. The next call
   * tries a failed piece again.
   */
  put(
    piece: Piece,
    source: ContentSource,
    run: (work: (scratch: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const known = this.#pieces.get(piece.index);
    if (known !== undefined) return known;
    this.#underWay += 1;
    const { signal } = this.#bringing;
    const putting = run((scratch) => this.#bring(piece, source, { scratch, signal })).then(
      () => this.#noteProven(piece),
      (error: unknown) => {
        this.#underWay -= 1;
        if (this.#pieces.get(piece.index) === putting) this.#pieces.delete(piece.index);
        throw error;
      },
    );
    this.#pieces.set(piece.index, putting);
    return putting;
  }

  /** Ends what is under way, because no answer waits any more. */
  abandon(): void {
    for (const index of this.#pieces.keys()) if (!this.#proven.has(index)) this.#pieces.delete(index);
    this.#bringing.abort();
    this.#bringing = new AbortController();
  }

  /** Content [start, end). The runtime opens the file when it sends it, which must be before `close`. */
  toBlob(start: number, end: number): Blob {
    const { path, contentAt } = this.file;
    return Bun.file(path).slice(contentAt + start, contentAt + end);
  }

  close(): void {
    this.file.close();
    this.place.heldBytes -= this.#heldBytes;
    this.place.provenBytes -= this.#provenBytes;
    this.#hold.release();
  }

  async #bring({ start, end }: Piece, source: ContentSource, aids: Required<ReadAids>): Promise<void> {
    // The requests that wanted this piece may have gone while it waited for its turn.
    aids.signal.throwIfAborted();
    const read = this.file.read ?? source.read;
    const bytes = await read(start, end, aids);
    if (bytes.length !== end - start) {
      throw new Error(`${end - start} bytes of content came as ${bytes.length}`);
    }
    await this.file.write?.(bytes, start - source.offset);
  }

  #noteProven({ index, start, end }: Piece): void {
    this.#underWay -= 1;
    if (this.#proven.has(index)) return;
    this.#proven.add(index);
    this.#provenBytes += end - start;
    this.place.provenBytes += end - start;
  }
}

/** The pieces that hold content [start, end). */
export function piecesOf({ offset, size }: ContentSource, start: number, end: number): readonly Piece[] {
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
  for (const name of process.platform === 'linux' ? fs.readdirSync(DESCRIPTORS) : []) {
    try {
      const identity = identityOf(fs.fstatSync(Number(name)));
      openings.set(identity, (openings.get(identity) ?? 0) + 1);
    } catch (error) {
      // The descriptor was closed after it was listed.
      if ((error as { code?: unknown }).code !== 'EBADF') throw error;
    }
  }
  return openings;
}

function identityOf({ dev, ino }: fs.Stats): string {
  return `${dev}:${ino}`;
}
