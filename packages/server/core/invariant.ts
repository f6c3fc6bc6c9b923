/** Errors for data that contradicts itself: it breaks a rule of docs/design.md, or a count of one Space is wrong. */
import type { Awaitable } from './awaitable.ts';
import type { Space } from './model.ts';
import { StoreUnavailable } from './store-failure.ts';

/** A rule of docs/design.md is broken. It ends the process, because going on could lose bytes; a restart begins from what is durable. */
export class InvariantViolation extends Error {
  override readonly name = 'InvariantViolation';
}

export function assertInvariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new InvariantViolation(`broken invariant: ${rule}`);
}

/** A count of one Space contradicts its rows. The transaction is undone, and only this Space answers 503: a restart would not help. */
export class CounterBroken extends StoreUnavailable {
  override readonly name = 'CounterBroken';
  readonly rule: string;
  /** undefined where the thrower does not know the Space; `namingSpace` adds it */
  readonly space: Space | undefined;

  constructor(rule: string, space?: Space) {
    const where =
      space === undefined
        ? 'a Space'
        : `Space ${JSON.stringify(space.spaceId)} of App ${JSON.stringify(space.appId)}`;
    super(`a count of ${where} contradicts its rows (${rule}): restore a backup of the rows`);
    this.rule = rule;
    this.space = space;
  }
}

export function assertCount(count: number, name: string, space?: Space): void {
  if (count < 0) throw new CounterBroken(`${name} is never negative`, space);
}

/** Runs `work`, which belongs to one Space, and names that Space in a `CounterBroken` that it throws. */
export async function namingSpace<T>(space: Space, work: () => Awaitable<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw nameSpace(error, space);
  }
}

/** The same error, which names the Space if it is a `CounterBroken`. */
export function nameSpace(error: unknown, space: Space): unknown {
  return error instanceof CounterBroken ? new CounterBroken(error.rule, space) : error;
}
