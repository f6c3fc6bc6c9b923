/** What row rot is about: something that can be copied, and damaged. */
import type { Space } from '../../packages/server/core/model.ts';
import type { OpenWorld } from './world.ts';

export type Draw = (below: number) => number;

/** What is damaged: each copy of it once. */
export interface Subject {
  readonly open: OpenWorld;
  damages(draw: Draw): Iterable<Wrong> | AsyncIterable<Wrong>;
}

/** One damage that can be made. */
export interface Wrong {
  readonly name: string;
  /** A copy that has it. undefined: the schema does not take it */
  make(): Promise<DamagedCopy | undefined>;
}

export interface DamagedCopy {
  readonly open: OpenWorld;
  /** the damage is of what no row can be read without: a server that says what to do is right not to start */
  readonly mayRefuse?: boolean;
  /** what went another way before it is judged: as it was damaged, and then read */
  readonly former?: OpenWorld;
  /** Rows out of order in a page may hide others once the page has changed: they answer 503 until a repair. */
  readonly mayHide?: boolean;
  /** the damage was made on the way: what it is of may fail, and must not be gone */
  readonly mayFail?: boolean;
  /** the way removed all of it */
  readonly purged?: Space;
  /** by a restore */
  readonly raisesRevisions?: boolean;
  /** the damage is older than the sums: what bytes do not prove, nothing does */
  readonly isUnproven?: boolean;
  /** what the way said that was not gone: `open` is the damaged copy, which may have changed in nothing that is read */
  readonly refusal?: string;
  /** the damage is made soon after this is called: what it is of may fail then, and must not be gone */
  begin?(): void;
  remove(): Promise<void>;
}
