/** Shares of a queue: order within a Space, fairness by cost among Apps and Spaces, nobody starves. */
import { describe, expect, test } from 'bun:test';
import { makeRandom } from '../../../test/support/seeded-random.ts';
import { FairQueue, type Ticket } from './fair-queue.ts';

function drain<T>(queue: FairQueue<T>): T[] {
  const taken: T[] = [];
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) taken.push(item);
  return taken;
}

/** How many entries of maps the work looks at. */
function countLooks(work: () => void): number {
  let looks = 0;
  const counted = <T>(iterator: MapIterator<T>): MapIterator<T> => {
    const next = iterator.next.bind(iterator);
    return Object.assign(iterator, {
      next: () => {
        looks += 1;
        return next();
      },
    });
  };
  const { values, entries } = Map.prototype;
  Map.prototype.values = function (this: Map<unknown, unknown>) {
    return counted(values.call(this));
  };
  Map.prototype[Symbol.iterator] = function (this: Map<unknown, unknown>) {
    return counted(entries.call(this));
  };
  try {
    work();
  } finally {
    Map.prototype.values = values;
    Map.prototype[Symbol.iterator] = entries;
  }
  return looks;
}

describe('a fair queue', () => {
  test('does not look at all Spaces for each piece', () => {
    const queue = new FairQueue<number>();
    const [spaces, rounds] = [2000, 3];
    const looks = countLooks(() => {
      for (let item = 0; item < spaces * rounds; item += 1)
        queue.push('a', `s${item % spaces}`, 1, Math.floor(item / spaces));
      const taken = drain(queue);
      expect(taken).toEqual(taken.toSorted());
      expect(taken).toHaveLength(spaces * rounds);
    });
    expect(looks).toBeGreaterThan(spaces);
    expect(looks).toBeLessThan(20 * spaces * rounds);
  });

  test('keeps the order of one Space', () => {
    const queue = new FairQueue<number>();
    for (let item = 0; item < 100; item += 1) queue.push('a', 's', 1 + (item % 7), item);
    expect(drain(queue)).toEqual(Array.from({ length: 100 }, (_, item) => item));
  });

  test('makes small work of another App wait for at most one big piece', () => {
    const queue = new FairQueue<string>();
    for (let item = 0; item < 32; item += 1) queue.push('big', 's', 1000, 'big');
    expect(queue.shift()).toBe('big');
    queue.push('small', 's', 1, 'small');
    expect([queue.shift(), queue.shift()]).toContain('small');
  });

  test('shares among Spaces of one App as among Apps', () => {
    const queue = new FairQueue<string>();
    for (let item = 0; item < 100; item += 1) queue.push('a', 'crowd', 1, 'crowd');
    for (let item = 0; item < 3; item += 1) queue.push('a', 'other', 1, 'other');
    const first = Array.from({ length: 6 }, () => queue.shift());
    expect(first.filter((item) => item === 'other').length).toBe(3);
  });

  test('an App with many Spaces gets no more than an App with one', () => {
    const queue = new FairQueue<string>();
    for (let item = 0; item < 300; item += 1) queue.push('many', `s${item % 100}`, 1, 'many');
    for (let item = 0; item < 300; item += 1) queue.push('one', 's', 1, 'one');
    const first = Array.from({ length: 200 }, () => queue.shift());
    expect(first.filter((item) => item === 'one').length).toBe(100);
  });

  test('leaving and coming back wins nothing while others wait', () => {
    const queue = new FairQueue<string>();
    for (let item = 0; item < 1000; item += 1) queue.push('standing', 's', 1, 'standing');
    const costs = { standing: 0, visiting: 0 };
    let isVisiting = false;
    for (let step = 0; step < 500; step += 1) {
      if (!isVisiting) queue.push('visiting', 's', 10, 'visiting');
      isVisiting = true;
      const item = queue.shift() as 'standing' | 'visiting';
      costs[item] += item === 'visiting' ? 10 : 1;
      if (item === 'visiting') isVisiting = false;
    }
    expect(Math.abs(costs.standing - costs.visiting)).toBeLessThanOrEqual(20);
  });

  test('names what to refuse when it is full: the oldest of the longest line', () => {
    const queue = new FairQueue<string>();
    queue.push('a', 's', 1, 'a1');
    for (let item = 0; item < 5; item += 1) queue.push('b', `s${item}`, 1, `b${item}`);
    queue.push('b', 's3', 1, 'b5');
    for (let item = 0; item < 4; item += 1) queue.push('c', 's', 1, `c${item}`);
    expect(queue.findCrowding()?.item).toBe('b3');
    expect(new FairQueue().findCrowding()).toBeUndefined();
  });

  test('forgets a withdrawn entry once', () => {
    const queue = new FairQueue<number>();
    const tickets = Array.from({ length: 10 }, (_, item) => queue.push('a', `s${item % 2}`, 1, item));
    for (const ticket of tickets.slice(0, 9)) expect(queue.withdraw(ticket)).toBe(true);
    expect(queue.withdraw(tickets[0] as Ticket<number>)).toBe(false);
    expect(queue.length).toBe(1);
    expect(drain(queue)).toEqual([9]);
    expect(queue.withdraw(tickets[9] as Ticket<number>)).toBe(false);
    expect(queue.peek()).toBeUndefined();
  });
});

/** Any pushes, withdrawals and takes, against a plain model. */
describe.each(Array.from({ length: 60 }, (_, seed) => seed))('any use, seed %d', (seed) => {
  const { below } = makeRandom(seed);

  test('loses and doubles nothing, keeps the order of each Space, and lets no waiting App fall behind', () => {
    const queue = new FairQueue<number>();
    const costMax = 1 + below(50);
    const model = new Map<number, Ticket<number>>();
    /** cost that each App had while all Apps of `backlogged` waited */
    const had = new Map<string, number>();
    let next = 0;
    for (let step = 0; step < 600; step += 1) {
      const kind = below(10);
      if (kind < 5) {
        const ticket = queue.push(`a${below(4)}`, `s${below(3)}`, 1 + below(costMax), next);
        model.set(next, ticket);
        next += 1;
      } else if (kind === 5 && model.size > 0) {
        const [[item, ticket]] = [[...model][below(model.size)]] as [[number, Ticket<number>]];
        expect(queue.withdraw(ticket)).toBe(true);
        model.delete(item);
      } else {
        const peeked = queue.peek();
        const item = queue.shift();
        expect(item).toBe(peeked?.item as number);
        if (item === undefined) {
          expect(model.size).toBe(0);
          continue;
        }
        const ticket = model.get(item) as Ticket<number>;
        const isOfItsSpace = (each: Ticket<number>): boolean =>
          each.appId === ticket.appId && each.spaceId === ticket.spaceId;
        const line = [...model.values()].filter(isOfItsSpace);
        expect(line[0]).toBe(ticket);
        model.delete(item);
      }
      expect(queue.length).toBe(model.size);
      expect(queue.cost).toBe([...model.values()].reduce((sum, { cost }) => sum + cost, 0));
    }
    expect(drain(queue).sort((a, b) => a - b)).toEqual([...model.keys()]);

    // From here on every App always waits, so their costs differ by at most two pieces of work.
    const apps = ['x', 'y', 'z'];
    for (const app of apps)
      for (let item = 0; item < 400; item += 1) queue.push(app, `s${below(9)}`, 1 + below(costMax), item);
    for (let step = 0; step < 390; step += 1) {
      const ticket = queue.peek() as Ticket<number>;
      queue.shift();
      had.set(ticket.appId, (had.get(ticket.appId) ?? 0) + ticket.cost);
      const costs = apps.map((app) => had.get(app) ?? 0);
      expect(Math.max(...costs) - Math.min(...costs)).toBeLessThanOrEqual(2 * costMax);
    }
  });
});
