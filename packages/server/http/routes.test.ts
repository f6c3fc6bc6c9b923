import { expect, test } from 'bun:test';
import { SPACE_ROUTES, type SpaceRoute } from '@holdfast/protocol';
import fc from 'fast-check';
import { isPathAsSent } from './routes.ts';

const ROUTE = SPACE_ROUTES.find(({ get }) => get === 'getUsage') as SpaceRoute;

function fill(appId: string, spaceId: string): string {
  return `/v1/apps/${encodeURIComponent(appId)}/spaces/${encodeURIComponent(spaceId)}/cas/usage`;
}

test('any two ids are found as they were sent, however encoded', () => {
  const id = fc.string({ minLength: 1, unit: 'grapheme' }).filter((text) => text.isWellFormed());
  fc.assert(
    fc.property(id, id, (appId, spaceId) => {
      expect(isPathAsSent(ROUTE, { appId, spaceId }, fill(appId, spaceId))).toBe(true);
      expect(isPathAsSent(ROUTE, { appId, spaceId }, fill(appId, `${spaceId}x`))).toBe(false);
    }),
  );
});

test('a URL that the runtime normalized is not taken for the sent one', () => {
  const sent = { appId: 'x\\..\\app', spaceId: 'space' };
  expect(isPathAsSent(ROUTE, sent, '/v1/apps/app/spaces/space/cas/usage')).toBe(false);
  expect(isPathAsSent(ROUTE, { appId: 'app', spaceId: '..' }, '/v1/apps/app/cas/usage')).toBe(false);
  expect(isPathAsSent(ROUTE, { appId: 'app', spaceId: 'space' }, '/v1/apps/app/spaces/space/root-refs')).toBe(
    false,
  );
  expect(isPathAsSent(ROUTE, { appId: 'app', spaceId: 'space' }, '/health')).toBe(false);
});

test('an encoded backslash is an ordinary character, and a broken escape is left to the handler', () => {
  const path = '/v1/apps/x%5C..%5Capp/spaces/space/cas/usage';
  expect(isPathAsSent(ROUTE, { appId: 'x\\..\\app', spaceId: 'space' }, path)).toBe(true);
  expect(isPathAsSent(ROUTE, { appId: '\ufffd', spaceId: 's' }, '/v1/apps/%ff/spaces/s/cas/usage')).toBe(
    true,
  );
});
