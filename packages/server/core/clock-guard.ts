/** Whether the clocks that collection rests on agree. */
export interface ClockGuard {
  /** Rejects with StoreUnavailable while they disagree by minutes, or cannot be read. */
  assertAgree(): Promise<void>;
}
