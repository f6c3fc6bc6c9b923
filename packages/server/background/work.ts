/** The work of servers without a request. Of several processes, the one that has the turn does sweep, scrub and compaction. */

import type { RegistryStore } from '../auth/registry-store.ts';
import { SCRUB_NODES_MIN, scrub } from '../core/collect/scrub.ts';
import { sweep } from '../core/collect/sweep.ts';
import type { Core } from '../core/core.ts';
import { UnseenUploads } from '../core/lease/unseen-uploads.ts';
import type { Generation } from '../core/model.ts';
import { compactPacks } from '../core/packs/compact-packs.ts';
import { type PackingWalk, packSmallNodes } from '../core/packs/pack-small-nodes.ts';
import type { MetadataStore } from '../core/ports.ts';
import { storedOf } from '../core/quotas.ts';
import { heldBytesOfApp } from '../core/read/get-usage.ts';
import { explainBehind, isBehind, moveEpoch, readEpochs } from '../core/store-epoch.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { Log } from '../log.ts';
import {
  APP_QUOTA_BYTES,
  APP_STORED_BYTES,
  AppLabels,
  COMPACTED_BYTES,
  COMPACTED_RECORDS,
  FORGOTTEN_COMMITS,
  METRICS,
  OTHER_APP,
  PACK_DEAD_BYTES,
  PACKED_NODES,
  PENDING_BYTES,
  SCRUB_LAST_SUCCESS,
  SCRUBBED_BYTES,
  SCRUBBED_NODES,
  STRAY_WALK_STOPPED,
  SWEEP_LAG,
} from '../metrics/server-metrics.ts';
import { makeCollectStep } from './collect-all.ts';
import { type BackgroundLoop, startLoop } from './loop.ts';
import type { BackgroundTurns } from './turns.ts';

interface CompactionPace {
  readonly compactBytesPerSecond: number;
  /** after a step that found nothing to do */
  readonly compactPauseMs: number;
  /** from the end of one walk for small nodes to the start of the next */
  readonly packPauseMs: number;
  /** between requests for a turn while another process has it */
  readonly askMs: number;
}

/** Resolves with the ms until the next step. */
export function makeCompactStep(
  core: Core,
  turns: BackgroundTurns,
  { compactBytesPerSecond, compactPauseMs, packPauseMs, askMs }: CompactionPace,
): () => Promise<number> {
  const stuck = new Set<Generation>();
  let walk: PackingWalk | undefined;
  let failedAt: PackingWalk | undefined;
  /** ms of the monotonic clock */
  let walksAgainAt = 0;
  const pack = async (): Promise<number> => {
    if (performance.now() < walksAgainAt) return 0;
    const { bytes, moved, cost, next, failure } = await packSmallNodes(core, walk).catch((error: unknown) => {
      // A Space whose rows keep failing does not block the others: the next walk tries it again.
      if (walk?.within !== undefined && failedAt === walk) walk = { ...walk, within: undefined };
      failedAt = walk;
      throw error;
    });
    walk = next;
    if (next === undefined) walksAgainAt = performance.now() + packPauseMs;
    COMPACTED_BYTES.add(bytes);
    PACKED_NODES.add(moved);
    if (failure !== undefined) throw failure;
    return cost;
  };
  return async () => {
    if ((await turns.take('compact')) === undefined) return askMs;
    let cost: number;
    try {
      const { bytes, moved } = await compactPacks(core, stuck);
      COMPACTED_BYTES.add(bytes);
      COMPACTED_RECORDS.add(moved);
      cost = bytes + (await pack());
    } finally {
      // Updated after a failure too, because operators then look for space that could not be freed.
      PACK_DEAD_BYTES.set(await core.metadata.packs.readDeadBytes());
    }
    return cost === 0 ? compactPauseMs : (cost / compactBytesPerSecond) * 1000;
  };
}

/** Intervals of background work, and limits on reads from a store that also serves requests. */
export interface BackgroundPace {
  readonly sweepIntervalMs: number;
  readonly scrubBytesPerSecond: number;
  /** between two steps of the scrub */
  readonly scrubIntervalMs: number;
  /** nodes per step if they are small */
  readonly scrubNodesMax: number;
  /** from the end of one walk of the scrub to the start of the next */
  readonly scrubPauseMs: number;
  /** bytes younger than this are left to the next walk; ms */
  readonly scrubAgeMsMin: number;
  /** bytes that compaction reads and writes */
  readonly compactBytesPerSecond: number;
  /** between searches for packs worth compacting, if none was found */
  readonly compactPauseMs: number;
  /** between two increments of the bucket's epoch */
  readonly epochIntervalMs: number;
  /** from the end of one packing walk to the start of the next */
  readonly packPauseMs: number;
  /** between searches for rotten rows that other processes found */
  readonly rotLookMs: number;
  /** after a failure, and before the first step */
  readonly retryMs: number;
  /** between requests for a turn: while another process has it, and during the pauses of this one */
  readonly askMs: number;
}

export const DISK_PACE: BackgroundPace = {
  sweepIntervalMs: 3000,
  scrubBytesPerSecond: 8 * 1024 * 1024,
  scrubIntervalMs: 250,
  scrubNodesMax: 256,
  scrubPauseMs: 60_000,
  scrubAgeMsMin: 0,
  compactBytesPerSecond: 8 * 1024 * 1024,
  compactPauseMs: 10_000,
  epochIntervalMs: 3_600_000,
  packPauseMs: 3_600_000,
  rotLookMs: 3000,
  retryMs: 5000,
  askMs: 5000,
};

/** In S3 each node costs a request, and requests cost money: at most 8 a second, and none for recent uploads. */
export const S3_PACE: BackgroundPace = {
  ...DISK_PACE,
  scrubIntervalMs: 1000,
  scrubNodesMax: SCRUB_NODES_MIN,
  scrubAgeMsMin: 30_000,
};

interface BackgroundOptions {
  readonly core: Core;
  readonly turns: BackgroundTurns;
  readonly pace: BackgroundPace;
  readonly log: Log;
  /** the Apps to measure; undefined if another process of this server measures them */
  readonly measured?: RegistryStore | undefined;
  /** automatic collection; undefined if disabled */
  readonly collection?: { readonly apps: RegistryStore; readonly everyMs: number } | undefined;
}

export function startBackgroundWork(options: BackgroundOptions): BackgroundLoop {
  const { core, log, turns, pace, collection, measured } = options;
  const { askMs, retryMs } = pace;
  const lag = new SweepLag();
  const guardEpoch = makeEpochGuard(pace.epochIntervalMs);
  const unseen = new UnseenUploads(core);
  const loops = [
    startLoop({ name: 'sweep', log, step: () => sweepOnce(options, { lag, unseen }, guardEpoch), retryMs }),
    startLoop({ name: 'scrub', log, step: makeScrubStep(options), retryMs }),
    startLoop({ name: 'compact', log, step: makeCompactStep(core, turns, pace), retryMs }),
    // Every process compares its own clock even while another sweeps, because its requests may collect.
    startLoop({ name: 'clocks', log, step: () => compareClocks(core), retryMs }),
    // Every process searches for rot, with or without a turn, because each answers from its own memory.
    startLoop({ name: 'rot', log, step: () => lookForRot(options), retryMs }),
  ];
  if (measured !== undefined) {
    loops.push(
      startLoop({
        name: 'apps',
        log,
        step: makeAppGaugesStep(measured, core.metadata, (appId) => heldBytesOfApp(core.content, appId)),
        retryMs,
      }),
    );
  }
  if (collection !== undefined) {
    const step = makeCollectStep({ core, turns, log, askMs, ...collection });
    loops.push(startLoop({ name: 'gc', log, step, retryMs }));
  }
  const stop = async (): Promise<void> => {
    await Promise.all(loops.map((loop) => loop.stop()));
    lag.stop();
    // If this fails, another process waits until the turn expires.
    await turns.release().catch(() => undefined);
  };
  let stopping: Promise<void> | undefined;
  return {
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

interface SweepParts {
  readonly lag: SweepLag;
  readonly unseen: UnseenUploads;
}

/** Resolves with the ms until the next step. */
async function sweepOnce(
  { core, turns, pace }: BackgroundOptions,
  { lag, unseen }: SweepParts,
  guardEpoch: (core: Core) => Promise<void>,
): Promise<number> {
  if ((await turns.take('sweep')) === undefined) {
    lag.isOfAnother();
    return pace.askMs;
  }
  lag.isOurs();
  await guardEpoch(core);
  try {
    // A failure of one does not fail the other.
    const [swept, seen] = await Promise.allSettled([sweepNow(core, lag), unseen.look()]);
    if (seen.status === 'rejected') throw seen.reason;
    if (swept.status === 'rejected') throw swept.reason;
    // If more is left to do, the next sweep comes soon.
    return swept.value ? 50 : pace.sweepIntervalMs;
  } finally {
    STRAY_WALK_STOPPED.set(core.strays.stopped === undefined ? 0 : 1);
  }
}

async function sweepNow(core: Core, lag: SweepLag): Promise<boolean> {
  const { moreToDo, forgottenCommits } = await sweep(core);
  FORGOTTEN_COMMITS.add(forgottenCommits);
  if (!moreToDo) lag.hasCaughtUp();
  return moreToDo;
}

/** Renews the turn also during pauses of the scrub, so that no other process starts. */
function makeScrubStep(options: BackgroundOptions): () => Promise<number> {
  const { core, turns, pace } = options;
  /** ms of the monotonic clock */
  let restsUntil = 0;
  /** nodes that this walk left to the next one */
  let left = 0;
  let nodesMax = SCRUB_NODES_MIN;
  return async () => {
    const turn = await turns.take('scrub');
    if (turn === undefined) return pace.askMs;
    const restMs = restsUntil - performance.now();
    if (restMs > 0) return Math.min(restMs, pace.askMs);
    const youngSince = pace.scrubAgeMsMin > 0 ? Date.now() - pace.scrubAgeMsMin : undefined;
    const startedAt = performance.now();
    const { next, nodes, young, bytes } = await scrub(core, turn.position, youngSince, nodesMax);
    const tookMs = performance.now() - startedAt;
    nodesMax = nodesOfNextScrub(nodesMax, { bytes, tookMs }, pace);
    left += young;
    SCRUBBED_NODES.add(nodes);
    SCRUBBED_BYTES.add(bytes);
    if (next === undefined) SCRUB_LAST_SUCCESS.set(Date.now() / 1000);
    await turns.note('scrub', next);
    const paceMs = Math.max(
      // The pause is at least four times as long as the step.
      ...[pace.scrubIntervalMs, (bytes / pace.scrubBytesPerSecond) * 1000, tookMs * 4],
    );
    // The nodes left are old enough by then.
    const walkPauseMs = left > 0 ? Math.min(pace.scrubPauseMs, pace.scrubAgeMsMin) : pace.scrubPauseMs;
    const pauseMs = next === undefined ? walkPauseMs : paceMs;
    if (next === undefined) left = 0;
    restsUntil = performance.now() + pauseMs;
    return Math.min(pauseMs, pace.askMs);
  };
}

/** Many small nodes take as long as a few large ones. */
export function nodesOfNextScrub(
  nodes: number,
  { bytes, tookMs }: { readonly bytes: number; readonly tookMs: number },
  { scrubBytesPerSecond, scrubIntervalMs, scrubNodesMax }: BackgroundPace,
): number {
  const isRoom =
    // The reads of a step block the process if rows are in a file.
    2 * bytes <= (scrubBytesPerSecond * scrubIntervalMs) / 1000 && 2 * tookMs <= 50;
  return isRoom ? Math.min(scrubNodesMax, 2 * nodes) : Math.max(SCRUB_NODES_MIN, Math.floor(nodes / 2));
}

/** Increments the epoch. A database that replaced another under a running server is behind its bucket: then nothing is swept. */
function makeEpochGuard(intervalMs: number): (core: Core) => Promise<void> {
  let movedAt = performance.now();
  return async (core) => {
    if (performance.now() - movedAt < intervalMs) return;
    const epochs = await readEpochs(core);
    if (epochs === undefined) return;
    if (isBehind(epochs)) throw new StoreUnavailable(explainBehind(epochs));
    await moveEpoch(core, epochs);
    movedAt = performance.now();
  };
}

/** Updates the metric and logs why nothing is collected. */
async function compareClocks({ clocks }: Core): Promise<number> {
  await clocks?.assertAgree();
  return 10_000;
}

/** Searches less often if a search takes long because there is much rot. */
async function lookForRot({ core, pace }: BackgroundOptions): Promise<number> {
  const startedAt = performance.now();
  await core.rottenNodes.look(core.metadata);
  // The pause is 20 times the duration of the search.
  return Math.max(pace.rotLookMs, (performance.now() - startedAt) * 20);
}

/** The sweep lag, reported by the process that has the sweep's turn only. */
class SweepLag {
  /** monotonic ms when nothing was left to do, or when the turn began; undefined if another process has the turn */
  #caughtUpAt: number | undefined;
  readonly stop: () => void;

  constructor() {
    this.stop = METRICS.readBefore(() => {
      const lagMs = this.#caughtUpAt === undefined ? 0 : performance.now() - this.#caughtUpAt;
      SWEEP_LAG.set(lagMs / 1000);
    });
  }

  isOurs(): void {
    this.#caughtUpAt ??= performance.now();
  }

  isOfAnother(): void {
    this.#caughtUpAt = undefined;
  }

  hasCaughtUp(): void {
    this.#caughtUpAt = performance.now();
  }
}

interface AppHeld {
  readonly app: string;
  /** bytes, all three fields */
  readonly stored: number;
  readonly pending: number;
  readonly quota: number | undefined;
}

/** Apps without series of their own are left out. Resolves with the ms until the next reading. */
export function makeAppGaugesStep(
  apps: Pick<RegistryStore, 'readAll'>,
  metadata: Pick<MetadataStore, 'readAppTotals'>,
  /** bytes of an App's uploads in progress */
  heldBytesOf: (appId: string) => number,
): () => Promise<number> {
  return async () => {
    const startedAt = performance.now();
    const labels = new AppLabels();
    const read: AppHeld[] = [];
    for (const { appId, quotas } of await apps.readAll()) {
      const app = labels.labelOf(appId);
      if (app === OTHER_APP) break;
      const totals = await metadata.readAppTotals(appId);
      const pending = totals.pendingBytes + heldBytesOf(appId);
      read.push({ app, stored: storedOf(totals).bytes, pending, quota: quotas.maxBytes });
    }
    // Replaced in one go, so that no scrape sees a part.
    APP_STORED_BYTES.clear();
    APP_QUOTA_BYTES.clear();
    PENDING_BYTES.clear();
    for (const { app, stored, pending, quota } of read) {
      APP_STORED_BYTES.set({ app }, stored);
      PENDING_BYTES.set({ app }, pending);
      if (quota !== undefined) APP_QUOTA_BYTES.set({ app }, quota);
    }
    // The pause is 5 s, or 20 times as long as the reading.
    return Math.max(5_000, (performance.now() - startedAt) * 20);
  };
}
