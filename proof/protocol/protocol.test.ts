/** The models of rows and bytes hold, and no rule of them can be left out. */
import { afterAll, expect, test } from 'bun:test';
import { openChecker } from './check-model.ts';
import { MUTANTS, SCOPES } from './scopes.ts';

const checker = await openChecker();
afterAll(() => checker.remove());

test('no ready node is without its bytes, and no object stays that no row knows', async () => {
  let all = 0;
  for (const scope of ['collect', 'rooted', 'walk', 'recover', 'family', 'epoch', 'older'] as const) {
    const checked = await checker.check(SCOPES[scope], 0);
    expect([scope, checked?.isViolated]).toEqual([scope, false]);
    all += checked?.states ?? 0;
  }
  expect(all).toBeGreaterThan(1_000_000);
});

test.each([...MUTANTS])('mutant %i is noticed: %s', async (mutant, scope) => {
  expect((await checker.check(SCOPES[scope], mutant))?.isViolated).toBe(true);
});

test('a scope whose time is over is not counted', async () => {
  expect(await checker.check(SCOPES.strays, 0, () => true)).toBeUndefined();
});
