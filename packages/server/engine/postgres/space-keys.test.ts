import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { spaceKeyOf } from '../../core/space-map.ts';
import { SpaceKeys } from './space-names.ts';

test('the cache gives each Space the key of the rules, in any order of questions', () => {
  const keys = new SpaceKeys();
  const id = fc.stringMatching(/^[0-9:a]{1,4}$/);
  const property = fc.property(id, id, (appId, spaceId) => {
    expect(keys.of({ appId, spaceId })).toBe(spaceKeyOf({ appId, spaceId }));
  });
  fc.assert(property, { numRuns: 20_000 });
});
