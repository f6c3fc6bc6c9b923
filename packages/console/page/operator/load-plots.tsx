/** Requests and bytes over time: of this hour as this page has seen it, or longer as the server remembers it. */

import { MINUTE_MS, SECOND_MS } from '@holdfast/protocol';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { formatBytes, formatCount, formatInstant, printable } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Failure } from '../parts/notices.tsx';
import { themeChanges } from '../parts/theme.ts';
import type { Rates } from './load.ts';
import { read } from './operator-api.ts';
import type { LoadHistory, LoadPoint } from './shapes.ts';

interface Line {
  readonly label: string;
  /** the name of a colour of the style sheet */
  readonly color: '--accent' | '--plot-2' | '--bad';
  /** undefined: nothing is known for that time */
  readonly values: readonly (number | undefined)[];
}

interface PlotProps {
  readonly title: string;
  /** s since the epoch, ascending */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
}

const HEIGHT_PX = 170;

/** A colour as the canvas needs it: the style sheet's depends on the theme. */
function colorOf(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 24 * HOUR_SECONDS;
const CLOCKS = {
  seconds: new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' }),
  minutes: new Intl.DateTimeFormat('en', { timeStyle: 'short', hourCycle: 'h23' }),
  days: new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' }),
} as const;

/** As finely as the time that is shown needs it. */
function formatTimes(times: readonly number[]): string[] {
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const clock = span > 2 * DAY_SECONDS ? CLOCKS.days : span > HOUR_SECONDS ? CLOCKS.minutes : CLOCKS.seconds;
  return times.map((seconds) => clock.format(seconds * 1000));
}

function describeOptions({ lines, format }: PlotProps, place: HTMLElement): uPlot.Options {
  const soft = colorOf(place, '--soft');
  const grid = { stroke: colorOf(place, '--line'), width: 1 };
  const ticks = { ...grid, size: 4 };
  return {
    width: Math.max(200, place.clientWidth),
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { stroke: soft, grid, ticks, space: 70, values: (_, times) => formatTimes(times) },
      { stroke: soft, grid, ticks, size: 78, values: (_, values) => values.map(format) },
    ],
    series: [
      {},
      ...lines.map(({ label, color }) => ({
        label,
        stroke: colorOf(place, color),
        width: 1.5,
        points: { show: false },
      })),
    ],
  };
}

function toData({ times, lines }: PlotProps): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => values.map((value) => value ?? null))];
}

/** Numbers over time. The picture is for eyes; beside it stands in words what it shows last. */
function Plot(props: PlotProps) {
  const { title, times, lines, format } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const changes = themeChanges.value;
  useEffect(() => {
    const { current } = place;
    if (current === null) return undefined;
    const made = new uPlot(describeOptions(props, current), toData(props), current);
    plot.current = made;
    const resizing = new ResizeObserver(() =>
      made.setSize({ width: Math.max(200, current.clientWidth), height: HEIGHT_PX }),
    );
    resizing.observe(current);
    return () => {
      resizing.disconnect();
      made.destroy();
    };
  }, [title, changes]);
  useEffect(() => plot.current?.setData(toData(props)), [times, lines]);
  return (
    <figure class="panel plot">
      <figcaption>
        <strong>{title}</strong>
        {lines.map(({ label, color, values }) => {
          const now = values.at(-1);
          return (
            <span key={label} class={`key key${color}`}>
              {label} {now === undefined ? '–' : format(now)}
            </span>
          );
        })}
      </figcaption>
      <div ref={place} class="plot-place" aria-hidden="true" />
    </figure>
  );
}

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
