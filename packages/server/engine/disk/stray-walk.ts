/** Walks over all objects of the content folder in bounded steps, and deletes strays: crashes leave some between sealing and recording. */

import { isGeneration } from '../../core/generation.ts';
import type { Generation } from '../../core/model.ts';
import { findStrays, STRAY_AGE_MS } from '../../core/stray-watch.ts';
import type { FindKnown, WalkKeeper } from '../../core/upkeep-ports.ts';
import { type DurableNamesOptions, removeObject } from './durable-names.ts';
import { ANY_SPACE } from './object-layout.ts';

/** objects whose records one step looks for */
const OBJECTS_PER_STEP_MAX = 256;

interface StrayWalkOptions extends DurableNamesOptions {
  /** rejects unless the folder belongs to these rows: in another one every object looks like a stray */
  readonly assertHealthy: (generation: Generation) => Promise<void>;
}

export class DiskStrayWalk {
  readonly #options: StrayWalkOptions;
  readonly #folders: readonly string[];
  #foldersListed: number;
  /** the place that another process left was looked for */
  #isResumed = false;
  #listed: readonly Generation[] = [];
  #startedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StrayWalkOptions) {
    this.#options = options;
    this.#folders = options.layout.shards();
    this.#foldersListed = this.#folders.length;
  }

  /** `now`: ms, by the clock that named the generations. A folder or an object that fails does not hold up the others. */
  async step(findKnown: FindKnown, now: number, walk?: WalkKeeper): Promise<void> {
    if (walk !== undefined && !this.#isResumed) {
      this.#isResumed = true;
      this.#resume(await walk.readPlace());
    }
    if (this.#isOver()) {
      // A walk begins an hour after the one before it began.
      if (Math.abs(now - this.#startedAt) < 3_600_000) return;
      this.#startedAt = now;
      this.#foldersListed = 0;
    }
    await this.#list();
    const page = this.#listed.slice(0, OBJECTS_PER_STEP_MAX);
    const keys = page.map((generation) => ({ spaceKey: ANY_SPACE, generation }));
    const strays = await findStrays(keys, now - STRAY_AGE_MS, walk?.findKept ?? findKnown);
    const [first] = strays;
    if (first !== undefined) await this.#options.assertHealthy(first.generation);
    this.#listed = this.#listed.slice(page.length);
    // A folder that was listed in part is listed again.
    if (this.#listed.length === 0)
      await walk?.notePlace(this.#isOver() ? undefined : String(this.#foldersListed));
    let failure: unknown;
    for (const { generation } of strays) {
      try {
        await removeObject(this.#options, generation);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  /** A text that is no place begins a new walk. */
  #resume(place: string | undefined): void {
    const folders = place === undefined ? Number.NaN : Number(place);
    if (Number.isInteger(folders) && folders > 0 && folders < this.#folders.length)
      this.#foldersListed = folders;
  }

  #isOver(): boolean {
    return this.#foldersListed === this.#folders.length && this.#listed.length === 0;
  }

  async #list(): Promise<void> {
    const last = this.#foldersListed + 16;
    while (this.#listed.length < OBJECTS_PER_STEP_MAX && this.#foldersListed < last) {
      const folder = this.#folders[this.#foldersListed];
      if (folder === undefined) return;
      this.#foldersListed += 1;
      const { files, layout } = this.#options;
      const names = await files.list(folder);
      const own = names.filter((name) => isGeneration(name) && layout.shardOf(name) === folder);
      this.#listed = [...this.#listed, ...own];
    }
  }
}
