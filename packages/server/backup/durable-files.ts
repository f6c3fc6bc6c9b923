/** Files of a backup, written so that they are on disk before anything names them. */
import { closeSync, fdatasyncSync, fsyncSync, openSync, writeSync } from 'node:fs';

const PRIVATE_MODE = 0o600;
/** An fsync of much at once holds up everybody who writes to the disk. */
const SYNC_BYTES = 4 * 1024 * 1024;

/** A new file that is written from its beginning to its end. */
export class GrowingFile {
  readonly #fd: number;
  #unsynced = 0;

  constructor(path: string) {
    this.#fd = openSync(path, 'w', PRIVATE_MODE);
  }

  append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at, bytes.length - at);
    this.#unsynced += bytes.length;
    if (this.#unsynced < SYNC_BYTES) return;
    fdatasyncSync(this.#fd);
    this.#unsynced = 0;
  }

  /** Durable when it returns, but for its name. */
  finish(): void {
    fsyncSync(this.#fd);
    this.close();
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** Durable when it returns, but for its name. */
export function writeDurably(path: string, bytes: Uint8Array): void {
  const file = new GrowingFile(path);
  file.append(bytes);
  file.finish();
}

export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
