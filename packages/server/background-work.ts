/** What a server does on its own: the sweep and the scrub (contract sections 5 and 7). One process of a data folder does it. */
import { type BackgroundLoop, startLoop } from './background-loop.ts';
import type { Core } from './core/core.ts';
import type { ScrubPosition } from './core/ports.ts';
import { scrub } from './core/scrub.ts';
import { sweep } from './core/sweep.ts';
import type { Log } from './log.ts';

const SWEEP_INTERVAL_MS = 3000;
/** between sweeps while there is more to do */
const SWEEP_BUSY_INTERVAL_MS = 50;
const SWEEP_RETRY_MS = 5000;

/** What the scrub may take from a disk that also serves. */
const SCRUB_BYTES_PER_SECOND = 8 * 1024 * 1024;
const SCRUB_STEP_INTERVAL_MS = 250;
/** from the end of one walk over everything to the start of the next */
const SCRUB_PAUSE_MS = 60_000;
const SCRUB_RETRY_MS = 10_000;

export function startBackgroundWork(core: Core, log: Log): BackgroundLoop {
  const loops = [
    startLoop({ name: 'sweep', log, step: () => sweepOnce(core), retryMs: SWEEP_RETRY_MS }),
    startLoop({ name: 'scrub', log, step: scrubSteps(core, log), retryMs: SCRUB_RETRY_MS }),
  ];
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}

async function sweepOnce(core: Core): Promise<number> {
  const { moreToDo } = await sweep(core);
  return moreToDo ? SWEEP_BUSY_INTERVAL_MS : SWEEP_INTERVAL_MS;
}

function scrubSteps(core: Core, log: Log): () => Promise<number> {
  let position: ScrubPosition | undefined;
  return async () => {
    const { next, bytes, foundRotten, foundSound } = await scrub(core, position);
    position = next;
    if (foundRotten > 0) {
      log.error(
        { nodes: foundRotten },
        'the scrub found damaged content; lease those nodes again to heal them, and check the disk',
      );
    }
    if (foundSound > 0) log.warn({ nodes: foundSound }, 'the scrub found content good again');
    if (next === undefined) return SCRUB_PAUSE_MS;
    return Math.max(SCRUB_STEP_INTERVAL_MS, (bytes / SCRUB_BYTES_PER_SECOND) * 1000);
  };
}
