/**
 * Values on the wire. Bytes travel as PostgreSQL's hex text, which is what hashes and generations are here anyway; integers
 * of 64 bits become numbers, all of them within the safe range by the contract.
 */

export type SqlValue = string | number | boolean | null | readonly (string | number | null)[];
/** One row: column → number, string, boolean, null; bytes as `\x…` text. */
export type SqlRow = Readonly<Record<string, unknown>>;

export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** rows that the statement changed or gave */
  readonly count: number;
  /** what the server did, such as COMMIT, or ROLLBACK when it was asked to commit a failed transaction */
  readonly command: string;
}

const arrayLiteral = (values: readonly (string | number | null)[]): string =>
  `{${values.map((value) => (value === null ? 'NULL' : quoteElement(value))).join(',')}}`;

function quoteElement(value: string | number): string {
  if (typeof value === 'number') return String(value);
  return `"${value.replace(/[\\"]/g, '\\$&')}"`;
}

const type = (to: number, serialize: (value: never) => string, parse: (text: string) => unknown) => ({
  to,
  from: [to],
  serialize,
  parse,
});
const asText = (value: string | number): string => String(value);

/** Of the driver, by PostgreSQL's type numbers. Arrays are only ever sent. */
export const WIRE_TYPES = {
  bytea: type(17, asText, (text) => text),
  int8: type(20, asText, Number),
  byteaArray: type(1001, arrayLiteral, (text) => text),
  boolArray: type(1000, arrayLiteral, (text) => text),
  int2Array: type(1005, arrayLiteral, (text) => text),
  int4Array: type(1007, arrayLiteral, (text) => text),
  int8Array: type(1016, arrayLiteral, (text) => text),
  textArray: type(1009, arrayLiteral, (text) => text),
  uuidArray: type(2951, arrayLiteral, (text) => text),
};

export const hexToBytea = (hex: string): string => `\\x${hex}`;
export const bytesToBytea = (bytes: Uint8Array): string => `\\x${bytes.toHex()}`;
export const byteaToHex = (bytea: unknown): string => (bytea as string).slice(2);
export const byteaToBytes = (bytea: unknown): Uint8Array => Uint8Array.fromHex((bytea as string).slice(2));
