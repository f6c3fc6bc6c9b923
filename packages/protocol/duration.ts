/** Durations and instants as people write them. A duration is an integer and `ms`, `s`, `m`, `h` or `d`. */

const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

type Unit = keyof typeof UNIT_MS;

const DURATION = /^(0|[1-9][0-9]*)(ms|s|m|h|d)$/;

/** Milliseconds, >= 0. Throws RangeError on any other form, or past the safe-integer range. */
export function parseDuration(text: string): number {
  const match = DURATION.exec(text);
  if (match === null) {
    throw new RangeError(
      `${JSON.stringify(text)} is not a duration; write an integer and ms, s, m, h or d, such as 5m`,
    );
  }
  const milliseconds = Number(match[1]) * UNIT_MS[match[2] as Unit];
  if (!Number.isSafeInteger(milliseconds))
    throw new RangeError(`${text} is too long a duration; write a shorter one`);
  return milliseconds;
}

/** The exact form in the largest unit that divides it; one day is `24h`, as people say it.  Throws RangeError unless given an integer >= 0. */
export function formatDuration(milliseconds: number): string {
  if (!Number.isSafeInteger(milliseconds) || milliseconds < 0) {
    throw new RangeError(`${milliseconds} is not a duration in whole milliseconds`);
  }
  if (milliseconds === 0) return '0s';
  if (milliseconds === UNIT_MS.d) return '24h';
  for (const [unit, unitMs] of Object.entries(UNIT_MS)) {
    if (milliseconds % unitMs === 0) return `${milliseconds / unitMs}${unit}`;
  }
  throw new RangeError(`${milliseconds} is not a duration in whole milliseconds`);
}

const RFC_3339 = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2}(?:\.\d+)?)([Zz]|[+-]\d{2}:\d{2})$/;

/** An instant in RFC 3339, as ms since the epoch; undefined: the text is none. */
export function parseInstant(text: string): number | undefined {
  const [, day = '', time = '', zone = ''] = RFC_3339.exec(text) ?? [];
  const at = Date.parse(`${day}T${time}${zone.toUpperCase()}`);
  // A day that its month does not have becomes one of the next month.
  const isDay = new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(-2));
  return Number.isNaN(at) || !isDay ? undefined : Math.floor(at);
}
