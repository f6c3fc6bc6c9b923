/** Sizes as people write and read them: an integer of bytes, or an integer and `KiB` to `TiB` (powers of 1024) or `kB` to `TB` (of 1000). */

const UNIT_BYTES = {
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
  kB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  TB: 1000 ** 4,
} as const;

type Unit = keyof typeof UNIT_BYTES;

const SIZE = /^(0|[1-9][0-9]*)(KiB|MiB|GiB|TiB|kB|MB|GB|TB)?$/;

/** Bytes, >= 0. Throws RangeError on any other form, or past the safe-integer range. */
export function parseSize(text: string): number {
  const match = SIZE.exec(text);
  if (match === null) {
    throw new RangeError(
      `${JSON.stringify(text)} is not a size; write bytes as an integer, or an integer and KiB, MiB, GiB, TiB, kB, MB, GB or TB, such as 64MiB`,
    );
  }
  const bytes = Number(match[1]) * (match[2] === undefined ? 1 : UNIT_BYTES[match[2] as Unit]);
  if (!Number.isSafeInteger(bytes)) throw new RangeError(`${text} is too large a size; write a smaller one`);
  return bytes;
}

const SHOWN_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** `12 B`, `1.5 KiB`, `340 GiB`: three digits at most, and of those that are rounded one behind the point. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < SHOWN_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${SHOWN_UNITS[unit]}`;
}

/** `1,234,567`: a count as people read it. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** `1 file`, `2 files`; `many` is said of all counts but 1. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
