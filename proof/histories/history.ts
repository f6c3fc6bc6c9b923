/** What concurrent clients of one Space and one domain did and were answered, with the order in which requests began and ended. */

/** Instants are numbers of events: one is later than another, and no more is known of them. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Commit {
  readonly requestId: string;
  readonly changes: ReadonlyMap<string, number>;
  /** of the first request that sent it */
  readonly start: number;
  /** of the first answer that said it was made; undefined: none did */
  end?: number;
  /** by each answer */
  readonly revisions: Set<number>;
}

/** A commit that was refused because of a balance. */
export interface Conflict extends Span {
  readonly commit: Commit;
}

/** All pages of a list of root refs. */
export interface List extends Span {
  readonly revisions: ReadonlySet<number>;
  readonly balances: ReadonlyMap<string, number>;
}

export interface Lease extends Span {
  readonly hash: string;
  readonly leaseExpiresAt: number;
}

export interface History {
  readonly commits: readonly Commit[];
  readonly conflicts: readonly Conflict[];
  readonly lists: readonly List[];
  readonly leases: readonly Lease[];
  /** what no answer may say, whatever the others are */
  readonly wrong: readonly string[];
}
