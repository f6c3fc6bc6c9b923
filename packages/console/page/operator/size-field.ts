/** A size as a person types it. */
import { parseSize as parseExact } from '@holdfast/protocol';

const UNITS = [
  ['TiB', 1024 ** 4],
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const;

/** null means unlimited; undefined means invalid */
export function parseSize(text: string): number | null | undefined {
  if (text === '') return null;
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** The exact size in the largest unit that divides it. */
export function formatSize(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '';
  const [unit, unitBytes] = UNITS.find(([, each]) => bytes >= each && bytes % each === 0) ?? ['', 1];
  return `${bytes / unitBytes}${unit}`;
}
