/** Splits items that are read into memory into small batches, to bound memory and not to delay other requests. */

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
