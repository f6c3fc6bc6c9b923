/** Bounded concurrency for work that needs all results and no single one early. */

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
