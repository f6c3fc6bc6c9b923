/** By which clock the rows of a data folder go. */
import type { Clock } from '../core/ports.ts';
import { SteadyClock, takeTimeOrigin } from '../engine/steady-clock.ts';

interface FolderTime {
  readonly clock: Clock;
  /** Rows may be written in a thread of their own: it has the clocks of the machine and no other. */
  readonly hasThread: boolean;
  /** undefined: `clock` is not steady */
  readonly timeOrigin: number | undefined;
}

interface TimeWanted {
  /** of a test */
  readonly clock?: Clock | undefined;
  readonly timeOrigin?: number | undefined;
}

export const WALL_CLOCK: Clock = { now: () => Date.now() };

export function chooseClock(purpose: 'serve' | 'copy', { clock, timeOrigin: given }: TimeWanted): FolderTime {
  if (clock !== undefined) return { clock, hasThread: false, timeOrigin: undefined };
  const hasThread = purpose === 'serve';
  if (!hasThread) return { clock: WALL_CLOCK, hasThread, timeOrigin: undefined };
  const timeOrigin = given ?? takeTimeOrigin();
  return { clock: new SteadyClock(timeOrigin), hasThread, timeOrigin };
}
