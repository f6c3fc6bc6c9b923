/** Repairs a page with a single wrong byte: of all pages that differ in one byte, only the original matches the checksum. */

/** Whether a page refers to other pages. The first page of a database leads to all of them. */
export const isStructure = (bytes: Uint8Array, page: number): boolean =>
  // Interior pages of an index and of a table refer to other pages (https://www.sqlite.org/fileformat2.html).
  page === 0 || bytes[0] === 2 || bytes[0] === 5;

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
