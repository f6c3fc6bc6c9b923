/**
 * The record of a commit says what a repeated request is answered. If an operator keeps records for a while only, marks tell their age: when
 * a domain was at which revision. So a commit costs nothing more, and a record that is older than this rule counts from the first mark on.
 */

/** When the domain was at `revision`: a record up to it is at least as old. */
export interface CommitMark {
  /** ms */
  readonly markedAt: number;
  readonly revision: number;
}

export interface MarkedDomain {
  readonly revision: number;
  readonly commitCount: number;
  readonly newest: CommitMark | undefined;
}

/** All domains are looked at sixteen times in the time that records are kept. */
export const roundMs = (keptMs: number): number => keptMs / 16;

/** A mark in each quarter of the time that records are kept, and only if the domain has records of which some can go. */
export function isMarkWanted(
  { revision, commitCount, newest }: MarkedDomain,
  now: number,
  keptMs: number,
): boolean {
  if (revision < 3 || commitCount < 2) return false;
  return newest === undefined || (newest.revision < revision && newest.markedAt <= now - keptMs / 4);
}

/**
 * Records up to this revision may go. The last one stays: by it a domain whose row is lost is known to have been there. The revision becomes
 * the floor of the domain's history. No walk needs an earlier one, because walks end long before records go.
 */
export const lastForgettable = (domain: MarkedDomain, due: CommitMark): number =>
  Math.min(due.revision, domain.revision - 1);
