/** Removes values over the size or the age by one edit, the least recently used first. */
import { findText, type TreeEdit } from '@holdfast/client/internal';
import { tellAway } from '../door.ts';
import { type CacheTree, type Head, HeadMovedError, oldPath } from './cache-tree.ts';
import type { Uses } from './uses.ts';

export interface CacheLimits {
  readonly bytesMax?: number | undefined;
  readonly ageMsMax?: number | undefined;
}

interface Candidate {
  readonly path: string;
  readonly usedAt: number;
  readonly bytes: number;
}

/** Known at once; a larger tree is gone through again for the rest. */
const CANDIDATES_MAX = 20_000;
/** After a failure, and for what nobody told of. */
const LOOK_MS_MAX = 60_000;
const LOOK_MS_MIN = 1_000;

export class Eviction {
  readonly #tree: CacheTree;
  readonly #uses: Uses;
  readonly #limits: CacheLimits;
  /** The least lately used values when the tree was gone through; all others were used later. The last goes first. */
  #candidates: Candidate[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** of the timer */
  #nextAt = Number.POSITIVE_INFINITY;

  constructor(tree: CacheTree, uses: Uses, limits: CacheLimits) {
    this.#tree = tree;
    this.#uses = uses;
    this.#limits = limits;
  }

  /** Looks now, and soon after commits. */
  start(): void {
    const { bytesMax, ageMsMax } = this.#limits;
    if (bytesMax === undefined && ageMsMax === undefined) return;
    this.#tree.onCommit = () => this.#lookIn(LOOK_MS_MIN);
    void this.#tree.edits.inTurn(() => this.#look());
  }

  /** In the turn of the commits. */
  async #look(): Promise<void> {
    let nextMs = LOOK_MS_MAX;
    try {
      nextMs = await this.#evict();
    } catch (error) {
      if (!(error instanceof HeadMovedError))
        tellAway(error instanceof Error ? error.message : String(error), 'nothing is evicted meanwhile');
      nextMs = LOOK_MS_MIN;
    }
    this.#lookIn(Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, nextMs)));
  }

  /** At the latest: commits that follow each other share one look. */
  #lookIn(waitMs: number): void {
    const at = performance.now() + waitMs;
    if (at >= this.#nextAt) return;
    clearTimeout(this.#timer);
    this.#nextAt = at;
    const look = (): void => {
      this.#nextAt = Number.POSITIVE_INFINITY;
      void this.#tree.edits.inTurn(() => this.#look());
    };
    this.#timer = setTimeout(look, waitMs).unref();
  }

  /** How long nothing will be too old, ms. */
  async #evict(): Promise<number> {
    const { bytesMax = Number.POSITIVE_INFINITY, ageMsMax = Number.POSITIVE_INFINITY } = this.#limits;
    for (let attempt = 1; ; attempt += 1) {
      let head = await this.#tree.head(attempt === 1 ? undefined : 0);
      if (head.bytes > bytesMax) {
        // A value that was put again lies twice until what is new has moved.
        await this.#tree.apply([], head);
        head = await this.#tree.head();
      }
      const oldest = Date.now() - ageMsMax;
      const gone: Candidate[] = [];
      let excess = head.bytes - bytesMax;
      let next: Candidate | undefined;
      while (gone.length < CANDIDATES_MAX) {
        const isAsked = excess > 0 || ageMsMax !== Number.POSITIVE_INFINITY;
        next = isAsked ? await this.#next(head, gone) : undefined;
        if (next === undefined || (excess <= 0 && next.usedAt >= oldest)) break;
        gone.push(next);
        excess -= next.bytes;
        next = undefined;
      }
      if (next !== undefined) this.#candidates.push(next);
      if (gone.length === 0) return next === undefined ? ageMsMax : next.usedAt - oldest;
      try {
        await this.#tree.apply(
          gone.map(({ path }): TreeEdit => ({ op: 'remove', path })),
          head,
        );
        for (const { path } of gone) this.#uses.forget(path);
      } catch (error) {
        this.#candidates = [];
        if (!(error instanceof HeadMovedError) || attempt === 5) throw error;
      }
    }
  }

  /** The value that goes next, taken from the candidates. */
  async #next(head: Head, gone: readonly Candidate[]): Promise<Candidate | undefined> {
    for (let isFresh = false; ; ) {
      const known = this.#candidates.pop();
      if (known !== undefined) {
        const item = await this.#tree.find(known.path);
        if (item !== undefined && this.#uses.of(known.path, item) === known.usedAt) return known;
      } else if (isFresh) return undefined;
      else {
        await this.#goThrough(head, new Set(gone.map(({ path }) => path)));
        isFresh = true;
      }
    }
  }

  async #goThrough(head: Head, gone: ReadonlySet<string>): Promise<void> {
    const found: Candidate[] = [];
    const cut = (): void => {
      found.sort(compare);
      found.length = Math.min(found.length, CANDIDATES_MAX);
    };
    for (const [name, folder] of await this.#tree.folders(head)) {
      for await (const entry of this.#tree.reader.readDirectory(folder)) {
        const path = oldPath(`${name}/${findText(entry.name)}`);
        if (entry.kind !== 'file' || gone.has(path)) continue;
        found.push({ path, usedAt: this.#uses.of(path, entry), bytes: entry.bytes });
        if (found.length >= 2 * CANDIDATES_MAX) cut();
      }
    }
    cut();
    this.#candidates = found.reverse();
  }
}

/** An entry of ac/ goes before outputs that were used at the same time. */
function compare(a: Candidate, b: Candidate): number {
  return a.usedAt - b.usedAt || Number(b.path.startsWith('ac/')) - Number(a.path.startsWith('ac/'));
}
