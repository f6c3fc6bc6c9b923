/** The load of the server over time: read from `/metrics` again and again while this page is open, and kept for an hour. */
import { SECOND_MS } from '@holdfast/protocol';
import { signal } from '@preact/signals';
import { OperatorError } from '../parts/describe-error.ts';
import { REFRESH_MS } from '../parts/loaded.ts';
import { parseMetrics, type Sample, type Scrape, sumOf } from './metrics-text.ts';
import { operatorAccess, readText } from './operator-api.ts';

const KEPT = (60 * 60_000) / REFRESH_MS;

interface Reading {
  /** ms since the epoch */
  readonly at: number;
  readonly requests: number;
  /** answers of 400 to 499 */
  readonly refused: number;
  /** answers of 500 and more */
  readonly failed: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

/** Average rates per second up to `at`. */
export type Rates = Reading;

export interface Load {
  readonly scrape: Scrape | undefined;
  readonly rates: readonly Rates[];
  readonly error: unknown;
}

export const load = signal<Load>({ scrape: undefined, rates: [], error: undefined });

let last: Reading | undefined;
let timer: ReturnType<typeof setInterval> | undefined;

/** Goes on for as long as the page is there: looking at another view leaves no gap in the plots. */
export function watchLoad(): void {
  if (timer !== undefined) return;
  timer = setInterval(() => document.hidden || void readOnce(), REFRESH_MS);
  void readOnce();
}

export async function readOnce(): Promise<void> {
  if (operatorAccess.value === 'refused') return;
  try {
    const { status, text } = await readText('/metrics', AbortSignal.timeout(2 * REFRESH_MS));
    if (status === 401) operatorAccess.value = 'refused';
    if (status !== 200) throw new OperatorError(status, `The server answered ${status} for its metrics.`);
    const scrape = parseMetrics(text);
    const now = readCounters(scrape, Date.now());
    const rate = last === undefined ? undefined : rateOf(last, now);
    last = now;
    const { rates } = load.value;
    load.value = {
      scrape,
      rates: rate === undefined ? rates : [...rates, rate].slice(-KEPT),
      error: undefined,
    };
  } catch (error) {
    load.value = { ...load.value, error };
  }
}

function readCounters(scrape: Scrape, at: number): Reading {
  const requests = (isWanted: (status: number) => boolean): number =>
    sumOf(scrape, 'holdfast_requests_total', ({ labels }: Sample) => isWanted(Number(labels.status)));
  return {
    at,
    requests: requests(() => true),
    refused: requests((status) => status >= 400 && status < 500),
    failed: requests((status) => status >= 500),
    sentBytes: sumOf(scrape, 'holdfast_sent_bytes_total'),
    receivedBytes: sumOf(scrape, 'holdfast_received_bytes_total'),
  };
}

/** undefined: the server was started again in between, so that its counters began anew. */
function rateOf(before: Reading, now: Reading): Rates | undefined {
  const seconds = (now.at - before.at) / SECOND_MS;
  if (seconds <= 0 || now.requests < before.requests) return undefined;
  const rate = (name: keyof Reading): number => Math.max(0, now[name] - before[name]) / seconds;
  return {
    at: now.at,
    requests: rate('requests'),
    refused: rate('refused'),
    failed: rate('failed'),
    sentBytes: rate('sentBytes'),
    receivedBytes: rate('receivedBytes'),
  };
}
