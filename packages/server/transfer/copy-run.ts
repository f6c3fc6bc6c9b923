/** One run of a copy: source, target, checkpoint and progress, and the walk through all Spaces from the checkpoint. */

import { setTimeout as sleep } from 'node:timers/promises';
import { PAGE_ROWS } from '../core/batches.ts';
import type { Space } from '../core/model.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { USAGE_NONE } from '../core/usage-delta.ts';
import type { CopiedDeployment } from '../deployment/deployment.ts';
import type { ListedSpace, Totals } from '../engine/transfer-ports.ts';
import { type Checkpoint, COUNTS_NONE, type CopyCounts, formatCheckpoint } from './checkpoint.ts';
import type { TransferEvent } from './events.ts';
import { readPageAt, SPACE_START, type WalkedPage, type WalkLimits } from './walk-space.ts';

/** Retries a step while a store is unavailable, so that a copy of many hours survives a restart of either side. */
export interface Patience {
  /** ms before each further try; after the last one the failure is thrown */
  readonly pausesMs: readonly number[];
  readonly signal: AbortSignal;
  onRetry(error: StoreUnavailable, pauseMs: number): void;
}

export const PAUSES_MS: readonly number[] = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000];

/** `attempt` counts from 0. Rejects with the signal's reason once it fires. */
export async function patiently<T>(patience: Patience, step: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    patience.signal.throwIfAborted();
    try {
      return await step(attempt);
    } catch (error) {
      const pauseMs = patience.pausesMs[attempt];
      if (!(error instanceof StoreUnavailable) || error.isDamage || pauseMs === undefined) throw error;
      patience.onRetry(error, pauseMs);
      await sleep(pauseMs, undefined, { signal: patience.signal }).catch(() => undefined);
    }
  }
}

export interface RunLimits extends WalkLimits {
  /** entries that are written together, exceeded by one page at most */
  readonly batchEntriesMax: number;
  /** objects that travel at once */
  readonly objectsInFlightMax: number;
}

export const RUN_LIMITS: RunLimits = {
  pageEntriesMax: 512,
  pageBytesMax: 64 * 1024 * 1024,
  batchEntriesMax: 512,
  objectsInFlightMax: 32,
};

export interface CopyRun {
  readonly source: CopiedDeployment;
  readonly target: CopiedDeployment;
  readonly totals: Totals;
  readonly limits: RunLimits;
  readonly patience: Patience;
  checkpoint: Checkpoint;
  /** found so far, earlier runs included */
  damagedNodes: number;
  tell(event: DistributiveOmit<TransferEvent, 'at'>): void;
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

export interface SpaceVisit {
  page(page: WalkedPage): Promise<void>;
}

/** Visits every page from the checkpoint on, Space by Space. `visit` moves the checkpoint. */
export async function visitSpaces(run: CopyRun, begin: (listed: ListedSpace) => SpaceVisit): Promise<void> {
  for (;;) {
    const after = run.checkpoint.completeUntil;
    const spaces = await patiently(run.patience, () => run.source.rows.listSpaces(after, PAGE_ROWS));
    for (const listed of spaces) {
      const visit = begin(listed);
      let place = run.checkpoint.place;
      for (let isComplete = false; !isComplete; ) {
        const page = await readSourcePage(run, listed.space, place);
        await visit.page(page);
        isComplete = page.next === undefined;
        place = page.next ?? SPACE_START;
      }
    }
    if (spaces.length < PAGE_ROWS) return;
  }
}

function readSourcePage(run: CopyRun, space: Space, place: Checkpoint['place']): Promise<WalkedPage> {
  return patiently(run.patience, () => readPageAt(run.source.rows, space, place, run.limits));
}

/** The checkpoint after everything up to `page`, whose nodes count as `more`. */
export function advance(
  checkpoint: Checkpoint,
  { position }: ListedSpace,
  { next }: Pick<WalkedPage, 'next'>,
  more: Pick<CopyCounts, 'nodes' | 'bytes'>,
): Checkpoint {
  const isComplete = next === undefined;
  const { counts } = checkpoint;
  return {
    ...checkpoint,
    completeUntil: isComplete ? position : checkpoint.completeUntil,
    place: next ?? SPACE_START,
    tally: isComplete ? USAGE_NONE : checkpoint.tally,
    counts: {
      spaces: counts.spaces + Number(isComplete),
      nodes: counts.nodes + more.nodes,
      bytes: counts.bytes + more.bytes,
    },
  };
}

export function countNodes({ part }: WalkedPage): Pick<CopyCounts, 'nodes' | 'bytes'> {
  if (part.kind !== 'nodes') return COUNTS_NONE;
  const bytes = part.entries.reduce((sum, { row }) => sum + row.canonicalSize, 0);
  return { nodes: part.entries.length, bytes };
}

export async function saveCheckpoint(run: CopyRun, checkpoint: Checkpoint): Promise<void> {
  await patiently(run.patience, () => run.target.rows.setMark('unfinished', formatCheckpoint(checkpoint)));
  run.checkpoint = checkpoint;
}

export function tellProgress(run: CopyRun): void {
  const { phase, counts } = run.checkpoint;
  run.tell({ type: 'progress', phase, counts, totals: run.totals });
}

export const describeSpace = ({ appId, spaceId }: Space): string =>
  `Space ${JSON.stringify(spaceId)} of App ${JSON.stringify(appId)}`;
