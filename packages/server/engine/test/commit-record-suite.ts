/** Old commits are forgotten, in bounded steps, and nothing that needs them (core/commit-records.ts). */
import { expect, test } from 'bun:test';
import type { Space } from '../../core/model.ts';
import { NOW, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const KEPT_MS = 8 * 86_400_000;
const DIGEST = new Uint8Array(32);
const OTHER: Space = { appId: 'other', spaceId: 'other' };

export function testCommitRecords(subject: StoreUnderTest): void {
  const commit = async (requestIds: readonly string[], domain = 'd', space = SPACE) => {
    for (const requestId of requestIds) {
      await subject.store.transact(space, async (tx) => {
        const revision = (await tx.findRevision(domain)) + 1;
        await tx.insertRootRefCommit(domain, { requestId, payloadDigest: DIGEST, revision }, []);
      });
    }
  };
  const maintainAt = (ms: number) =>
    subject.store.maintain({ now: NOW + ms, abandonedAt: 0, historyAt: 0, commitRecordsKeptMs: KEPT_MS });
  /** All steps that are due `ms` later. Resolves with how many commits went. */
  const forgetAt = async (ms: number) => {
    subject.clock.set(NOW + ms);
    let forgotten = 0;
    for (let steps = 0; ; steps += 1) {
      const step = await maintainAt(ms);
      forgotten += step.forgottenCommits;
      if (!step.moreToDo) return forgotten;
      expect(steps).toBeLessThan(100);
    }
  };
  const kept = (requestIds: readonly string[], domain = 'd', space = SPACE) =>
    subject.store.transact(space, async (tx) => {
      const found = await Promise.all(requestIds.map((id) => tx.findRootRefCommit(domain, id)));
      return requestIds.filter((_, index) => found[index] !== undefined);
    });
  /** As `check` compares them: above the floor each revision has its commit. */
  const expectWhole = async (revision: number, commits: number, space = SPACE) => {
    await subject.store.inspect(space, async (snapshot) => {
      for (const domain of await snapshot.readDomains()) {
        expect(domain).toMatchObject({ revision, lastRevision: revision });
        expect(domain.commits).toBe(revision - domain.historyFloor);
      }
    });
    expect((await subject.store.readHoldings(space)).commitRows).toBe(commits);
  };

  test('a commit is forgotten when a mark after it is old enough, and none before', async () => {
    await commit(['a', 'b', 'c']);
    expect(await forgetAt(0)).toBe(0);
    await commit(['d', 'e']);
    expect(await forgetAt(KEPT_MS - 1)).toBe(0);
    expect(await kept(['a', 'b', 'c', 'd', 'e'])).toEqual(['a', 'b', 'c', 'd', 'e']);
    await commit(['f']);
    subject.store = await subject.reopen();
    expect(await forgetAt(KEPT_MS)).toBe(3);
    expect(await kept(['a', 'b', 'c', 'd', 'e', 'f'])).toEqual(['d', 'e', 'f']);
    await expectWhole(6, 3);
    expect(await subject.store.readAppTotals(SPACE.appId)).toMatchObject({ commitRows: 3 });
    // Those of after the first mark go by the second.
    expect(await forgetAt(2 * KEPT_MS - 1)).toBe(2);
    expect(await kept(['d', 'e', 'f'])).toEqual(['f']);
    expect(await forgetAt(9 * KEPT_MS)).toBe(0);
    await commit(['a', 'g']);
    await expectWhole(8, 3);
  });

  test('the last commit of a domain stays, and so do domains whose figures need all', async () => {
    await commit(['c', 'b', 'a'], 'idle');
    await commit(['a'], 'one', OTHER);
    await commit(['a', 'b'], 'two', OTHER);
    await forgetAt(0);
    expect(await forgetAt(KEPT_MS)).toBe(2);
    expect(await forgetAt(2 * KEPT_MS)).toBe(0);
    expect(await kept(['a', 'b', 'c'], 'idle')).toEqual(['a']);
    expect(await kept(['a'], 'one', OTHER)).toEqual(['a']);
    expect(await kept(['a', 'b'], 'two', OTHER)).toEqual(['a', 'b']);
    await expectWhole(3, 1);
  });

  test('a commit stays in a domain whose revision a restore has raised', async () => {
    await commit(['a', 'b', 'c']);
    await forgetAt(0);
    await subject.store.settle('revisions', 1000);
    expect(await forgetAt(KEPT_MS)).toBe(2);
    expect(await forgetAt(3 * KEPT_MS)).toBe(0);
    expect((await subject.store.readHoldings(SPACE)).commitRows).toBe(1);
  });

  test('a walk that began before goes on, and marks are as far apart as they may', async () => {
    await commit(['a', 'b', 'c']);
    await forgetAt(0);
    await commit(['d']);
    // A quarter of the time has not passed: no second mark, however often it is asked.
    for (const ms of [1, 2, KEPT_MS / 16, KEPT_MS / 8]) expect(await forgetAt(ms)).toBe(0);
    await subject.store.transact(SPACE, (tx) => tx.noteWalk('d'));
    await commit(['e', 'f']);
    expect(await forgetAt(KEPT_MS + KEPT_MS / 8)).toBe(3);
    const page = { after: undefined, limit: 1 };
    expect(await subject.store.findBalancesAt(SPACE, 'd', { ...page, revision: 4 })).toMatchObject({
      revision: 4,
    });
    expect(await subject.store.findBalancesAt(SPACE, 'd', { ...page, revision: 2 })).toBeUndefined();
  });

  test('a domain of more than a page goes in steps, and the others have their turn', async () => {
    const many = Array.from({ length: 2_100 }, (_, index) => `request ${String(index).padStart(4, '0')}`);
    await subject.store.transact(SPACE, async (tx) => {
      for (const [index, requestId] of many.entries())
        await tx.insertRootRefCommit('large', { requestId, payloadDigest: DIGEST, revision: index + 1 }, []);
    });
    await commit(['a', 'b', 'c', 'd'], 'small');
    await forgetAt(0);
    subject.clock.set(NOW + KEPT_MS);
    const steps: number[] = [];
    for (;;) {
      const step = await maintainAt(KEPT_MS);
      steps.push(step.forgottenCommits);
      if (!step.moreToDo) break;
    }
    expect(Math.max(...steps)).toBeLessThanOrEqual(1_000);
    expect(steps.reduce((sum, each) => sum + each, 0)).toBe(2_099 + 3);
    expect(await kept(many, 'large')).toEqual([many.at(-1) as string]);
    expect((await subject.store.readHoldings(SPACE)).commitRows).toBe(2);
  });
}
