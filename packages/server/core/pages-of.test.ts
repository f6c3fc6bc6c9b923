import { expect, test } from 'bun:test';
import { pagesOf } from './batches.ts';

test.each([
  [0, [0]],
  [3, [2, 1]],
  [4, [2, 2, 0]],
])('%d rows, two a page: a page that is not full is the last that is read', async (count, lengths) => {
  const rows = Array.from({ length: count }, (_, index) => String(index));
  const read = (after: string | undefined, limit: number) => {
    const start = after === undefined ? 0 : Number(after) + 1;
    return rows.slice(start, start + limit);
  };
  const pages: (readonly string[])[] = [];
  for await (const page of pagesOf(read, (row) => row, 2)) {
    pages.push(page);
    expect(pages.length).toBeLessThan(9);
  }
  expect(pages.map(({ length }) => length)).toEqual(lengths);
  expect(pages.flat()).toEqual(rows);
});
