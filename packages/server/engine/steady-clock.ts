/**
 * The time of a data folder: the wall clock as it was when the server started, and from then on what the monotonic clock counts. So a
 * wall clock that is set while the server runs ends no lease early, and keeps none. All processes and threads of a server share one
 * origin, so that they agree.
 */

import { NS_PER_MS, SECOND_MS } from '@holdfast/protocol';
import type { Clock } from '../core/ports.ts';
import { openSystemFunctions } from '../runtime/system-library.ts';

/** The two clocks of a machine. */
export interface MachineTime {
  /** ms since the epoch; anyone may set it */
  wall(): number;
  /** monotonic ms, the same for all processes of the machine */
  elapsed(): number;
}

/** CLOCK_BOOTTIME of Linux, CLOCK_MONOTONIC of macOS. Both count the time that the machine sleeps. */
const CLOCK_ID = process.platform === 'darwin' ? 6 : 7;

/** The machine's own clocks. If the system has no such call, the wall clock is used for both. */
export function openMachineTime(): MachineTime {
  const wall = (): number => Date.now();
  const read = openSystemClock();
  if (read === undefined) return { wall, elapsed: wall };
  // Read second, so that the runtime's clock is never ahead of the system's by the time between both reads.
  const began = read();
  const runtimeBegan = performance.now();
  // The runtime's clock stops while the machine sleeps. If it is ahead, a test advanced it.
  return { wall, elapsed: () => Math.max(read(), began + performance.now() - runtimeBegan) };
}

interface System {
  clock_gettime(clock: number, time: Uint32Array): number;
}

function openSystemClock(): (() => number) | undefined {
  const system = openSystemFunctions<System>({
    clock_gettime: { args: ['i32', 'buffer'], returns: 'i32' },
  });
  // Seconds and nanoseconds, 64 bits each, the lower half first.
  const time = new Uint32Array(4);
  if (system?.clock_gettime(CLOCK_ID, time) !== 0) return undefined;
  return () => {
    system.clock_gettime(CLOCK_ID, time);
    const [low = 0, high = 0, nanoseconds = 0] = time;
    return (high * 2 ** 32 + low) * SECOND_MS + nanoseconds / NS_PER_MS;
  };
}

/** Finds when `elapsed` was 0 by the wall clock, which has whole ms: of a few readings the greatest is right to µs, never too great. */
export function takeTimeOrigin(time: MachineTime = openMachineTime()): number {
  // The wall clock reaches its next millisecond meanwhile.
  const endsAt = time.elapsed() + 3;
  let origin = Number.NEGATIVE_INFINITY;
  for (let looks = 0; looks < 20_000; looks += 1) {
    const wall = time.wall();
    const elapsed = time.elapsed();
    origin = Math.max(origin, wall - elapsed);
    if (elapsed >= endsAt) break;
  }
  return origin;
}

export class SteadyClock implements Clock {
  readonly #origin: number;
  readonly #time: Pick<MachineTime, 'elapsed'>;

  /** `origin`: of `takeTimeOrigin` */
  constructor(origin: number, time: Pick<MachineTime, 'elapsed'> = openMachineTime()) {
    this.#origin = origin;
    this.#time = time;
  }

  now(): number {
    return Math.floor(this.#origin + this.#time.elapsed());
  }
}
