/** Medians, spreads and pairwise ratios. Pure. */

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The value at `fraction` (0…1) of the sorted values, linear between neighbours. Throws RangeError on an empty list. */
export function quantile(values: readonly number[], fraction: number): number {
  if (values.length === 0) throw new RangeError('A quantile needs at least one value.');
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * fraction;
  const low = sorted[Math.floor(position)] as number;
  const high = sorted[Math.ceil(position)] as number;
  return low + (high - low) * (position - Math.floor(position));
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function summarize(values: readonly number[]): Summary {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** `ours[i] / theirs[i]`: each round is its own pair, so drift of the machine between rounds cancels out. */
export function pairRatios(ours: readonly number[], theirs: readonly number[]): number[] {
  if (ours.length !== theirs.length)
    throw new RangeError('Pairwise ratios need as many values on both sides.');
  return ours.map((value, index) => value / (theirs[index] as number));
}

/** Three significant figures, thousands grouped: 12345.6 → `12,300`, 0.51234 → `0.512`. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString('en-US', { minimumFractionDigits: 0, maximumFractionDigits: digits });
}
