/** Whether the clocks that collection rests on agree. */
export interface ClockGuard {
  /** Resolves with the instant (ms) to judge leases by. Rejects with StoreUnavailable while clocks disagree or cannot be read. */
  assertAgree(): Promise<number>;
}
