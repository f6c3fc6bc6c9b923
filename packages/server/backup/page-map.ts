/** Where each database page lies: the backup that wrote it, its index there, its checksum. Little-endian u32, u32, u64 per page. */

export const PAGE_ENTRY_BYTES = 16;

export interface PagePlace {
  readonly pack: number;
  readonly index: number;
}

export class PageMap {
  readonly pageCount: number;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.pageCount = Math.floor(bytes.length / PAGE_ENTRY_BYTES);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  static make(pageCount: number): PageMap {
    return new PageMap(new Uint8Array(pageCount * PAGE_ENTRY_BYTES));
  }

  get bytes(): Uint8Array {
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset, this.#view.byteLength);
  }

  placeOf(page: number): PagePlace {
    const at = page * PAGE_ENTRY_BYTES;
    return { pack: this.#view.getUint32(at, true), index: this.#view.getUint32(at + 4, true) };
  }

  sumOf(page: number): bigint {
    return this.#view.getBigUint64(page * PAGE_ENTRY_BYTES + 8, true);
  }

  set(page: number, { pack, index }: PagePlace, sum: bigint): void {
    const at = page * PAGE_ENTRY_BYTES;
    this.#view.setUint32(at, pack, true);
    this.#view.setUint32(at + 4, index, true);
    this.#view.setBigUint64(at + 8, sum, true);
  }
}

/** `seed`: 16 hex digits. */
export function makePageSum(seed: string): (page: Uint8Array) => bigint {
  const key = BigInt(`0x${seed}`);
  return (page) => Bun.hash.xxHash3(page, key);
}
