/** Values on the wire. Bytes travel as hex text, as hashes are here too. 64-bit integers are numbers within the safe range. */

export type SqlValue = string | number | boolean | null | readonly (string | number | null)[];
/** One row: column → number, string, boolean, null; bytes as `\x…` text. */
export type SqlRow = Readonly<Record<string, unknown>>;

export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** how many rows the statement changed or returned */
  readonly count: number;
  /** what the server did, such as COMMIT, or ROLLBACK when it was asked to commit a failed transaction */
  readonly command: string;
}

const encoder = new TextEncoder();
/** An id may begin with what looks like a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export const hexToBytea = (hex: string): string => `\\x${hex}`;
export const bytesToBytea = (bytes: Uint8Array): string => `\\x${bytes.toHex()}`;
export const byteaToHex = (bytea: unknown): string => (bytea as string).slice(2);
export const textToBytea = (text: string): string => bytesToBytea(encoder.encode(text));
export const byteaToText = (bytea: unknown): string => decoder.decode(byteaToBytes(bytea));
export const byteaToBytes = (bytea: unknown): Uint8Array => Uint8Array.fromHex((bytea as string).slice(2));
