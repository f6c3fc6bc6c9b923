/**
 * Preloaded into a real server process by tests that need hours to pass: every clock reading is moved by a fixed number of
 * milliseconds. Timers are left alone.
 */
const offsetMs = Number(process.env.HOLDFAST_TEST_CLOCK_OFFSET_MS ?? 0);
const RealDate = Date;

class ShiftedDate extends RealDate {
  constructor(...args: readonly unknown[]) {
    if (args.length === 0) super(RealDate.now() + offsetMs);
    else super(...(args as [number]));
  }

  static override now(): number {
    return RealDate.now() + offsetMs;
  }
}

globalThis.Date = ShiftedDate as DateConstructor;

/** Threads have clocks of their own. */
globalThis.Worker = class extends Worker {
  constructor(url: string | URL, options: WorkerOptions = {}) {
    super(url, { ...options, preload: [import.meta.path] });
  }
};

export {};
