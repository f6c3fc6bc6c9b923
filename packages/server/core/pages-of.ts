/** Reads rows in order, page by page: the key of the last row of a page asks for the next page. */
import type { Awaitable } from './awaitable.ts';

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
