/** The server's load, for plots, in memory: a point per minute for a day, and per hour for ninety days. */
import { HOUR_MS, MINUTE_MS } from '@holdfast/protocol';
import type { SampleValue } from '../metrics/metric.ts';
import type { MetricsSnapshot, Samples } from '../metrics/registry.ts';

export type Resolution = 'minute' | 'hour';

interface AppLoad {
  readonly app: string;
  readonly requests: number;
  readonly errors: number;
}

/** The increase since the previous point. */
export interface LoadPoint {
  /** ms since the epoch */
  readonly at: number;
  readonly requests: number;
  /** answers with a status of 500 or more */
  readonly errors: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
  /** the Apps with the most requests */
  readonly apps: readonly AppLoad[];
}

export class LoadHistory {
  readonly #minutes: LoadPoint[] = [];
  readonly #hours: LoadPoint[] = [];
  readonly #readMetrics: () => Promise<MetricsSnapshot>;
  readonly #timer: Timer;
  #last: { readonly minute: MetricsSnapshot; hour: MetricsSnapshot; hourAt: number } | undefined;

  constructor(readMetrics: () => Promise<MetricsSnapshot>) {
    this.#readMetrics = readMetrics;
    // A failed reading leaves a gap, which the next point covers.
    this.#timer = setInterval(() => void this.take(Date.now()).catch(() => undefined), MINUTE_MS);
    this.#timer.unref();
  }

  points(resolution: Resolution): readonly LoadPoint[] {
    return resolution === 'minute' ? this.#minutes : this.#hours;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Adds the point of a minute, and that of an hour if one has ended. `now`: ms since the epoch. */
  async take(now: number): Promise<void> {
    const current = await this.#readMetrics();
    const last = this.#last ?? { minute: {}, hour: {}, hourAt: now };
    push(this.#minutes, comparePoints(now, last.minute, current), 24 * 60);
    const isHourOver = now - last.hourAt >= HOUR_MS;
    if (isHourOver) push(this.#hours, comparePoints(now, last.hour, current), 90 * 24);
    this.#last = {
      minute: current,
      hour: isHourOver ? current : last.hour,
      hourAt: isHourOver ? now : last.hourAt,
    };
  }
}

function push(points: LoadPoint[], point: LoadPoint, max: number): void {
  points.push(point);
  if (points.length > max) points.shift();
}

function comparePoints(at: number, before: MetricsSnapshot, now: MetricsSnapshot): LoadPoint {
  const apps = new Map<string, { requests: number; errors: number }>();
  let requests = 0;
  let errors = 0;
  const former = before.holdfast_requests_total;
  for (const [labels, value] of now.holdfast_requests_total ?? []) {
    const more = Math.max(0, numberOf(value) - numberOf(former?.get(labels) ?? 0));
    if (more === 0) continue;
    const isError = Number(labelOf(labels, 'status')) >= 500;
    const app = labelOf(labels, 'app');
    const load = apps.get(app) ?? { requests: 0, errors: 0 };
    load.requests += more;
    requests += more;
    if (isError) {
      load.errors += more;
      errors += more;
    }
    apps.set(app, load);
  }
  const busiest = [...apps]
    .map(([app, load]) => ({ app, ...load }))
    .toSorted((one, other) => other.requests - one.requests)
    // Bounds the memory of each point.
    .slice(0, 10);
  const grown = (name: string): number => Math.max(0, sumOf(now[name]) - sumOf(before[name]));
  return {
    ...{ at, requests, errors, apps: busiest },
    receivedBytes: grown('holdfast_received_bytes_total'),
    sentBytes: grown('holdfast_sent_bytes_total'),
  };
}

function sumOf(samples: Samples = new Map()): number {
  let sum = 0;
  for (const value of samples.values()) sum += numberOf(value);
  return sum;
}

const numberOf = (value: SampleValue): number => (typeof value === 'number' ? value : 0);

/** A label's value in text such as `app="a",status="200"`. */
function labelOf(labels: string, name: string): string {
  const match = new RegExp(`(?:^|,)${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels);
  return (match?.[1] ?? '').replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));
}
