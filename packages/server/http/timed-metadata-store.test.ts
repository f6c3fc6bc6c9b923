import { expect, test } from 'bun:test';
import type { MetadataStore } from '../core/ports.ts';
import { RequestTiming } from './request-timing.ts';
import { TimedMetadataStore } from './timed-metadata-store.ts';

test('hands on all that a transaction is given, and what came of it', async () => {
  const given: unknown[] = [];
  const transact = (async (...parameters: unknown[]) => {
    given.push(parameters);
    return 'what came of it';
  }) as MetadataStore['transact'];
  const store = new TimedMetadataStore({ transact } as MetadataStore, new RequestTiming());
  const space = { appId: 'app', spaceId: 'space' };
  const body = () => 'what came of it';
  const reads = { domain: 'photos', requestId: 'r', hashes: ['00'] };
  expect(await store.transact(space, body, 'input', reads)).toBe('what came of it');
  expect(await store.transact(space, body)).toBe('what came of it');
  expect(given).toEqual([
    [space, body, 'input', reads],
    [space, body, undefined, undefined],
  ]);
});
