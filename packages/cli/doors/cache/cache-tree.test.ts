import { expect, test } from 'bun:test';
import type { Client } from '@holdfast/client/internal';
import { CacheTree } from './cache-tree.ts';

const COMMITS_MAX = 50;

/** Another write comes during each commit. */
class BusyTree extends CacheTree {
  commits = 0;

  override async apply(): Promise<void> {
    this.commits += 1;
    if (this.commits < COMMITS_MAX) this.write(`k${this.commits}`, [], 1).catch(() => undefined);
  }
}

test('writes that never pause leave eviction and use times their turns', async () => {
  const tree = new BusyTree({ bulk: {} } as unknown as Client, 'cache');
  let asked = 0;
  tree.onCommit = () => {
    asked += 1;
  };
  const first = tree.write('first', [], 1);
  const commits = Promise.withResolvers<number>();
  void tree.inTurn(async () => commits.resolve(tree.commits));
  expect(await commits.promise).toBe(1);
  expect([await first, asked]).toEqual([undefined, 1]);
});
