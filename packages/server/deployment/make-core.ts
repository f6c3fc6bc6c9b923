/** The rules over an open deployment. */
import { randomBytes } from 'node:crypto';
import { ABANDONED_AFTER_MS, ROOT_REF_HISTORY_MS } from '@holdfast/protocol';
import { ComparedClocks, SteadyRows } from '../background/clock-guard.ts';
import type { Core, CoreSettings } from '../core/core.ts';
import { PackJudgements } from '../core/packs/judge-pack.ts';
import type { Clock, Randomness, Signer } from '../core/ports.ts';
import type { FreeSpace, Quotas } from '../core/quotas.ts';
import type { RottenNodes } from '../core/rotten-nodes.ts';
import { StrayWatch } from '../core/stray-watch.ts';
import { unzstd } from '../engine/packed-object.ts';
import { openMachineTime } from '../engine/steady-clock.ts';
import { JudgingTurns } from '../shares/fair-queue.ts';
import type { ServedDeployment } from './deployment.ts';

/** The configurable settings of the rules. */
interface CoreConfig
  extends Pick<
    CoreSettings,
    'nodeBytesMax' | 'activeUploadsMax' | 'uploadTtlMs' | 'keepReplacedMs' | 'commitRecordsKeptMs'
  > {
  readonly clockSkewMsMax: number;
}

interface CoreWorld {
  /** the wall clock */
  readonly clock?: Clock;
  /** The wall clock was set while the rows' clock went on; the message says what that means. */
  readonly onClockSet?: (message: string) => void;
}

export function makeCore(
  config: CoreConfig,
  { rows, bytes, isClockSteady }: ServedDeployment,
  signer: Signer,
  rottenNodes: RottenNodes,
  quotas: Quotas,
  freeSpace?: FreeSpace,
  { clock = { now: () => Date.now() }, onClockSet = () => undefined }: CoreWorld = {},
): Core {
  const now = (): number => clock.now();
  const skewMsMax = config.clockSkewMsMax;
  const elapsed = clock.elapsed ?? openMachineTime().elapsed;
  return {
    metadata: rows,
    content: bytes,
    random: makeRandomness(),
    signer,
    rottenNodes,
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    clocks: isClockSteady
      ? new SteadyRows({ rows, bytes, now, skewMsMax, onClockSet })
      : new ComparedClocks({ rows, bytes, now, elapsed, skewMsMax }),
    quotas,
    freeSpace,
    settings: {
      nodeBytesMax: config.nodeBytesMax,
      activeUploadsMax: config.activeUploadsMax,
      uploadTtlMs: config.uploadTtlMs,
      keepReplacedMs: config.keepReplacedMs,
      commitRecordsKeptMs: config.commitRecordsKeptMs,
      abandonedAfterMs: ABANDONED_AFTER_MS,
      rootRefHistoryMs: ROOT_REF_HISTORY_MS,
    },
  };
}

/** bytes asked of the system at once: every lease takes a few, and asking costs more than the bytes */
const RANDOM_POOL_BYTES = 4096;

function makeRandomness(): Randomness {
  let pool = randomBytes(RANDOM_POOL_BYTES);
  let taken = 0;
  return {
    bytes: (count) => {
      if (taken + count > pool.length) {
        pool = randomBytes(Math.max(RANDOM_POOL_BYTES, count));
        taken = 0;
      }
      taken += count;
      return pool.subarray(taken - count, taken);
    },
  };
}
