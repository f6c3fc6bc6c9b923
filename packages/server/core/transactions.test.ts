/** A data folder's writer is a thread, which knows a transaction of the rules by its name alone. */
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { Glob } from 'bun';
import { TRANSACTIONS } from './transactions.ts';

test('every transaction that the rules run has a name', async () => {
  const run = new Set<string>();
  for await (const file of new Glob('**/*.ts').scan(import.meta.dir)) {
    if (file.endsWith('.test.ts') || file.startsWith('test/')) continue;
    const text = await Bun.file(join(import.meta.dir, file)).text();
    for (const [, name = ''] of text.matchAll(/\.transact\(\s*[\w.#]+,\s*(\w+)/g)) run.add(name);
  }
  expect(run.size).toBeGreaterThan(20);
  expect([...run].filter((name) => !Object.hasOwn(TRANSACTIONS, name))).toEqual([]);
});
