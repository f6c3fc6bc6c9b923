/** Memory of a job: let in by turns, given back whatever happens, and never waited for by what holds some. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { type HeldMemory, MemoryBudget, MemoryOrderError } from './memory-budget.ts';

/** Lets everything that can go on do so. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
}

test('lets in what fits, in order, and what is larger than it all alone', async () => {
  const budget = new MemoryBudget(10);
  const order: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, bytes: number): Promise<void> =>
    budget.hold(bytes, undefined, async () => {
      order.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const all = [start('a', 6), start('huge', 50), start('small', 1)];
  await settle();
  expect(order).toEqual(['a']);
  ends.get('a')?.();
  await settle();
  expect(order).toEqual(['a', 'huge']);
  ends.get('huge')?.();
  await settle();
  expect(order).toEqual(['a', 'huge', 'small']);
  ends.get('small')?.();
  await Promise.all(all);
});

test('work that fails gives its memory back', async () => {
  const budget = new MemoryBudget(1);
  const failing = budget.hold(1, undefined, () => Promise.reject(new Error('planted')));
  await expect(failing).rejects.toThrow('planted');
  expect(await budget.hold(1, undefined, async () => 'in')).toBe('in');
});

describe('work that holds memory', () => {
  test('is refused more for its parts, however deep, even where there is room', async () => {
    const budget = new MemoryBudget(1000);
    const inPart = (whole: HeldMemory): Promise<unknown> => budget.hold(1, whole, async () => undefined);
    await expect(budget.hold(1, undefined, inPart)).rejects.toBeInstanceOf(MemoryOrderError);
    const inPartOfPart = budget.hold(1, undefined, async (whole) => {
      whole.release();
      await budget.hold(1, whole, inPart);
    });
    await expect(inPartOfPart).rejects.toBeInstanceOf(MemoryOrderError);
  });

  test('gives it back once, however often it is told to', async () => {
    const budget = new MemoryBudget(2);
    let together = 0;
    let most = 0;
    const whole = async (held: HeldMemory): Promise<void> => {
      held.release();
      held.release();
      together += 1;
      most = Math.max(most, together);
      await budget.hold(2, held, settle);
      together -= 1;
    };
    await Promise.all([1, 2, 3].map(() => budget.hold(2, undefined, whole)));
    let inside = 0;
    await Promise.all(
      [1, 2, 3].map(() =>
        budget.hold(2, undefined, async () => {
          inside += 1;
          expect(inside).toBe(1);
          await settle();
          inside -= 1;
        }),
      ),
    );
    expect(most).toBe(3);
  });

  test('any work whose wholes give back before their parts begin comes to an end, within the budget', async () => {
    const bytes = fc.integer({ min: 0, max: 20 });
    const works = fc.array(fc.tuple(bytes, fc.array(bytes, { maxLength: 6 })), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(works, fc.integer({ min: 1, max: 30 }), async (wholes, bytesMax) => {
        const budget = new MemoryBudget(bytesMax);
        let used = 0;
        const use = async (wanted: number): Promise<void> => {
          const counted = Math.min(wanted, bytesMax);
          used += counted;
          expect(used).toBeLessThanOrEqual(bytesMax);
          await Promise.resolve();
          used -= counted;
        };
        const ends = wholes.map(([own, parts]) =>
          budget.hold(own, undefined, async (held) => {
            await use(own);
            held.release();
            await Promise.all(parts.map((part) => budget.hold(part, held, () => use(part))));
          }),
        );
        const end = await Promise.race([
          Promise.all(ends).then(() => 'ended'),
          new Promise((resolve) => setTimeout(resolve, 5_000, 'stands still')),
        ]);
        expect(end).toBe('ended');
      }),
    );
  });
});
