/** Splits items that are read into memory into small batches, to bound memory and not to delay other requests. */

import type { Awaitable } from './awaitable.ts';

interface BatchLimits<T> {
  readonly itemsMax: number;
  /** An item that has more is a batch by itself. */
  readonly bytesMax: number;
  readonly bytesOf: (item: T) => number;
  /** Whether an item may be in the batch that `first` began. */
  readonly fits?: (first: T, item: T) => boolean;
}

/** The items in their order, in batches that are as long as the limits allow, and never empty. */
export function* batchesOf<T extends object>(
  items: readonly T[],
  { itemsMax, bytesMax, bytesOf, fits }: BatchLimits<T>,
): Generator<T[]> {
  let batch: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const itemBytes = bytesOf(item);
    const [first] = batch;
    const isFull = bytes + itemBytes > bytesMax || batch.length >= itemsMax;
    if (first !== undefined && (isFull || fits?.(first, item) === false)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += itemBytes;
  }
  if (batch.length > 0) yield batch;
}

/** Results in order, at most `inFlightMax` steps at once. After a failure no step begins, and those under way are awaited. */
export async function mapSome<T, R>(
  items: readonly T[],
  inFlightMax: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async (): Promise<void> => {
    while (failure === undefined && next < items.length) {
      const index = next++;
      try {
        results[index] = await map(items[index] as T);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(inFlightMax, items.length) }, work));
  if (failure !== undefined) throw failure.error;
  return results;
}

/** Rows of a page where nothing asks for another number. */
export const PAGE_ROWS = 500;
/** Rows of a kind that one transaction takes at most, so that it never holds the writer for long. */
export const ROWS_PER_TRANSACTION_MAX = 100;

/** `keyOf`: the hash, id or position by which the pages are ordered. A page of fewer than `rows` is the last. */
export async function* pagesOf<T>(
  read: (after: string | undefined, limit: number) => Awaitable<readonly T[]>,
  keyOf: (item: T) => string,
  rows = PAGE_ROWS,
): AsyncGenerator<readonly T[]> {
  for (let after: string | undefined; ; ) {
    const page = await read(after, rows);
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < rows) return;
    after = keyOf(last);
  }
}
