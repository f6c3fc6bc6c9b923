/** What each part of the proof is to `npm run proof`. */
export interface SectionWork {
  /** The same seed does the same work, as far as the section can choose it. */
  readonly seed: number;
  /** Asked before each piece, the first included. A piece takes seconds, and ends what it started. */
  isOver(): boolean;
}

export interface SectionResult {
  readonly counts: Readonly<Record<string, number>>;
  /** what was wrong, and how it is met again */
  readonly found: readonly string[];
}

export interface Section {
  readonly name: string;
  run(work: SectionWork): Promise<SectionResult>;
}
