/**
 * Preloaded into a real server process by tests that need hours to pass, or clocks that are wrong: every clock reading is
 * moved by a fixed number of milliseconds, and by what a file holds right now (a little-endian float64, ms), so that a test
 * moves the clocks of processes that run. Timers are left alone.
 */
const fixedOffsetMs = Number(process.env.HOLDFAST_TEST_CLOCK_OFFSET_MS ?? 0);
const offsetFile = process.env.HOLDFAST_TEST_CLOCK_FILE;
const RealDate = Date;

/** Shared with whoever writes the file: a reading costs no system call. */
const moved =
  offsetFile === undefined
    ? undefined
    : new Float64Array(Bun.mmap(offsetFile, { shared: true }).buffer, 0, 1);

function readNow(): number {
  return RealDate.now() + fixedOffsetMs + (moved?.[0] ?? 0);
}

class ShiftedDate extends RealDate {
  constructor(...args: readonly unknown[]) {
    if (args.length === 0) super(readNow());
    else super(...(args as [number]));
  }

  static override now(): number {
    return readNow();
  }
}

globalThis.Date = ShiftedDate as DateConstructor;

export {};
