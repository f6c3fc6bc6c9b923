/** Finds the one bit whose change makes a row right again. Pure. */

/** As a database has it; integers as they are stored, all 64 bits of them. */
export type StoredValue = string | bigint | Uint8Array | null;

/** A longer value takes too long: each of its bits costs a sum over all of it. Nodes have refs in their bytes too. */
const VALUE_BYTES_MAX = 16 * 1024;
const REPLACEMENT = '\ufffd';

/** The column, and what it was, or `undefined` if no bit does. `isRight` judges a row. */
export function findBit<Row extends Readonly<Record<string, StoredValue>>>(
  row: Row,
  columns: readonly string[],
  isRight: (row: Row) => boolean,
): { readonly column: string; readonly value: StoredValue } | undefined {
  for (const column of columns) {
    for (const value of neighboursOf(row[column] ?? null)) {
      if (isRight({ ...row, [column]: value })) return { column, value };
    }
  }
  return undefined;
}

function* neighboursOf(value: StoredValue): Generator<StoredValue> {
  if (value === null) return;
  if (typeof value === 'bigint') {
    for (let bit = 0; bit < 64; bit += 1) {
      yield BigInt.asIntN(64, value ^ (1n << BigInt(bit)));
    }
  } else if (typeof value === 'string') {
    yield* textsNear(value);
  } else if (value.length <= VALUE_BYTES_MAX) {
    for (let bit = 0; bit < value.length * 8; bit += 1) yield withBit(value, bit);
  }
}

/** A byte that a wrong bit made invalid was read as U+FFFD. */
function* textsNear(text: string): Generator<string> {
  const lost = text.indexOf(REPLACEMENT);
  if (lost >= 0) {
    for (let code = 0; code < 128; code += 1) {
      yield text.slice(0, lost) + String.fromCharCode(code) + text.slice(lost + 1);
    }
    return;
  }
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > VALUE_BYTES_MAX) return;
  const decoder = new TextDecoder();
  for (let bit = 0; bit < bytes.length * 8; bit += 1) yield decoder.decode(withBit(bytes, bit));
}

function withBit(bytes: Uint8Array, bit: number): Uint8Array {
  const changed = new Uint8Array(bytes);
  const at = Math.floor(bit / 8);
  changed[at] = (bytes[at] as number) ^ (1 << (bit % 8));
  return changed;
}
