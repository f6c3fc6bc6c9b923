/** What a check is, what it is given and what it may report. */
import type { Answer } from './answer.ts';
import type { SpaceClient } from './space-client.ts';
import type { Target } from './target.ts';

/**
 * What a target must offer for a check to say anything. Where it does not, the check is `not applicable`, never passed.
 * - `socket`: a real TCP listener, for raw bytes
 * - `embedded-upload`, `direct-upload`: who receives the PUT
 * - `store-expiry`: a store that takes the PUT judges the URL by its own clock: real time that must pass
 * - `minute`, `upload-expiry`, `day`: time that must pass (a movable clock, or `--slow` where waiting is bearable)
 * - `real-minute`: real time that must pass, whatever the target's clock says (`--slow`)
 * - `node-limit`, `upload-limit`: the limit is small enough to reach
 * - `second-app`, `suspended-app`: another registered identity was given
 * - `single-key`: the issuer is known to have exactly one registered key
 * - `own-host`: upload URLs take the Host of the lease request (no public URL configured)
 */
export type Need =
  | 'socket'
  | 'embedded-upload'
  | 'direct-upload'
  | 'minute'
  | 'real-minute'
  | 'upload-expiry'
  | 'store-expiry'
  | 'day'
  | 'node-limit'
  | 'upload-limit'
  | 'second-app'
  | 'suspended-app'
  | 'single-key'
  | 'own-host';

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
  /** The rule that a failure breaks, by document and section. */
  readonly clause: string;
  readonly title: string;
  readonly needs: readonly Need[];
  readonly run: (ctx: CheckContext) => Promise<void>;
}

export function check(
  id: string,
  clause: string,
  title: string,
  run: (ctx: CheckContext) => Promise<void>,
  ...needs: readonly Need[]
): Check {
  return { id, clause, title, run, needs };
}

/** A rule was broken: what it asks for and what came. */
export class RuleBroken extends Error {
  override readonly name = 'RuleBroken';
  readonly expected: string;
  readonly actual: string;
  readonly answer: Answer | undefined;

  constructor(expected: string, actual: string, answer?: Answer) {
    super(`expected ${expected}, got ${actual}`);
    this.expected = expected;
    this.actual = actual;
    this.answer = answer;
  }
}
