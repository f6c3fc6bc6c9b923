/** Numbers over time. The picture is for eyes; beside it stands in words what it shows last. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { themeChanges } from '../parts/theme.ts';

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

export function Plot(props: PlotProps) {
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
