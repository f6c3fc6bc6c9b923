/** The items in their order, `count` at a time. */
export function* groupsOf<T>(items: readonly T[], count: number): Generator<readonly T[]> {
  for (let from = 0; from < items.length; from += count) yield items.slice(from, from + count);
}
