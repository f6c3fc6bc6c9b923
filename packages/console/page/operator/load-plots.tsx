/** Requests and bytes over time: of this hour as this page has seen it, or longer as the server remembers it. */
import { MINUTE_MS, SECOND_MS } from '@holdfast/protocol';
import { useState } from 'preact/hooks';
import { formatBytes, formatCount, formatInstant } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Failure } from '../parts/notices.tsx';
import { printable } from '../parts/printable.ts';
import type { Rates } from './load.ts';
import { read } from './operator-api.ts';
import { Plot } from './plot.tsx';
import type { LoadHistory, LoadPoint } from './shapes.ts';

/** of a line */
const POINTS_MIN = 2;
const openedAt = Date.now();

export const formatRate = (perSecond: number): string =>
  `${perSecond >= 10 || perSecond === 0 ? formatCount(Math.round(perSecond)) : perSecond.toFixed(1)}/s`;
const formatByteRate = (perSecond: number): string => `${formatBytes(Math.round(perSecond))}/s`;

const SPANS = [
  ['now', 'Now'],
  ['minute', 'Day'],
  ['hour', '90 days'],
] as const;
type Span = (typeof SPANS)[number][0];

export function LoadPlots({ rates }: { readonly rates: readonly Rates[] }) {
  const [span, setSpan] = useState<Span>('now');
  return (
    <section aria-label="Over time">
      <div class="head">
        <h2>Over time</h2>
        <fieldset class="choice" aria-label="How long">
          {SPANS.map(([value, label]) => (
            <button key={value} type="button" aria-pressed={span === value} onClick={() => setSpan(value)}>
              {label}
            </button>
          ))}
        </fieldset>
      </div>
      {span === 'now' ? <Now rates={rates} /> : <Remembered key={span} resolution={span} />}
    </section>
  );
}

function Now({ rates }: { readonly rates: readonly Rates[] }) {
  return (
    <>
      {rates.length < POINTS_MIN ? (
        <Collecting since={openedAt} next="The first points come within 10 seconds." />
      ) : (
        <Plots rates={rates} withRefusals />
      )}
      <p class="soft">Since this page was opened, every 5 seconds.</p>
    </>
  );
}

function Remembered({ resolution }: { readonly resolution: 'minute' | 'hour' }) {
  const stepMs = resolution === 'minute' ? MINUTE_MS : 60 * MINUTE_MS;
  const loaded = useLoaded(
    `history ${resolution}`,
    async (signal) => {
      const { points } = await read<LoadHistory>('history', { resolution }, signal);
      return { rates: points.map((point, index) => rateOf(point, points[index - 1], stepMs)), points };
    },
    { everyMs: MINUTE_MS },
  );
  const { rates = [], points = [] } = loaded.data ?? {};
  return (
    <>
      <Failure error={loaded.error} retry={loaded.reload} />
      {rates.length < POINTS_MIN ? (
        <Collecting
          since={points[0]?.at ?? openedAt}
          next={`There is a point a ${resolution}, and two make a line. The current load is under “Now”.`}
        />
      ) : (
        <Plots rates={rates} />
      )}
      {points.length === 0 ? null : <BusyApps points={points} />}
      <p class="soft">
        The server remembers this since it started. Longer: scrape <code>/metrics</code> with Prometheus; a
        dashboard for Grafana is in <code>deploy/</code>.
      </p>
    </>
  );
}

/** Instead of a plot without a line. */
function Collecting({ since, next }: { readonly since: number; readonly next: string }) {
  return (
    <div class="panel" role="status">
      <p>
        Collecting since {formatInstant(since)}. <span class="soft">{next}</span>
      </p>
    </div>
  );
}

/** A point may cover more than its step, where one was missed. */
function rateOf(point: LoadPoint, before: LoadPoint | undefined, stepMs: number): Rates {
  const seconds = Math.max(stepMs, before === undefined ? stepMs : point.at - before.at) / SECOND_MS;
  return {
    at: point.at,
    requests: point.requests / seconds,
    refused: 0,
    failed: point.errors / seconds,
    sentBytes: point.sentBytes / seconds,
    receivedBytes: point.receivedBytes / seconds,
  };
}

function Plots({
  rates,
  withRefusals = false,
}: {
  readonly rates: readonly Rates[];
  readonly withRefusals?: boolean;
}) {
  const times = rates.map(({ at }) => at / SECOND_MS);
  const values = (name: keyof Rates): number[] => rates.map((each) => each[name]);
  const refused = { label: 'refused', color: '--plot-2', values: values('refused') } as const;
  return (
    <div class="plots">
      <Plot
        title="Requests"
        times={times}
        format={formatRate}
        lines={[
          { label: 'answered', color: '--accent', values: values('requests') },
          ...(withRefusals ? [refused] : []),
          { label: 'failed', color: '--bad', values: values('failed') },
        ]}
      />
      <Plot
        title="Bytes"
        times={times}
        format={formatByteRate}
        lines={[
          { label: 'sent', color: '--accent', values: values('sentBytes') },
          { label: 'received', color: '--plot-2', values: values('receivedBytes') },
        ]}
      />
    </div>
  );
}

/** The Apps that asked most over the whole time that is shown. */
function BusyApps({ points }: { readonly points: readonly LoadPoint[] }) {
  const sums = new Map<string, { requests: number; errors: number }>();
  for (const { app, requests, errors } of points.flatMap(({ apps }) => apps)) {
    const sum = sums.get(app) ?? { requests: 0, errors: 0 };
    sums.set(app, { requests: sum.requests + requests, errors: sum.errors + errors });
  }
  const busiest = [...sums].toSorted(([, a], [, b]) => b.requests - a.requests).slice(0, 10);
  if (busiest.length === 0) return null;
  return (
    <div class="panel">
      <h2>Apps with the most requests</h2>
      <ul class="rows">
        {busiest.map(([app, { requests, errors }]) => (
          <li key={app}>
            <strong>
              <bdi>{printable(app)}</bdi>
            </strong>
            <span>{formatCount(requests)} requests</span>
            {errors === 0 ? null : <span class="bad-text">{formatCount(errors)} failed</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
