/**
 * Finds the bytes that a page had, if one of them alone is wrong. Its sum tells: of all pages that differ in one byte only the right one
 * has it. One wrong byte on a page that holds no content, but leads to it, would cost all nodes behind that page.
 */

/** of https://www.sqlite.org/fileformat2.html: pages that lead to others */
const INTERIOR_INDEX = 2;
const INTERIOR_TABLE = 5;

/** Whether a page leads to others. The first page of a database leads to all of them. */
export const isStructure = (bytes: Uint8Array, page: number): boolean =>
  page === 0 || bytes[0] === INTERIOR_INDEX || bytes[0] === INTERIOR_TABLE;

/** Whether the bytes are right now. If not, they are as they were. */
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
