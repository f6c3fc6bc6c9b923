/** Instants as people write them. */

const RFC_3339 = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2}(?:\.\d+)?)([Zz]|[+-]\d{2}:\d{2})$/;

/** An instant in RFC 3339, as ms since the epoch; undefined: the text is none. */
export function parseInstant(text: string): number | undefined {
  const [, day = '', time = '', zone = ''] = RFC_3339.exec(text) ?? [];
  const at = Date.parse(`${day}T${time}${zone.toUpperCase()}`);
  // A day that its month does not have becomes one of the next month.
  const isDay = new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(-2));
  return Number.isNaN(at) || !isDay ? undefined : Math.floor(at);
}
