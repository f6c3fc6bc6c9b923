/** A check, and the tools that it is given. */
import type { SpaceClient } from './space-client.ts';
import type { Need, Target } from './target.ts';

export interface CheckContext {
  readonly target: Target;
  /** A client of a Space nobody has used, with every permission and a refDomain. */
  readonly client: SpaceClient;
  /** A client of another fresh Space; `suffix` becomes the end of its id. */
  newSpace(suffix?: string): SpaceClient;
  /** Lets `ms` pass on the target: moves its clock when the caller gave one, else waits. */
  elapse(ms: number): Promise<void>;
  /** Lets the target's background work happen: asks for it where the caller can, else waits. */
  settle(): Promise<void>;
}

export interface Check {
  /** `area.name`, unique and stable. */
  readonly id: string;
  /** The rule that a failure breaks, under the heading of docs/api.md that it comes from. */
  readonly clause: string;
  readonly title: string;
  readonly needs: readonly Need[];
  readonly run: (ctx: CheckContext) => Promise<void>;
}

/** A check; what it needs of a target, if anything, stands between its title and what it does. */
export function check(
  id: string,
  clause: string,
  title: string,
  ...rest: readonly [...needs: Need[], run: Check['run']]
): Check {
  return { id, clause, title, needs: rest.slice(0, -1) as Need[], run: rest.at(-1) as Check['run'] };
}

/** The clause that is one row of the table of refused capabilities. */
export const row = (number: number, text: string): string => `Capabilities, row ${number}: ${text}`;
