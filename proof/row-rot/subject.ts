/** What row rot is about: something that can be copied, and damaged. */
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
  remove(): Promise<void>;
}
