/** A PUT that is being received, as those see it who judge whether it may go on. */

export interface Receiving {
  /** what quotas count of those PUTs to the Space that began earlier, by all processes, and have not ended */
  heldBefore(): number;
  /** Resolves after a moment in which some of them may end. */
  pause(): Promise<void>;
}

/** Called before the body is read, when the PUT counts as being received: what it throws refuses the PUT. */
export type Admit = (receiving: Receiving) => Promise<void>;
