/**
 * Repairs a page with a single wrong byte: of all pages that differ in one byte, only the original matches the checksum. Without this,
 * a wrong byte in an interior page would cost all nodes behind it.
 */

/** page types of https://www.sqlite.org/fileformat2.html that refer to other pages */
const INTERIOR_INDEX = 2;
const INTERIOR_TABLE = 5;

/** Whether a page refers to other pages. The first page of a database leads to all of them. */
export const isStructure = (bytes: Uint8Array, page: number): boolean =>
  page === 0 || bytes[0] === INTERIOR_INDEX || bytes[0] === INTERIOR_TABLE;

/** Returns whether the bytes are now correct; otherwise they are unchanged. */
export function mendPage(bytes: Uint8Array, sum: bigint, sumOf: (page: Uint8Array) => bigint): boolean {
  for (const [at, found] of bytes.entries()) {
    for (let value = 0; value < 256; value += 1) {
      bytes[at] = value;
      if (sumOf(bytes) === sum) return true;
    }
    bytes[at] = found;
  }
  return false;
}
