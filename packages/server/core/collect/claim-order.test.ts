import { expect, test } from 'bun:test';
import type { Generation, NodeRow } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { failureOf, smallNode } from '../test/core-fixture.ts';
import { claimCandidates } from './collection.ts';
import { Pass } from './run-gc.ts';

test('each claim of a pass begins where the one before it ended, or at the first child that it freed, and the last at the start', async () => {
  const found = [2, 2, 2];
  const freed = [9, 3, 9];
  const asked: number[] = [];
  const claims = { forgotten: [], claimed: [], claimedAt: 0 };
  const steps = {
    findLeftovers: async () => ({ ...claims, found: 0, next: 0 }),
    claim: async (_limit: number, from: number) => {
      asked.push(from);
      return { ...claims, found: found.shift() ?? 0, next: from + 5 };
    },
    finish: async () => ({ forgotten: [], gone: 0, next: freed.shift() ?? 0, failed: 0, failure: undefined }),
  };
  expect((await new Pass(steps, 100).run()).examined).toBe(6);
  expect(asked).toEqual([0, 5, 3, 8, 0]);
});

test('a pass ends before rows of which an index alone says that they may go', async () => {
  const kept = { state: 'ready', childRefCount: 1, leaseExpiresAt: 3 } as NodeRow;
  const tx: Partial<SpaceTransaction> = { now: 10, due: async () => [kept] as never };
  const asked: number[] = [];
  const none = { forgotten: [], claimed: [], claimedAt: 0 };
  const steps = {
    findLeftovers: async () => ({ ...none, found: 0, next: 0 }),
    claim: async (limit: number, from: number) => {
      asked.push(from);
      if (asked.length === 1) return { ...none, found: 1, next: kept.leaseExpiresAt };
      if (asked.length > 3) throw new Error('the pass goes on for ever');
      const wanted = { limit, uploads: 'server', isDamaged: false, from } as const;
      return claimCandidates(tx as SpaceTransaction, wanted);
    },
    finish: async () => ({ forgotten: [], gone: 0, next: 9, failed: 0, failure: undefined }),
  };
  expect((await new Pass(steps, 2).run()).examined).toBe(1);
  expect(asked).toEqual([0, 3, 0]);
});

test('a pass tries each leftover claim once, however many more it may take', async () => {
  const claimed = Array.from({ length: 100 }, (_, seed) => {
    const { hash } = smallNode(seed);
    return { hash, generation: hash.slice(0, 32) as Generation, storage: 'object' as const };
  });
  const none = { found: 0, forgotten: [], claimed: [], claimedAt: 0, next: 0 };
  const tried: number[] = [];
  const steps = {
    findLeftovers: async ({ limit }: { readonly limit: number }) => {
      expect(tried.length).toBeLessThan(10);
      return { ...none, found: limit, claimed: claimed.slice(0, limit) };
    },
    claim: async () => none,
    finish: async (claims: { readonly claimed: readonly unknown[] }) => {
      tried.push(claims.claimed.length);
      const failed = claims.claimed.length - 1;
      return { forgotten: [], gone: 1, next: 0, failed, failure: new Error('away') };
    },
  };
  expect(await failureOf(new Pass(steps, 150).run())).toMatchObject({ status: 503 });
  expect(tried).toEqual([100]);
});
