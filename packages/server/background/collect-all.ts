/** Automatic collection (`serve --gc-every`): rounds over the Spaces of all active Apps, spread over the interval. */
import { findJson, isRecord } from '@holdfast/protocol';
import type { RegistryStore } from '../auth/registry-store.ts';
import { PAGE_ROWS, pagesOf } from '../core/batches.ts';
import { runGc } from '../core/collect/run-gc.ts';
import type { Core } from '../core/core.ts';
import type { Space } from '../core/model.ts';
import type { SpaceEntry } from '../core/tenancy-ports.ts';
import type { Log } from '../log.ts';
import { BACKGROUND_FAILURES, GC_LAST_SUCCESS, noteCollection } from '../metrics/server-metrics.ts';
import type { BackgroundTurns } from './turns.ts';

/** Nodes per step: few enough not to slow requests. */
const PASS_NODES = 500;
/** ms between the passes of one Space, so that a large Space does not keep the stores busy */
const PASS_REST_MS = 250;

export interface CollectAllOptions {
  readonly core: Core;
  readonly apps: RegistryStore;
  readonly turns: BackgroundTurns;
  readonly log: Log;
  /** ms between the starts of two rounds */
  readonly everyMs: number;
  /** ms between requests for a turn */
  readonly askMs: number;
}

/** The progress of a round; another process resumes it. */
interface Round {
  /** ms since the epoch, by the clock of the rows */
  readonly startedAt: number;
  /** the last finished position in the listing of Spaces; undefined if none */
  readonly after: string | undefined;
  readonly isFinished: boolean;
  /** the planned duration of the round, ms */
  readonly everyMs: number;
  /** ms between two Spaces */
  readonly restMs: number;
  /** Spaces whose collection failed */
  readonly failed: number;
}

/** A step does one pass of one Space, or finds that the round is over. Resolves with the ms until the next step. */
export function makeCollectStep(options: CollectAllOptions): () => Promise<number> {
  const { core, turns, askMs, everyMs } = options;
  /** ms of the monotonic clock */
  let restsUntil = 0;
  return async () => {
    const turn = await turns.take('gc');
    if (turn === undefined) return askMs;
    const restMs = restsUntil - performance.now();
    if (restMs > 0) return Math.min(restMs, askMs);
    const known = atPace(parseRound(turn.position), everyMs);
    const now = await core.metadata.readClock();
    const waitMs = known === undefined ? 0 : restOf(known, now);
    // A round that takes longer than planned is finished before another starts.
    if (known?.isFinished === true && waitMs > 0) return Math.min(waitMs, askMs);
    const round = known === undefined || known.isFinished ? await beginRound(options, now) : known;
    const { next, restMs: pauseMs } = await goOn(options, round);
    await turns.note('gc', JSON.stringify(next));
    restsUntil = performance.now() + pauseMs;
    return Math.min(pauseMs, askMs);
  };
}

/** ms until the next round. A start in the future comes from a wrong clock and is ignored. */
function restOf({ startedAt, everyMs }: Round, now: number): number {
  return now < startedAt ? 0 : startedAt + everyMs - now;
}

async function beginRound({ core, everyMs }: CollectAllOptions, startedAt: number): Promise<Round> {
  let spaces = 0;
  const pages = pagesOf(
    (after, limit) => core.metadata.page('spaces', { after, limit }),
    ({ position }) => position,
  );
  for await (const page of pages) spaces += page.length;
  const restMs = Math.floor(everyMs / (spaces + 1));
  return { startedAt, after: undefined, isFinished: false, everyMs, restMs, failed: 0 };
}

async function goOn(
  options: CollectAllOptions,
  round: Round,
): Promise<{ readonly next: Round; readonly restMs: number }> {
  const { core, apps, log } = options;
  const found = await findNext(core, apps, round.after);
  if (found.entry === undefined) {
    const isOver = found.after === undefined;
    if (isOver && round.failed === 0) GC_LAST_SUCCESS.set(Date.now() / 1000);
    return { next: { ...round, after: found.after, isFinished: isOver }, restMs: PASS_REST_MS };
  }
  const { space, position } = found.entry;
  try {
    if (await collectOnce(core, space))
      return { next: { ...round, after: found.after }, restMs: PASS_REST_MS };
    return { next: { ...round, after: position }, restMs: round.restMs };
  } catch (error) {
    BACKGROUND_FAILURES.add({ loop: 'gc' }, 1);
    log.error(
      { app: space.appId, space: space.spaceId, err: error },
      'a Space could not be collected; the next round tries it again',
    );
    return { next: { ...round, after: position, failed: round.failed + 1 }, restMs: round.restMs };
  }
}

/** The next Space that may have something to collect; without one the search resumes at `after`; undefined at the end of all Spaces. */
async function findNext(
  core: Core,
  apps: RegistryStore,
  after: string | undefined,
): Promise<{ readonly entry: SpaceEntry | undefined; readonly after: string | undefined }> {
  const active = new Set(
    (await apps.readAll()).filter(({ status }) => status === 'active').map(({ appId }) => appId),
  );
  const page = await core.metadata.page('spaces', { after, limit: PAGE_ROWS });
  let before = after;
  for (const entry of page) {
    if (active.has(entry.space.appId) && mayHaveCandidates(entry)) return { entry, after: before };
    before = entry.position;
  }
  return { entry: undefined, after: page.length < PAGE_ROWS ? undefined : before };
}

/** Leased nodes are not candidates. If the counters are damaged, the pass runs and reports it. */
function mayHaveCandidates({ counters }: SpaceEntry): boolean {
  return counters === undefined || counters.nodeCount > counters.leasedNodeCount;
}

/** Resolves with whether more is left to collect. */
async function collectOnce(core: Core, space: Space): Promise<boolean> {
  const { examined, deleted } = noteCollection(await runGc(core, space, PASS_NODES));
  return examined === PASS_NODES && deleted > 0;
}

/** Applies the current `--gc-every` to a round started with another one. */
function atPace(round: Round | undefined, everyMs: number): Round | undefined {
  if (round === undefined || round.everyMs === everyMs) return round;
  return { ...round, everyMs, restMs: Math.floor((round.restMs * everyMs) / round.everyMs) };
}

/** A malformed position comes from another version: the round starts again. */
function parseRound(position: string | undefined): Round | undefined {
  const value = findJson(position ?? '');
  if (!isRecord(value)) return undefined;
  const { startedAt, after, isFinished, everyMs, restMs, failed } = value;
  const isSound =
    [startedAt, everyMs, restMs, failed].every(Number.isFinite) &&
    typeof isFinished === 'boolean' &&
    (after === undefined || typeof after === 'string');
  return isSound ? (value as unknown as Round) : undefined;
}
