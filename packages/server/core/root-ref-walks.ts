/** A commit keeps replaced balances only while a walk of several pages may need them: its first page notes that in the domain's row. */
import { ROOT_REF_HISTORY_MS } from '@holdfast/protocol';

/** Until when commits of a domain keep history, in ms, if the row is older than this rule or was copied: a walk may be under way. */
export const WALK_UNKNOWN = -1;
/** The value for a domain that was never walked. */
export const NEVER_WALKED = 0;
/** ms for which a walk is noted at once, so that walks which follow each other write seldom */
const NOTED_MS = ROOT_REF_HISTORY_MS + 3_600_000;

export interface WalkState {
  /** the history of revisions below this is not whole */
  readonly walkedFrom: number;
  /** ms; until then commits keep history, later ones do not */
  readonly walkedUntil: number;
}

export function afterCommit(
  { walkedFrom, walkedUntil }: WalkState,
  revision: number,
  now: number,
): WalkState & { readonly keepsHistory: boolean } {
  if (walkedUntil === WALK_UNKNOWN) return { walkedFrom, walkedUntil: now + NOTED_MS, keepsHistory: true };
  const keepsHistory = walkedUntil > now;
  return { walkedFrom: keepsHistory ? walkedFrom : revision, walkedUntil, keepsHistory };
}

/** Whether a walk that begins now can end, whatever is committed. */
export function isWalkNoted(walkedUntil: number, now: number): boolean {
  return walkedUntil === WALK_UNKNOWN || walkedUntil >= now + ROOT_REF_HISTORY_MS;
}

/** The new `walkedUntil` after the note of a walk. */
export function afterNote(walkedUntil: number, now: number): number {
  return isWalkNoted(walkedUntil, now) ? walkedUntil : now + NOTED_MS;
}
