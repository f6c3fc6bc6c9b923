/** Concurrent clients see one order of commits, over each kind of deployment and under kills. */
import { expect, test } from 'bun:test';
import { makeRandom } from '../../test/support/seeded-random.ts';
import type { SpaceClient } from '../../test/support/space-client.ts';
import { checkHistory } from './check-history.ts';
import type { Commit, History } from './history.ts';
import { Recorder } from './record-history.ts';
import { runHistories } from './run-history.ts';

/** side by side in each deployment, and of each */
const [HISTORIES, OPERATIONS] = [2, 150];
const SEED = 27;
const TEST_MS_MAX = 600_000;

test.each([
  ['one process', 27, 2],
  ['workers', 29, 2],
  ['two servers on PostgreSQL', 31, 0],
  ['two servers on PostgreSQL', 33, 2],
] as const)(
  'one order explains every answer of each Space: %s, seed %i, %i kills',
  async (place, seed, kills) => {
    const { wrong, commits } = await runHistories({
      ...{ place, seed, kills },
      ...{ spaces: HISTORIES, operations: OPERATIONS },
    });
    expect(wrong).toEqual([]);
    expect(commits).toBeGreaterThan(0);
  },
  TEST_MS_MAX,
);

test('a commit that was refused, and then made without an answer, is known in the end', async () => {
  const made = new Map<string, number>();
  let asked = 0;
  const answer = (status: number, json: object) => ({ status, json });
  const client = {
    store: async () => answer(200, {}),
    lease: async () => answer(200, { state: 'ready', leaseExpiresAt: 1 }),
    gc: async () => answer(200, {}),
    content: async () => new Response('', { status: 503 }),
    roots: async () => answer(200, { revision: made.size, items: [], nextCursor: null }),
    async commit(requestId: string) {
      const known = made.get(requestId);
      if (known !== undefined) return answer(200, { idempotent: true, revision: known });
      asked += 1;
      if (asked % 3 === 1) return answer(409, { error: 'ROOT_REF_CONFLICT' });
      made.set(requestId, made.size + 1);
      if (asked % 3 === 2) throw new Error('the answer is lost');
      return answer(200, { idempotent: false, revision: made.get(requestId) });
    },
  };
  const recorder = new Recorder(client as unknown as SpaceClient, makeRandom(SEED), 1);
  await recorder.store();
  await recorder.work(2 * OPERATIONS);
  const known = recorder.commits.filter(({ revisions }) => revisions.size > 0);
  expect(known.length).toBe(made.size);
});

const commit = (start: number, end: number, revision: number, delta = 1): Commit => ({
  ...{ requestId: `request ${revision}`, changes: new Map([['a', delta]]), start, end },
  revisions: new Set([revision]),
});
const nothing: History = { commits: [], conflicts: [], lists: [], leases: [], wrong: [] };
const list = (start: number, revision: number, balance: number) => {
  return { start, end: start + 1, revisions: new Set([revision]), balances: new Map([['a', balance]]) };
};

test.each<[string, Partial<History>]>([
  ['a gap', { commits: [commit(1, 2, 1), commit(3, 4, 3)] }],
  ['one revision twice', { commits: [commit(1, 2, 1), commit(3, 4, 1)] }],
  ['against the order of time', { commits: [commit(3, 4, 1), commit(1, 2, 2)] }],
  ['below 0', { commits: [commit(1, 2, 1, -1)] }],
  ['a list that is old', { commits: [commit(1, 2, 1), commit(3, 4, 2)], lists: [list(5, 1, 1)] }],
  ['a list that is wrong', { commits: [commit(1, 2, 1)], lists: [list(5, 1, 2)] }],
  [
    'a conflict without a reason',
    { commits: [commit(1, 2, 1)], conflicts: [{ commit: commit(3, 4, 9, -1), start: 3, end: 4 }] },
  ],
  [
    'a lease that becomes shorter',
    {
      leases: [
        { hash: 'a', start: 1, end: 2, leaseExpiresAt: 9 },
        { hash: 'a', start: 3, end: 4, leaseExpiresAt: 8 },
      ],
    },
  ],
])('the checker notices %s', (_what, history) => {
  expect(checkHistory({ ...nothing, ...history })).not.toEqual([]);
});
