import { expect, test } from 'bun:test';
import type { CacheTree } from './cache-tree.ts';
import { Uses } from './uses.ts';

const MANY = Array.from({ length: 50_001 }, (_, index) => `keys/${index}`);

/** Counts how often it is asked to keep something. */
function fakeTree(inTurn: () => Promise<void>) {
  let asked = 0;
  const edits = {
    inTurn() {
      asked += 1;
      return inTurn();
    },
  };
  const tree = { edits };
  return { tree: tree as unknown as CacheTree, asked: () => asked };
}

test('too many uses are kept once, not again for each that comes meanwhile or after a failure', async () => {
  const failure = Promise.withResolvers<void>();
  const { tree, asked } = fakeTree(() => failure.promise);
  const uses = new Uses(tree, false);
  const noteMore = () => {
    for (let index = 0; index < 5; index += 1) uses.note([`keys/more-${index}`]);
  };
  uses.note(MANY);
  noteMore();
  expect(asked()).toBe(1);
  failure.reject(new Error('the server is away'));
  await failure.promise.catch(() => undefined);
  noteMore();
  expect(asked()).toBe(1);
});

test('a gateway that only reads keeps no uses', () => {
  const { tree, asked } = fakeTree(async () => undefined);
  new Uses(tree, true).note(MANY);
  expect(asked()).toBe(0);
});
