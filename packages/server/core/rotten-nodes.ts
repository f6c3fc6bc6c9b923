/**
 * The rotten nodes that this process knows, for answers that read only rows: a ready lease reads no content, and proves nothing
 * about the nodes below it. Code that finds rot notes it here at once. `look` reads what other processes found, and what was
 * collected or healed meanwhile.
 */
import type { Hash } from '@holdfast/protocol';
import { pagesOf } from './batches.ts';
import type { Space } from './model.ts';
import type { MetadataStore } from './ports.ts';

export interface RotReport {
  /** `met`: a reader asked for a rotten node. `unread`: the scrub could not read it, which proves nothing. Others change the row. */
  readonly kind: 'rotten' | 'met' | 'unread' | 'sound' | 'healed';
  readonly space: Space;
  readonly hash: Hash;
  /** the proof, or why the node could not be read */
  readonly reason?: string;
}

type Counts = Map<string, Map<string, number>>;

export class RottenNodes {
  readonly #report: (report: RotReport) => void;
  /** by App, then by Space; no entry is 0 */
  #counts: Counts = new Map();
  /** Spaces noted during a look, which may have read their rows before that */
  readonly #noted = new Set<Space>();

  constructor(report: (report: RotReport) => void) {
    this.#report = report;
  }

  /** How many rotten nodes are known in all Spaces together; of each Space as `countIn` says it. */
  total(): number {
    let total = 0;
    for (const spaces of this.#counts.values()) for (const nodes of spaces.values()) total += nodes;
    return total;
  }

  /** How many rotten nodes of the Space are known; `look` counts up to `ROTTEN_COUNT_MAX`. */
  countIn({ appId, spaceId }: Space): number {
    return this.#counts.size === 0 ? 0 : (this.#counts.get(appId)?.get(spaceId) ?? 0);
  }

  noteRotten(space: Space, hash: Hash, proof: Error): void {
    this.#add(space, 1);
    this.#report({ kind: 'rotten', space, hash, reason: proof.message });
  }

  /** A rotten row was read and answered 503: the log says why. */
  noteMet(space: Space, hash: Hash): void {
    this.#report({ kind: 'met', space, hash });
  }

  /** The row stays as it is: nothing is proven. */
  noteUnread(space: Space, hash: Hash, error: unknown): void {
    this.#report({
      kind: 'unread',
      space,
      hash,
      reason: error instanceof Error ? error.message : String(error),
    });
  }

  /** A rotten row is ready again: `sound`, its bytes proved good after all; `healed`, they were uploaded again. */
  noteReady(space: Space, hash: Hash, kind: 'sound' | 'healed'): void {
    this.#add(space, -1);
    this.#report({ kind, space, hash });
  }

  /** Reads the rows. Rejects with the store's error; what was known stays. */
  async look(metadata: Pick<MetadataStore, 'page'>): Promise<void> {
    this.#noted.clear();
    const counts: Counts = new Map();
    const pages = pagesOf(
      (after, limit) => metadata.page('rottenSpaces', { after, limit }),
      ({ position }) => position,
    );
    for await (const page of pages) for (const { space, nodes } of page) setCount(counts, space, nodes);
    for (const space of this.#noted) setCount(counts, space, this.countIn(space));
    this.#counts = counts;
  }

  #add(space: Space, change: number): void {
    this.#noted.add(space);
    setCount(this.#counts, space, this.countIn(space) + change);
  }
}

function setCount(counts: Counts, { appId, spaceId }: Space, count: number): void {
  const spaces = counts.get(appId) ?? new Map<string, number>();
  if (count > 0) spaces.set(spaceId, count);
  else spaces.delete(spaceId);
  if (spaces.size > 0) counts.set(appId, spaces);
  else counts.delete(appId);
}
