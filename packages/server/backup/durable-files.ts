/** Files of a backup, durable before anything refers to them. */
import { closeSync, fchownSync, fdatasyncSync, fsyncSync, read, writeSync } from 'node:fs';
import type { HeldFolder } from '../deployment/held-folder.ts';

export class GrowingFile {
  readonly #fd: number;
  #unsynced = 0;

  constructor(folder: HeldFolder, name: string) {
    this.#fd = folder.create(name);
  }

  append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at, bytes.length - at);
    this.#unsynced += bytes.length;
    // One large fsync would delay every other writer to the disk.
    if (this.#unsynced < 4 * 1024 * 1024) return;
    fdatasyncSync(this.#fd);
    this.#unsynced = 0;
  }

  /** The bytes are durable when it returns; the name is not. */
  finish(): void {
    this.sync();
    this.close();
  }

  giveTo({ uid, gid }: { readonly uid: number; readonly gid: number }): void {
    fchownSync(this.#fd, uid, gid);
  }

  sync(): void {
    fsyncSync(this.#fd);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

/** The bytes are durable when it returns; the name is not. */
export function writeDurably(folder: HeldFolder, name: string, bytes: Uint8Array): void {
  const file = new GrowingFile(folder, name);
  file.append(bytes);
  file.finish();
}

const DRAFT_SUFFIX = '.new';

/** Durable when it returns; at each moment the former or the new file. It keeps its owner, so the server can read what root replaced. */
export function replaceDurably(folder: HeldFolder, name: string, bytes: Uint8Array): void {
  const former = folder.look(name);
  const file = new GrowingFile(folder, `${name}${DRAFT_SUFFIX}`);
  if (former !== undefined && former.uid !== process.getuid?.()) file.giveTo(former);
  file.append(bytes);
  file.finish();
  folder.rename(`${name}${DRAFT_SUFFIX}`, name);
  folder.sync();
}

/** The number of bytes read; 0 at the end. */
export const readPiece = (fd: number, piece: Uint8Array, position: number): Promise<number> =>
  new Promise((resolve, reject) =>
    read(fd, piece, 0, piece.length, position, (error, bytes) => (error ? reject(error) : resolve(bytes))),
  );
