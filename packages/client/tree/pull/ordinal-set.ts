/** Positions of entries in a tree, however large: a bit for each, in pages made when they are needed. */

const PAGE_BYTES = 4096;
const PAGE_BITS = PAGE_BYTES * 8;

export class OrdinalSet {
  readonly #pages = new Map<number, Uint8Array>();

  add(ordinal: number): void {
    const number = Math.floor(ordinal / PAGE_BITS);
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = new Uint8Array(PAGE_BYTES);
      this.#pages.set(number, page);
    }
    const bit = ordinal % PAGE_BITS;
    page[bit >>> 3] = (page[bit >>> 3] as number) | (1 << (bit & 7));
  }

  has(ordinal: number): boolean {
    const page = this.#pages.get(Math.floor(ordinal / PAGE_BITS));
    const bit = ordinal % PAGE_BITS;
    return page !== undefined && ((page[bit >>> 3] as number) & (1 << (bit & 7))) !== 0;
  }
}
