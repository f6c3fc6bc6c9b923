/** When each value was used last, kept in the tree every few minutes. An entry of ac/ counts as used before its outputs: it goes first. */

import type { TreeEdit, TreeItem } from '@holdfast/client/internal';
import { BIG_NS_PER_MS, groupsOf } from '@holdfast/protocol';
import type { CacheTree } from './cache-tree.ts';

/** Half of what a killed door may forget. */
const KEEP_MS = 5 * 60_000;

export class Uses {
  readonly #tree: CacheTree;
  readonly #used = new Map<string, number>();
  readonly #isReadOnly: boolean;
  #timer: NodeJS.Timeout | undefined;
  /** too many were to be kept, and are not yet */
  #isFull = false;

  /** `isReadOnly`: nothing is noted. */
  constructor(tree: CacheTree, isReadOnly: boolean) {
    this.#tree = tree;
    this.#isReadOnly = isReadOnly;
  }

  /** All of them at once. */
  note(paths: Iterable<string>): void {
    if (this.#isReadOnly) return;
    const now = Date.now();
    for (const path of paths) this.#used.set(path, now);
    // More uses than that are written into the tree at once.
    if (this.#used.size > 50_000 && !this.#isFull) {
      this.#isFull = true;
      void this.keep();
    }
    this.#timer ??= setTimeout(() => void this.keep(), KEEP_MS).unref();
  }

  /** ms */
  of(path: string, { mtimeNs }: Pick<TreeItem, 'mtimeNs'>): number {
    return Math.max(this.#used.get(path) ?? 0, msOf(mtimeNs));
  }

  forget(path: string): void {
    this.#used.delete(path);
  }

  /** Puts them into the tree. Uses that cannot be kept now are kept later. */
  async keep(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Outputs first: if only a part is kept, an entry is still not later than they are.
    const all = [...this.#used].sort(([a], [b]) => Number(a.startsWith('ac/')) - Number(b.startsWith('ac/')));
    for (const some of groupsOf(all, 1_000)) {
      try {
        await this.#tree.edits.inTurn(() => this.#keepSome(some));
      } catch {
        this.#timer ??= setTimeout(() => void this.keep(), KEEP_MS).unref();
        return;
      }
    }
    this.#isFull = false;
  }

  async #keepSome(some: readonly (readonly [string, number])[]): Promise<void> {
    await this.#tree.change(async () => {
      const edits: TreeEdit[] = [];
      for (const [path, at] of some) {
        const item = await this.#tree.find(path);
        if (item !== undefined && msOf(item.mtimeNs) < at) edits.push(timeEdit(path, at));
      }
      return edits;
    });
    for (const [path, at] of some) if (this.#used.get(path) === at) this.#used.delete(path);
  }
}

export function msOf(mtimeNs: bigint | undefined): number {
  return mtimeNs === undefined ? 0 : Number(mtimeNs / BIG_NS_PER_MS);
}

export function timeEdit(path: string, at: number): TreeEdit {
  return { op: 'time', path, mtimeNs: BigInt(at) * BIG_NS_PER_MS };
}
