/**
 * The sum that a row carries over all of its values (docs/design.md, Rows are proven). A row whose sum is another one is damaged. Pure.
 *
 * A sum has two parts. The mixed part is over what never changes. The linear part adds each value that changes, times an odd weight of its
 * own, without a modulus: a statement that changes one value adds `weight * (new - old)`. So it never hides a wrong bit of another
 * value, and no single bit of any value leaves the sum as it was.
 */

/** A value as a database has it. Instants and counts are integers. */
export type SumValue = string | number | Uint8Array | null;

const FIRST_FACTOR = 0x9e3779b1 | 0;
const SECOND_FACTOR = 0x85ebca6b | 0;

/** before each value, so that values of different types or lengths are told apart */
const TAG = { null: 1, number: 2, string: 3, bytes: 4 } as const;

interface Lanes {
  first: number;
  second: number;
}

const START: Readonly<Lanes> = { first: 0x243f6a88, second: 0x13198a2e };

/** 45 bits over the values in order. The first lane is a bijection per word, so no single bit gets lost. `start`: of values before. */
export function mixValues(values: readonly SumValue[], start = START): number {
  const lanes = mixStart(values, start);
  // 13 bits of the second lane beside the 32 of the first leave room for the linear part.
  return (lanes.second & 0x1fff) * 2 ** 32 + (lanes.first >>> 0);
}

/** The common start of several sums. */
export function mixStart(values: readonly SumValue[], start = START): Readonly<Lanes> {
  const lanes = { first: start.first, second: start.second };
  for (const value of values) {
    if (typeof value === 'string') mixText(lanes, value);
    else if (typeof value === 'number') mixNumber(lanes, value);
    else if (value === null) mixWord(lanes, TAG.null);
    else mixBytes(lanes, value);
  }
  return lanes;
}

/** Each step is cut to 32 bits at once: where a sum is more, compiled code is left, and made anew. */
function mixWord(lanes: Lanes, word: number): void {
  const first = Math.imul(lanes.first ^ word, FIRST_FACTOR);
  lanes.first = first ^ (first >>> 15);
  const second = Math.imul((lanes.second + word) | 0, SECOND_FACTOR);
  lanes.second = second ^ (second >>> 13);
}

function mixNumber(lanes: Lanes, value: number): void {
  mixWord(lanes, TAG.number);
  mixWord(lanes, value | 0);
  mixWord(lanes, Math.floor(value / 2 ** 32) | 0);
  // No row has a fraction, unless it is damaged.
  if (!Number.isInteger(value)) mixWord(lanes, TAG.string);
}

/** The lanes are in variables meanwhile: hashes are the most of every sum, and the first thousands are mixed by unoptimised code. */
function mixText(lanes: Lanes, text: string): void {
  mixWord(lanes, TAG.string);
  let { first, second } = lanes;
  for (let index = 0; index < text.length; index += 1) {
    const word = text.charCodeAt(index);
    first = Math.imul(first ^ word, FIRST_FACTOR);
    first ^= first >>> 15;
    second = Math.imul((second + word) | 0, SECOND_FACTOR);
    second ^= second >>> 13;
  }
  lanes.first = first;
  lanes.second = second;
  mixWord(lanes, text.length);
}

function mixBytes(lanes: Lanes, bytes: Uint8Array): void {
  mixWord(lanes, TAG.bytes);
  const { length } = bytes;
  const end = length - (length % 4);
  for (let at = 0; at < end; at += 4) {
    mixWord(lanes, pairAt(bytes, at) | (pairAt(bytes, at + 2) << 16));
  }
  for (let at = end; at < length; at += 1) mixWord(lanes, bytes[at] as number);
  mixWord(lanes, length);
}

function pairAt(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

/** The term that one value adds to the linear part. A very large value, such as a count of root refs, is mixed instead. */
export function weigh(weight: number, value: number): number {
  // Larger values would leave the integers that a number holds exactly.
  const isLinear = value <= 2 ** 44 && value >= -(2 ** 44);
  return isLinear ? weight * value : mixValues([weight, value]);
}

/** Whether a sum that a row carries is the one that its values have. */
export function isSum(kept: unknown, found: number): boolean {
  return kept === found && Number.isSafeInteger(found);
}
