/** Working ahead: several items at once, results in the order of the items. */

/** Calls `work` for up to `width` items at once; yields in order. The first failure in that order ends it; others are not heard of. */
export async function* mapInOrder<In, Out>(
  items: Iterable<In> | AsyncIterable<In>,
  width: number,
  work: (item: In) => Promise<Out>,
): AsyncGenerator<Out, void, undefined> {
  const running: Promise<Out>[] = [];
  for await (const item of items) {
    const result = work(item);
    // A failure is thrown when its turn comes, or never if an earlier item failed.
    result.catch(() => undefined);
    running.push(result);
    if (running.length >= width) yield await (running.shift() as Promise<Out>);
  }
  for (const result of running) yield await result;
}
