/** Working ahead: several items at once, results in the order of the items. */

/**
 * Calls `work` for up to `width` items at once and yields the results in order; at most `width` results wait. The first
 * failure, in order, ends it; what is still running then is left to end by itself, unheard.
 */
export async function* mapInOrder<In, Out>(
  items: Iterable<In>,
  width: number,
  work: (item: In) => Promise<Out>,
): AsyncGenerator<Out, void, undefined> {
  const running: Promise<Out>[] = [];
  const iterator = items[Symbol.iterator]();
  const start = (): void => {
    const { done, value } = iterator.next();
    if (done === true) return;
    const result = work(value);
    // Its failure is met when its turn comes, or never, after an earlier one.
    result.catch(() => undefined);
    running.push(result);
  };
  while (running.length < width) {
    const before = running.length;
    start();
    if (running.length === before) break;
  }
  for (let next = running.shift(); next !== undefined; next = running.shift()) {
    const result = await next;
    start();
    yield result;
  }
}
