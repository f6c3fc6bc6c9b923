import { expect, test } from 'bun:test';
import { afterCommit, NEVER_WALKED, WALK_UNKNOWN } from './root-ref-walks.ts';

test('a commit keeps history while a walk may need it, also where nobody noted whether one is under way', () => {
  const [revision, now] = [9, 1_000];
  const after = (walkedUntil: number) => afterCommit({ walkedFrom: 3, walkedUntil }, revision, now);
  expect(after(now + 1)).toEqual({ walkedFrom: 3, walkedUntil: now + 1, keepsHistory: true });
  expect(after(NEVER_WALKED)).toEqual({
    walkedFrom: revision,
    walkedUntil: NEVER_WALKED,
    keepsHistory: false,
  });
  const unknown = after(WALK_UNKNOWN);
  expect(unknown).toMatchObject({ walkedFrom: 3, keepsHistory: true });
  expect(unknown.walkedUntil).toBeGreaterThan(now);
});
