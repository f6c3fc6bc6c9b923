/** Words and numbers of the progress views. Pure. */
import type {
  ProgressCounters,
  ProgressEvent,
  ProgressJob,
  ProgressSnapshot,
  ProgressTotals,
} from '@holdfast/client/internal';
import { countOf, formatBytes, formatCount } from '@holdfast/protocol';
import { amountsOf, isAllRead, type Rates } from './job-rates.ts';

/** Bundles and copies know no entries of trees: what they count are nodes. */
function formatEntries(job: ProgressJob, count: number): string {
  return job === 'copy' || job.startsWith('bundle-')
    ? countOf(count, 'node')
    : countOf(count, 'entry', 'entries');
}

/** Rounded to what a person reads: seconds, then minutes, then hours. */
export function formatTime(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const VERBS: Readonly<Record<ProgressJob, string>> = {
  push: 'uploading',
  pull: 'downloading',
  verify: 'verifying',
  'bundle-create': 'writing',
  'bundle-import': 'importing',
  copy: 'copying',
  read: 'reading',
};

export function describePhase(job: ProgressJob, snapshot: ProgressSnapshot): string {
  switch (snapshot.phase) {
    case 'scan':
      if (job !== 'push') return 'looking';
      return isAllRead(snapshot) ? 'sending the rest' : 'reading';
    case 'negotiate':
      return 'asking what is missing';
    case 'transfer':
      return VERBS[job];
    case 'check':
      return 'checking';
    case 'commit':
      return 'committing';
  }
}

/** Dealt with, of how much, and how much of it was there already. */
export function describeAmounts(job: ProgressJob, snapshot: ProgressSnapshot): string {
  const { phase, counters } = snapshot;
  const { done, whole } = amountsOf(snapshot);
  const files =
    whole.files === undefined
      ? formatEntries(job, done.files)
      : `${formatCount(done.files)} of ${formatEntries(job, whole.files)}`;
  const bytes =
    whole.bytes === undefined
      ? `${formatBytes(done.bytes)}${phase === 'scan' ? ' so far' : ''}`
      : `${formatBytes(done.bytes)} of ${formatBytes(whole.bytes)}`;
  // A share of what is done so far would mislead, because what is there already is done first and at once.
  const { deduplicatedBytes } = counters;
  const isTold = bringsBytes(job) && deduplicatedBytes > 0;
  return `${files}, ${bytes}${isTold ? `, ${formatBytes(deduplicatedBytes)} there already` : ''}`;
}

/** Jobs that bring nothing anywhere find nothing there already. */
function bringsBytes(job: ProgressJob): boolean {
  return job !== 'verify' && job !== 'bundle-create';
}

function describeShare(job: ProgressJob, { bytes, deduplicatedBytes }: ProgressCounters): string {
  if (bytes === 0 || !bringsBytes(job)) return '';
  return `, ${Math.floor((100 * deduplicatedBytes) / bytes)} % there already`;
}

/** Empty while nothing can be said. */
export function describeRates({ bytesPerSecond, remainingMs }: Rates): string {
  const parts = [
    ...(bytesPerSecond >= 1 ? [`${formatBytes(bytesPerSecond)}/s`] : []),
    ...(remainingMs === undefined ? [] : [`${formatTime(remainingMs)} left`]),
  ];
  return parts.join(', ');
}

/** The share that is dealt with, 0 to 1; undefined: the whole is not known. Bytes that a push has read count half. */
export function shareDone(snapshot: ProgressSnapshot): number | undefined {
  const { done, whole } = amountsOf(snapshot);
  const share = shareOf(done, whole);
  if (share === undefined || snapshot.totals.surveyedBytes === undefined) return share;
  const { phase, counters } = snapshot;
  const settled = shareOf(counters, whole) ?? 0;
  return ((phase === 'scan' ? share : 1) + settled) / 2;
}

/** Many small files take as long as one large one, so an entry counts as much as a byte where their number is known. */
function shareOf(
  done: { readonly files: number; readonly bytes: number },
  whole: ProgressTotals,
): number | undefined {
  if (whole.bytes === undefined) return undefined;
  const [entries, entriesDone] = whole.files === undefined ? [0, 0] : [whole.files, done.files];
  const sum = whole.bytes + entries;
  return sum === 0 ? undefined : Math.min(1, (done.bytes + entriesDone) / sum);
}

export type Stall = Extract<ProgressEvent, { type: 'stall' }>;

export function describeStall(stall: Stall): string {
  return `${describeStallTime(stall)}: ${stall.cause}`;
}

export function describeStallTime({ at, sinceAt }: Stall): string {
  return `stalled for ${formatTime(at - sinceAt)}`;
}

export function describeEnd(job: ProgressJob, counters: ProgressCounters, elapsedMs: number): string {
  const { files, bytes, transferredBytes, requests } = counters;
  const amounts = `${formatEntries(job, files)}, ${formatBytes(bytes)}${describeShare(job, counters)}`;
  // Jobs that do not count their requests say nothing of them.
  const asked = requests === 0 ? '' : ` in ${countOf(requests, 'request')}`;
  return `${amounts}; ${formatBytes(transferredBytes)} sent or received${asked}, ${formatTime(elapsedMs)}`;
}

/** Hashes as one recognizes them: whole ones push everything else off the line. */
export function shortenHashes(text: string): string {
  return text.replace(/\b[0-9a-f]{64}\b/g, (hash) => `${hash.slice(0, 12)}…`);
}
