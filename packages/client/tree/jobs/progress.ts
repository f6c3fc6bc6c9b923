/** Progress of a long job: one stream of events. The job counts; the reporter decides when to tell, and names what is waited for. */
import { checkFunction, checkObject } from '../../arguments.ts';
import { type Clock, systemClock } from '../../deadline.ts';

export type ProgressJob = 'push' | 'pull' | 'verify' | 'bundle-create' | 'bundle-import' | 'copy' | 'read';

/** `scan`: reading and hashing here. `negotiate`: learning what the other side lacks. `commit`: the root ref. */
export type ProgressPhase = 'scan' | 'negotiate' | 'transfer' | 'check' | 'commit';

/** Everything only grows while a job runs. */
export interface ProgressCounters {
  /** entries dealt with, whatever it took: files, folders and links, the root among them; of bundles and copies, nodes */
  readonly files: number;
  /** bytes of files dealt with; `deduplicatedBytes` are among them */
  readonly bytes: number;
  /** bytes of files that were there already and did not travel */
  readonly deduplicatedBytes: number;
  /** nodes and canonical bytes that travelled */
  readonly transferredNodes: number;
  readonly transferredBytes: number;
  /** requests sent, tries included */
  readonly requests: number;
}

export interface ProgressTotals {
  /** while a tree is read: of what has been read */
  readonly files?: number | undefined;
  readonly bytes?: number | undefined;
  /** of all that there is to read, once a push has looked; the tree may change meanwhile */
  readonly surveyedFiles?: number | undefined;
  readonly surveyedBytes?: number | undefined;
}

interface At {
  /** ms since the epoch */
  readonly at: number;
}

interface JobEnd extends At {
  readonly elapsedMs: number;
  readonly counters: ProgressCounters;
}

export interface ProgressSnapshot {
  readonly phase: ProgressPhase;
  readonly counters: ProgressCounters;
  readonly totals: ProgressTotals;
  /** a path or hash being worked on, for people */
  readonly item: string | undefined;
}

export type ProgressEvent =
  | (At & { readonly type: 'start'; readonly job: ProgressJob; readonly subject: string })
  | (At & { readonly type: 'progress' } & ProgressSnapshot)
  /** Nothing moved since `sinceAt`, because of `cause`. Said again while it lasts. */
  | (At & { readonly type: 'stall'; readonly sinceAt: number; readonly cause: string })
  | (At & { readonly type: 'resumed'; readonly stalledMs: number })
  /** Something the user should know that does not end the job. */
  | (At & { readonly type: 'warning'; readonly message: string })
  /** `result` is a hash where the job has one. */
  | (JobEnd & { readonly type: 'done'; readonly result: string | undefined })
  | (JobEnd & { readonly type: 'failed'; readonly message: string });

/** A function is called only when the text is told: to name every file of a large tree takes a while. */
type ToldText = string | (() => string);

/** Receives the reports of a job. All calls are cheap: one per file or request is fine. */
export interface ProgressReporter {
  phase(phase: ProgressPhase): void;
  /** Adds to the counters. */
  count(more: Partial<ProgressCounters>): void;
  /** Sets the totals named; the others stay. */
  expect(totals: ProgressTotals): void;
  item(item: ToldText): void;
  /** The job now waits for something; call the result when it no longer does. Waits may overlap. */
  waitFor(cause: ToldText): () => void;
  warn(message: string): void;
  /** ms until now in which the process did not run, because it was stopped or its machine slept. */
  stoppedMs?(): number;
}

/** A reporter and the end of its job, which stops its timer: call one of both, always. */
export interface RunningProgress extends ProgressReporter {
  done(result?: string): void;
  fail(message: string): void;
}

export interface ProgressOptions {
  readonly job: ProgressJob;
  /** The subject of the job, for people: a path, a hash. */
  readonly subject: string;
  readonly onEvent: (event: ProgressEvent) => void;
  /** The job counts as stalled only while it waits for something: otherwise its output may go to a slow reader. */
  readonly stallsOnWaitsOnly?: boolean | undefined;
  /** Called once when for HANG_AFTER_MS nothing moved and nothing was waited for: the job waits for itself. End it. */
  readonly onHang?: ((error: JobHangError) => void) | undefined;
  readonly clock?: Clock | undefined;
}

/** Between two `progress` events. */
export const PROGRESS_INTERVAL_MS = 200;
/** After so long without movement a job says why, and again after as long; a quiet job speaks after a minute. */
const STALL_AFTER_MS = 7_500;
/** Well above any pause between two steps of a job that runs. */
const HANG_AFTER_MS = 30_000;
/** Counted in ticks, not by the clock: a laptop that slept, or a process that was stopped, did not hang. */
const HANG_TICKS = HANG_AFTER_MS / PROGRESS_INTERVAL_MS;

/** The job hangs, by a fault of this program. `message` says so. */
export class JobHangError extends Error {
  override readonly name = 'JobHangError';
}

const COUNTERS_NONE: ProgressCounters = {
  files: 0,
  bytes: 0,
  deduplicatedBytes: 0,
  transferredNodes: 0,
  transferredBytes: 0,
  requests: 0,
};

export const SILENT_PROGRESS: ProgressReporter = {
  phase: () => undefined,
  count: () => undefined,
  expect: () => undefined,
  item: () => undefined,
  waitFor: () => () => undefined,
  warn: () => undefined,
};

/** Starts the event stream of one job. A timer runs until `done` or `fail`. */
export function startProgress(options: ProgressOptions): RunningProgress {
  const call = { name: 'startProgress', requestOperation: 'createClient' } as const;
  checkObject(call, 'the options', options);
  checkFunction(call, 'onEvent', options.onEvent);
  return runProgress(options);
}

function runProgress({
  job,
  subject,
  onEvent,
  stallsOnWaitsOnly = false,
  onHang = () => undefined,
  clock = systemClock,
}: ProgressOptions): RunningProgress {
  const startedAt = clock.now();
  const counters = { ...COUNTERS_NONE };
  const waits = new Set<{ readonly cause: ToldText }>();
  let totals: ProgressTotals = {};
  let phase: ProgressPhase = 'scan';
  let item: ToldText | undefined;
  /** Something is to be told; something went on. Requests alone do not: they are also what a stalled job sends. */
  let isChanged = true;
  let isMoved = true;
  let movedAt = startedAt;
  // A job that could not move is not stalled.
  const stops = new StoppedTime(startedAt, PROGRESS_INTERVAL_MS, (ms) => {
    movedAt += ms;
  });
  /** of this stall: one for each STALL_AFTER_MS */
  let toldStalls = 0;
  /** Ticks in a row without any sign of life. */
  let deadTicks = 0;
  let stopTimer: (() => void) | undefined;

  const nameItem = (): string | undefined => (item === undefined ? undefined : tell(item));
  const watch = (): void => {
    const isAlive = isChanged || isMoved || waits.size > 0;
    deadTicks = isAlive ? 0 : deadTicks + 1;
    if (deadTicks === HANG_TICKS) onHang(new JobHangError(explainHang(phase, nameItem())));
  };
  const tick = (): void => {
    const at = clock.now();
    stops.upTo(at);
    watch();
    if (stallsOnWaitsOnly && waits.size === 0) isMoved = true;
    if (isMoved) {
      if (toldStalls > 0) onEvent({ type: 'resumed', at, stalledMs: at - movedAt });
      toldStalls = 0;
      movedAt = at;
    }
    if (isChanged || isMoved) {
      onEvent({ type: 'progress', at, phase, counters: { ...counters }, totals, item: nameItem() });
    }
    isChanged = false;
    isMoved = false;
    const stalls = Math.floor((at - movedAt) / STALL_AFTER_MS);
    if (stalls > toldStalls) {
      toldStalls = stalls;
      onEvent({ type: 'stall', at, sinceAt: movedAt, cause: explainStall(waits, nameItem()) });
    }
    stopTimer = clock.startTimer(PROGRESS_INTERVAL_MS, tick);
  };
  const end = (): JobEnd => {
    stopTimer?.();
    const at = clock.now();
    onEvent({ type: 'progress', at, phase, counters: { ...counters }, totals, item: nameItem() });
    return { at, elapsedMs: at - startedAt, counters: { ...counters } };
  };

  onEvent({ type: 'start', at: startedAt, job, subject });
  stopTimer = clock.startTimer(PROGRESS_INTERVAL_MS, tick);
  return {
    phase(next) {
      phase = next;
      isMoved = true;
    },
    count(more) {
      for (const name of Object.keys(more) as (keyof ProgressCounters)[]) {
        counters[name] += more[name] ?? 0;
        if (name === 'requests') isChanged = true;
        else isMoved = true;
      }
    },
    expect(more) {
      totals = { ...totals, ...more };
      isChanged = true;
    },
    item(next) {
      item = next;
      isMoved = true;
    },
    waitFor(cause) {
      const wait = { cause };
      waits.add(wait);
      deadTicks = 0;
      return () => waits.delete(wait);
    },
    warn: (message) => onEvent({ type: 'warning', at: clock.now(), message }),
    stoppedMs: () => stops.upTo(clock.now()),
    done: (result) => onEvent({ type: 'done', ...end(), result }),
    fail: (message) => onEvent({ type: 'failed', ...end(), message }),
  };
}

/** A path of kilobytes would hide the message, so only its beginning and end are shown. */
export function shortenText(text: string): string {
  const characters = [...text];
  if (characters.length <= 240) return text;
  return `${characters.slice(0, 120).join('')}…${characters.slice(-120).join('')}`;
}

function tell(text: ToldText): string {
  return typeof text === 'function' ? text() : text;
}

/** The newest wait is the narrowest cause: the ones before it are what it is part of. */
function explainStall(waits: ReadonlySet<{ readonly cause: ToldText }>, item: string | undefined): string {
  const newest = [...waits].at(-1);
  if (newest !== undefined) return shortenText(tell(newest.cause));
  return item === undefined ? 'no step has ended' : `still working on ${shortenText(item)}`;
}

function explainHang(phase: ProgressPhase, item: string | undefined): string {
  const where = item === undefined ? '' : `, last at ${shortenText(item)}`;
  return `the job hangs: no request, no file and no stream is under way (phase ${phase}${where})`;
}

/** Learns of it from ticks that should come every `intervalMs`. Nothing else tells: a process is not asked before it is stopped. */
class StoppedTime {
  readonly #intervalMs: number;
  readonly #onStop: (ms: number) => void;
  /** the last time that the process is known to have run */
  #ranAt: number;
  #totalMs = 0;

  /** `onStop` is told how long each stop took. */
  constructor(startedAt: number, intervalMs: number, onStop: (ms: number) => void) {
    this.#ranAt = startedAt;
    this.#intervalMs = intervalMs;
    this.#onStop = onStop;
  }

  /** The process runs at `at`, a tick or not; all of the time until then in which it did not, ms. */
  upTo(at: number): number {
    const lateMs = at - this.#ranAt - this.#intervalMs;
    this.#ranAt = at;
    // A busy process is late by less.
    if (lateMs >= 2_000) {
      this.#totalMs += lateMs;
      this.#onStop(lateMs);
    }
    return this.#totalMs;
  }
}
