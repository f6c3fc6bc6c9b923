/**
 * Preloaded into a real server process by tests that need hours to pass: every clock reading is moved by a fixed number of
 * milliseconds, or by what a file says at the time, two numbers: for the wall clock, and for the monotonic one, which is otherwise
 * right. Timers are left alone.
 */
import { readFileSync } from 'node:fs';

const fixedMs = Number(process.env.HOLDFAST_TEST_CLOCK_OFFSET_MS ?? 0);
const file = process.env.HOLDFAST_TEST_CLOCK_FILE;

function readOffset(clock: 0 | 1): number {
  if (file === undefined) return clock === 0 ? fixedMs : 0;
  return Number(readFileSync(file, 'utf8').split(' ')[clock]);
}

const RealDate = Date;

class ShiftedDate extends RealDate {
  constructor(...args: readonly unknown[]) {
    if (args.length === 0) super(RealDate.now() + readOffset(0));
    else super(...(args as [number]));
  }

  static override now(): number {
    return RealDate.now() + readOffset(0);
  }
}

globalThis.Date = ShiftedDate as DateConstructor;

if (file !== undefined) {
  const readMonotonic = performance.now.bind(performance);
  performance.now = () => readMonotonic() + readOffset(1);
}

/** Threads have clocks of their own. */
globalThis.Worker = class extends Worker {
  constructor(url: string | URL, options: WorkerOptions = {}) {
    super(url, { ...options, preload: [import.meta.path] });
  }
};
