/** Places go to the holder of fewest; no tenant holds all; waiting is bounded, and the most crowded App is refused first. */
import { describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { makeRandom } from '../../../test/support/seeded-random.ts';
import { FairPlaces, type FairPlacesOptions } from './fair-places.ts';

class InVain extends Error {}

function open(options: Partial<FairPlacesOptions> = {}): FairPlaces {
  const inVain = (): Error => new InVain();
  return new FairPlaces({
    ...{ resource: 'test', placesMax: 16, waitingMax: 1000, waitMsMax: 60_000, inVain },
    ...options,
  });
}

/** Takes places until one has to wait; how many there were. */
function fill(places: FairPlaces, appId: string, spaceId: string): number {
  for (let count = 0; ; count += 1) {
    const place = places.take(appId, spaceId);
    if (place === undefined) continue;
    place.catch(() => undefined);
    return count;
  }
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('places', () => {
  test('are all for one App if they are few, and all but some if they are many', () => {
    expect(fill(open({ placesMax: 1 }), 'a', 's')).toBe(1);
    expect(fill(open({ placesMax: 4 }), 'a', 's')).toBe(4);
    expect(fill(open({ placesMax: 16 }), 'a', 's')).toBe(14);
  });

  test('are given at once to an App or a Space that holds none', () => {
    const places = open();
    fill(places, 'a', 'crowd');
    expect(places.take('a', 'other')).toBeUndefined();
    const third = places.take('a', 'third');
    expect(third).toBeInstanceOf(Promise);
    third?.catch(() => undefined);
    expect(places.take('b', 's')).toBeUndefined();
    expect(places.taken).toBe(16);
  });

  test('go to the App that holds fewest, then to the Space that holds fewest, in order', async () => {
    const places = open({ placesMax: 4 });
    for (let count = 0; count < 4; count += 1) places.take('a', 'crowd');
    const got: string[] = [];
    const wait = (appId: string, spaceId: string, name: string): void => {
      // Those that are left wait longer than the test takes, and then nobody hears that they were refused.
      places.take(appId, spaceId)?.then(
        () => got.push(name),
        () => undefined,
      );
    };
    for (const name of ['a1', 'a2']) wait('a', 'crowd', name);
    wait('a', 'other', 'other');
    for (const name of ['b1', 'b2', 'b3']) wait('b', 's', name);
    for (let count = 0; count < 4; count += 1) {
      places.leave('a', 'crowd');
      await settle();
    }
    expect(got).toEqual(['b1', 'b2', 'other', 'a1']);
  });

  test('that an App waits for in vain are its fault only if it wants more than its part', async () => {
    const alone = open({ placesMax: 1, waitMsMax: 1 });
    alone.take('a', 's');
    await expect(alone.take('a', 's') as Promise<void>).rejects.toBeInstanceOf(InVain);
    const places = open({ placesMax: 4, waitMsMax: 1 });
    for (const appId of ['a', 'a', 'a', 'b']) places.take(appId, 's');
    const [within, over] = await Promise.allSettled([places.take('b', 's'), places.take('a', 's')]);
    expect((within as PromiseRejectedResult).reason).toBeInstanceOf(InVain);
    expect((over as PromiseRejectedResult).reason.code).toBe('RESOURCE_EXHAUSTED');
  });

  test('with too many waiting: the oldest of the App that crowds is refused, and others join', async () => {
    const places = open({ placesMax: 1, waitingMax: 3 });
    places.take('a', 's');
    const waits = [1, 2, 3].map(() => places.take('a', 's') as Promise<void>);
    const refusals = waits.map((wait) =>
      wait.then(
        () => 'in',
        (error: unknown) => (error as ApiError).code,
      ),
    );
    expect(() => places.take('a', 's')).toThrow(InVain);
    void places.take('b', 's')?.catch(() => undefined);
    expect(await refusals[0]).toBe('RESOURCE_EXHAUSTED');
    expect(() => places.take('a', 's')).toThrow(ApiError);
    places.refuseAll(new Error('closing'));
    expect(places.waiting).toBe(0);
  });

  test('with too many waiting: the oldest of the Space that crowds is refused, and other Spaces of its App join', async () => {
    const places = open({ placesMax: 1, waitingMax: 3 });
    places.take('a', 'crowd');
    const [oldest, second, third] = [1, 2, 3].map(() => places.take('a', 'crowd') as Promise<void>);
    const refusal = oldest?.catch((error: unknown) => error);
    const other = places.take('a', 'other');
    expect(await refusal).toBeInstanceOf(InVain);
    expect(() => places.take('a', 'crowd')).toThrow(InVain);
    places.leave('a', 'crowd');
    await second;
    places.leave('a', 'crowd');
    await other;
    places.leave('a', 'other');
    await third;
  });
});

test.each(Array.from({ length: 40 }, (_, seed) => seed))('any use keeps the count, seed %d', async (seed) => {
  const { below } = makeRandom(seed);
  const placesMax = 1 + below(20);
  const places = open({ placesMax });
  const held: [string, string][] = [];
  let waiting = 0;
  for (let step = 0; step < 400; step += 1) {
    if (below(2) === 0) {
      const who: [string, string] = [`a${below(4)}`, `s${below(3)}`];
      const place = places.take(...who);
      if (place === undefined) held.push(who);
      else {
        waiting += 1;
        void place.then(() => {
          waiting -= 1;
          held.push(who);
        });
      }
    } else if (held.length > 0) {
      places.leave(...(held.splice(below(held.length), 1)[0] as [string, string]));
    }
    await Promise.resolve();
    expect(places.taken).toBe(held.length);
    expect(places.waiting).toBe(waiting);
    expect(places.taken).toBeLessThanOrEqual(placesMax);
  }
  while (held.length > 0) {
    places.leave(...(held.pop() as [string, string]));
    await Promise.resolve();
  }
  expect([places.taken, places.waiting, waiting]).toEqual([0, 0, 0]);
});
