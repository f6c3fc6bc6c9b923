/** Numbers and instants for people. Exact values belong in a title beside them. */

import { formatCount, SECOND_MS } from '@holdfast/protocol';

export { countOf as formatThings, formatCount } from '@holdfast/protocol';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const instants = new Intl.DateTimeFormat('en-CA', {
  ...{ year: 'numeric', month: '2-digit', day: '2-digit' },
  ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
} as Intl.DateTimeFormatOptions);

export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? formatCount(value) : tenths.format(value)} ${UNITS[unit]}`;
}

/** `2026-11-22 20:15:03`, in the reader's time zone. */
export function formatInstant(at: number): string {
  return Number.isFinite(at) ? instants.format(at).replace(',', '') : '–';
}

const SPANS: readonly (readonly [unit: string, ms: number])[] = [
  ['d', 86_400 * SECOND_MS],
  ['h', 3_600 * SECOND_MS],
  ['min', 60 * SECOND_MS],
  ['s', SECOND_MS],
];

/** The two largest units: `3 d 4 h`. */
export function formatSpan(ms: number): string {
  if (ms < SECOND_MS) return `${Math.max(0, Math.round(ms))} ms`;
  const at = SPANS.findIndex(([, unitMs]) => ms >= unitMs);
  const [unit, unitMs] = SPANS[at] ?? ['s', SECOND_MS];
  const whole = Math.floor(ms / unitMs);
  const [below, belowMs] = SPANS[at + 1] ?? ['', 0];
  const rest = belowMs === 0 ? 0 : Math.floor((ms - whole * unitMs) / belowMs);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${below}`;
}

/** `3 min ago`, `in 2 h`. */
export function formatDistance(at: number, now: number): string {
  const distance = at - now;
  if (Math.abs(distance) < SECOND_MS) return 'now';
  return distance < 0 ? `${formatSpan(-distance)} ago` : `in ${formatSpan(distance)}`;
}

/** As a shell takes it as one word. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_.,:/@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Text of others for people: what would turn a line around, or be invisible, is spelt out. */
export { spellUnsafe as printable } from '@holdfast/protocol';
