/** Folders that are held open, each reached through the descriptor of the one above it. The one used least recently is closed first. */
import { closeSync, constants, readFileSync } from 'node:fs';

const LIMITS = '/proc/self/limits';
/** The limit of systems that do not tell it in a file: the least that is common. */
const LIMIT_UNKNOWN = 256;

/** A share of the limit, as `1 / part`, but no more than `most`. */
export function shareOfDescriptors(part: number, most: number): number {
  limit ??= findLimit();
  return Math.max(8, Math.min(most, Math.floor(limit / part)));
}

/** It does not change while the process runs. */
let limit: number | undefined;

function findLimit(): number {
  try {
    const found = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync(LIMITS, 'utf8'))?.[1];
    if (found === 'unlimited') return Number.POSITIVE_INFINITY;
    return found === undefined ? LIMIT_UNKNOWN : Number(found);
  } catch {
    return LIMIT_UNKNOWN;
  }
}

export const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface OpenFoldersOptions<Path> {
  /** of the root */
  readonly descriptor: number;
  /** Descriptors that are kept open; folders beyond it are opened again when they are needed. */
  readonly openMax: number;
  /** The folder above; undefined for one right in the root. */
  readonly parentOf: (path: Path) => Path | undefined;
  /** Opens a folder through the descriptor of the one above it. */
  readonly open: (parent: number, path: Path) => number;
  /** Closes the descriptor, at once when left out. */
  readonly drop?: ((descriptor: number) => void) | undefined;
}

export class OpenFolders<Path> {
  readonly #options: OpenFoldersOptions<Path>;
  /** Folders may hold one in eight of the process's descriptors. */
  readonly #openMax: number;
  /** the one used last is last */
  readonly #open = new Map<Path, number>();
  #last: { readonly path: Path; readonly descriptor: number } | undefined;

  constructor(options: OpenFoldersOptions<Path>) {
    this.#options = options;
    this.#openMax = shareOfDescriptors(8, options.openMax);
  }

  /** To be used at once: a descriptor may mean another folder once it is dropped. Undefined is the root. */
  descriptorOf(path: Path | undefined): number {
    if (path !== undefined && this.#last?.path === path) return this.#last.descriptor;
    const closed: Path[] = [];
    let at = path;
    for (; at !== undefined; at = this.#options.parentOf(at)) {
      if (this.#open.has(at)) break;
      closed.push(at);
    }
    let descriptor =
      at === undefined ? this.#options.descriptor : this.#use(at, this.#open.get(at) as number);
    for (const next of closed.reverse()) descriptor = this.#use(next, this.#openBelow(descriptor, next));
    return descriptor;
  }

  /** Closes the root too. */
  close(): void {
    for (const descriptor of this.#open.values()) closeSync(descriptor);
    this.#open.clear();
    this.#last = undefined;
    closeSync(this.#options.descriptor);
  }

  #use(path: Path, descriptor: number): number {
    this.#open.delete(path);
    this.#open.set(path, descriptor);
    this.#last = { path, descriptor };
    return descriptor;
  }

  #openBelow(parent: number, path: Path): number {
    const { open, drop = closeSync } = this.#options;
    const descriptor = open(parent, path);
    // The dropped folder is not `parent`: that one was used last.
    for (const [oldest, held] of this.#open) {
      if (this.#open.size < this.#openMax) break;
      this.#open.delete(oldest);
      drop(held);
    }
    return descriptor;
  }
}
