/** The least that one core and this disk need: SHA-256 of a file, and writing the same bytes with an fsync. */
import { closeSync, fsyncSync, openSync, readSync, rmSync, writeSync } from 'node:fs';

const PIECE_BYTES = 4 * 1024 * 1024;

export interface HashAndWriteResult {
  /** reading from the page cache and SHA-256 */
  readonly hashMs: number;
  /** writing to a new file and one fsync of it */
  readonly writeMs: number;
  readonly bytes: number;
}

/** `target` is made and removed. */
export function hashAndWrite(path: string, target: string): HashAndWriteResult {
  const piece = new Uint8Array(PIECE_BYTES);
  const file = openSync(path, 'r');
  const copy = openSync(target, 'w');
  const hasher = new Bun.CryptoHasher('sha256');
  let bytes = 0;
  try {
    const hashedFrom = performance.now();
    for (let length = readSync(file, piece); length > 0; length = readSync(file, piece)) {
      hasher.update(piece.subarray(0, length));
    }
    hasher.digest();
    const hashMs = performance.now() - hashedFrom;
    let writeMs = 0;
    for (;;) {
      const length = readSync(file, piece, 0, piece.length, bytes);
      const startedAt = performance.now();
      if (length === 0) fsyncSync(copy);
      else writeSync(copy, piece, 0, length);
      writeMs += performance.now() - startedAt;
      if (length === 0) return { hashMs, writeMs, bytes };
      bytes += length;
    }
  } finally {
    closeSync(file);
    closeSync(copy);
    rmSync(target);
  }
}
