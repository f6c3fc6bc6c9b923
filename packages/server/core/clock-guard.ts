/** Whether the clocks that collection rests on agree. */
export interface ClockGuard {
  /**
   * Resolves with the instant (ms) by which leases and waits are judged from now on, however a clock is set meanwhile. Rejects with
   * StoreUnavailable while the clocks disagree by minutes, or cannot be read.
   */
  assertAgree(): Promise<number>;
}
