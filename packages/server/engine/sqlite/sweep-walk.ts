/** Finds Spaces that have something for the sweep without looking at those that have nothing. */
import type { Space } from '../../core/model.ts';
import type { SweepCutoffs } from '../../core/upkeep-ports.ts';
import { isSpaceSound, spaceOf } from './space-directory.ts';
import type { ReadStatements } from './statements.ts';

const KINDS = [
  'nextSpaceWaiting',
  'nextSpaceClaimed',
  'nextSpaceUploading',
  'nextSpaceDiscarding',
  'nextSpaceUnjudged',
  'nextSpaceEmptied',
  'nextSpaceForgetting',
] as const;
type Kind = (typeof KINDS)[number];

export class SweepWalk {
  readonly #sql: ReadStatements;
  /** where each kind's round resumes, so that no Space starves another */
  readonly #after: Record<Kind, number> = {
    nextSpaceWaiting: 0,
    nextSpaceClaimed: 0,
    nextSpaceUploading: 0,
    nextSpaceDiscarding: 0,
    nextSpaceUnjudged: 0,
    nextSpaceEmptied: 0,
    nextSpaceForgetting: 0,
  };

  #firstKind = 0;

  constructor(sql: ReadStatements) {
    this.#sql = sql;
  }

  findSpaces(cutoffs: SweepCutoffs, limit: number): Space[] {
    const ids = new Set<number>();
    // Another kind goes first each time, so that a kind with much to do leaves room for the others.
    this.#firstKind = (this.#firstKind + 1) % KINDS.length;
    for (const kind of [...KINDS.slice(this.#firstKind), ...KINDS.slice(0, this.#firstKind)]) {
      this.#collect(kind, cutoffs, ids, limit);
    }
    const spaces: Space[] = [];
    for (const id of ids) {
      const row = this.#sql.findSpaceById.get(id);
      // A Space with a damaged name cannot be asked for.
      if (row !== null && isSpaceSound(row)) spaces.push(spaceOf(row));
    }
    return spaces;
  }

  /** One round at most: from where the last call stopped, around the end, back to there. */
  #collect(kind: Kind, cutoffs: SweepCutoffs, ids: Set<number>, limit: number): void {
    const start = this.#after[kind];
    let hasWrapped = false;
    for (let seeks = 0; seeks < 1_024 && ids.size < limit; seeks++) {
      const row = this.#sql[kind].get(this.#after[kind]);
      if (row === null) {
        this.#after[kind] = 0;
        if (hasWrapped || start === 0) return;
        hasWrapped = true;
        continue;
      }
      const id = row.space as number;
      if (hasWrapped && id > start) return;
      this.#after[kind] = id;
      if (this.#isDue(kind, id, row.oldest as number, cutoffs)) ids.add(id);
    }
  }

  #isDue(kind: Kind, id: number, oldest: number, { now, abandonedAt }: SweepCutoffs): boolean {
    switch (kind) {
      case 'nextSpaceClaimed':
      case 'nextSpaceDiscarding':
        return oldest <= now;
      case 'nextSpaceEmptied':
        return true;
      case 'nextSpaceWaiting':
      case 'nextSpaceForgetting':
        return oldest <= abandonedAt;
      case 'nextSpaceUploading':
        return oldest <= abandonedAt && this.#sql.hasAbandonedUpload.get(id, abandonedAt) !== null;
      case 'nextSpaceUnjudged':
        return oldest <= abandonedAt && this.#sql.hasAbandonedPack.get(id, abandonedAt) !== null;
    }
  }
}
