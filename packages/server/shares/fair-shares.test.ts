import { describe, expect, test } from 'bun:test';
import type { ApiError } from '@holdfast/protocol';
import fc from 'fast-check';
import { FairShares, type Hold } from './fair-shares.ts';

const CAPACITY = 120;
let made = 0;

function makeShares(
  options: { capacity?: number; waitMsMax?: number; waitersMax?: number } = {},
): FairShares {
  made += 1;
  return new FairShares({ resource: `test ${made}`, capacity: CAPACITY, ...options });
}

/** Takes `amount` again and again until nothing more is given at once. */
function takeAll(shares: FairShares, app: string, space = '', amount = 1, onReclaim?: () => void): Hold[] {
  const holds: Hold[] = [];
  for (;;) {
    const hold = shares.tryAcquire(app, space, amount, { onReclaim });
    if (hold === undefined) return holds;
    holds.push(hold);
  }
}

async function codeOf(promise: Promise<unknown> | unknown): Promise<string> {
  try {
    await promise;
    return 'granted';
  } catch (error) {
    return (error as ApiError).code;
  }
}

describe('an App alone', () => {
  test('uses up to three quarters, and the next App finds room at once', () => {
    const shares = makeShares();
    let taken = 0;
    for (let space = 0; space < 30; space += 1) taken += takeAll(shares, 'hog', `${space}`).length;
    expect(taken).toBe((CAPACITY * 3) / 4);
    expect(takeAll(shares, 'honest').length).toBe(CAPACITY / 4);
  });

  test('may take everything for one request', () => {
    expect(makeShares().tryAcquire('a', '', CAPACITY)?.amount).toBe(CAPACITY);
  });

  test('leaves no trace once it has given everything back', () => {
    const shares = makeShares();
    for (const hold of takeAll(shares, 'a')) {
      hold.release();
      hold.release();
    }
    expect([shares.used, shares.appCount]).toEqual([0, 0]);
  });
});

describe('Spaces of one App', () => {
  test('share the part of their App as Apps share the whole', () => {
    const shares = makeShares();
    expect(takeAll(shares, 'app', 'greedy')).toHaveLength(Math.floor((CAPACITY * 9) / 16));
    expect(takeAll(shares, 'app', 'modest').length).toBeGreaterThanOrEqual((CAPACITY * 3) / 16);
  });

  test('ask back what another of them holds beyond its share', async () => {
    const shares = makeShares({ waitMsMax: 20 });
    const hold: Hold = shares.tryAcquire('app', 'greedy', CAPACITY, {
      onReclaim: () => hold.release(),
    }) as Hold;
    expect(((await shares.acquire('app', 'modest', CAPACITY / 2)) as Hold).amount).toBe(CAPACITY / 2);
    expect(hold.isReclaimed).toBe(true);
  });
});

describe('who waits', () => {
  test('gets room that an App beyond its share gives back, before that App', async () => {
    const shares = makeShares();
    const hog = takeAll(shares, 'hog');
    takeAll(shares, 'honest');
    const more = shares.acquire('honest', '', 1) as Promise<Hold>;
    const hogAgain = shares.acquire('hog', '', 1) as Promise<Hold>;
    let isHogServed = false;
    void hogAgain.then(() => {
      isHogServed = true;
    });
    hog.pop()?.release();
    expect((await more).amount).toBe(1);
    expect(isHogServed).toBe(false);
    for (const hold of hog) hold.release();
    expect((await hogAgain).amount).toBe(1);
  });

  test('is refused after the longest wait, and forgotten', async () => {
    const shares = makeShares({ waitMsMax: 5 });
    const holds = takeAll(shares, 'hog');
    expect(await codeOf(shares.acquire('hog', '', 1))).toBe('RESOURCE_EXHAUSTED');
    for (const hold of holds) hold.release();
    expect([shares.used, shares.appCount]).toEqual([0, 0]);
  });

  test('can give up', async () => {
    const shares = makeShares();
    const holds = takeAll(shares, 'hog');
    const controller = new AbortController();
    const waiting = shares.acquire('hog', '', 1, { signal: controller.signal }) as Promise<Hold>;
    controller.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await expect(
      shares.acquire('hog', '', 1, { signal: AbortSignal.abort(new Error('before')) }),
    ).rejects.toThrow('before');
    for (const hold of holds) hold.release();
    expect(shares.appCount).toBe(0);
  });

  test('is one of a bounded number, which Apps share as well', async () => {
    const shares = makeShares({ waitersMax: 4, waitMsMax: 60_000 });
    const holds = takeAll(shares, 'hog');
    const waiting = Array.from({ length: 4 }, () => shares.acquire('hog', '', 1) as Promise<Hold>);
    expect(() => shares.acquire('hog', '', 1)).toThrow('share of');
    takeAll(shares, 'honest');
    const honest = shares.acquire('honest', '', 1) as Promise<Hold>;
    for (const hold of holds) hold.release();
    expect((await Promise.all([honest, ...waiting])).length).toBe(5);
  });
});

describe('what is held for long', () => {
  test('is asked back, the oldest first, when an equal share needs the room', async () => {
    const shares = makeShares({ capacity: 12, waitMsMax: 20 });
    const asked: number[] = [];
    const holds: Hold[] = [];
    for (let index = 0; index < 6; index += 1) {
      const onReclaim = (): void => {
        asked.push(index);
        holds[index]?.release();
      };
      holds.push(shares.tryAcquire('hog', '', 1, { onReclaim }) as Hold);
    }
    takeAll(shares, 'patient');
    expect(shares.used).toBe(12);
    for (let index = 0; index < 2; index += 1) {
      expect(((await shares.acquire('honest', '', 1)) as Hold).amount).toBe(1);
    }
    expect(asked).toEqual([0, 1]);
    // Four are an equal share each: nothing more is taken away.
    expect(await codeOf(makeRefused(shares))).toBe('RESOURCE_EXHAUSTED');
    expect(asked).toHaveLength(2);
  });

  function makeRefused(shares: FairShares): Promise<unknown> {
    return Promise.resolve(shares.acquire('honest', '', 1));
  }
});

describe('a hold', () => {
  test('grows and shrinks by the same rule', () => {
    const shares = makeShares();
    const hold = shares.tryAcquire('a', '', 10) as Hold;
    expect(hold.tryGrow(50)).toBe(true);
    expect(hold.tryGrow(8)).toBe(false);
    hold.shrinkTo(5);
    expect([shares.used, hold.amount]).toEqual([5, 5]);
    hold.release();
    expect([shares.used, hold.tryGrow(1)]).toEqual([0, false]);
  });

  test('that shrank to nothing still belongs to its share', () => {
    const shares = makeShares();
    const empty = shares.tryAcquire('a', '', 1) as Hold;
    empty.shrinkTo(0);
    shares.tryAcquire('a', '', 1)?.release();
    const large = shares.tryAcquire('a', '', 60) as Hold;
    empty.release();
    expect(shares.appCount).toBe(1);
    large.release();
    expect([shares.used, shares.appCount]).toEqual([0, 0]);
  });

  test('of more than the whole is refused at once', () => {
    expect(() => makeShares().acquire('a', '', CAPACITY + 1)).toThrow('share of');
  });
});

test('any sequence of holds stays within the whole, and an equal share waits for borrowers alone', async () => {
  const step = fc.record({
    kind: fc.constantFrom('take', 'take', 'release', 'shrink', 'grow'),
    app: fc.integer({ min: 0, max: 3 }),
    space: fc.integer({ min: 0, max: 2 }),
    amount: fc.integer({ min: 1, max: 40 }),
    which: fc.nat(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      const shares = makeShares({ waitMsMax: 60_000 });
      const holds: Hold[] = [];
      const waiting: Promise<unknown>[] = [];
      const held = (): number => holds.reduce((sum, hold) => sum + hold.amount, 0);
      for (const { kind, app, space, amount, which } of steps) {
        const hold = holds[which % Math.max(1, holds.length)];
        if (kind === 'take') {
          const claim = shares.acquire(`${app}`, `${space}`, amount);
          if (claim instanceof Promise) waiting.push(claim.then((granted) => holds.push(granted)));
          else holds.push(claim);
        } else if (kind === 'release') {
          hold?.release();
        } else if (kind === 'shrink') {
          hold?.shrinkTo(Math.floor(hold.amount / 2));
        } else {
          hold?.tryGrow(amount);
        }
        await Promise.resolve();
        await Promise.resolve();
        expect(shares.used).toBe(held());
        expect(shares.used).toBeLessThanOrEqual(CAPACITY);
      }
      // Nobody waits for ever: giving everything back serves all who wait.
      for (let round = 0; shares.appCount > 0 && round < 200; round += 1) {
        for (const hold of holds) hold.release();
        await new Promise((resolve) => setImmediate(resolve));
      }
      await Promise.all(waiting);
      expect([shares.used, shares.appCount]).toEqual([0, 0]);
    }),
    { numRuns: 300 },
  );
});
