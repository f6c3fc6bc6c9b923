import { expect, test } from 'bun:test';
import type { Core } from '../core/core.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { StraysSuspicious, StrayWatch } from '../core/stray-watch.ts';
import { newGeneration } from '../engine/test/samples.ts';
import { HealthSampler } from './health-sampler.ts';

test('a walk over all objects that stopped is a warning with its reason until it continues', async () => {
  const strays = new StrayWatch();
  const parts = { strays, freeSpace: undefined } as unknown as Core;
  const { checks } = new HealthSampler(parts, { assertSchema: async () => undefined });
  const look = checks.find(({ name }) => name === 'strays')?.look;
  expect(look?.()).toEqual({ status: 'ok' });
  const keys = Array.from({ length: 40 }, () => ({ space: 's', generation: newGeneration() }));
  const pages: Record<string, unknown> = { knownGenerations: new Set(), tombstones: new Map() };
  const rows = { page: async (kind: string) => pages[kind], settle: async () => undefined };
  const walk = () => strays.findKept(rows as never, keys as never, Date.now());
  await expect(walk()).rejects.toBeInstanceOf(StraysSuspicious);
  expect(look?.()).toEqual({ status: 'warn', message: expect.stringContaining('accept-restore') });
  pages.note = String(Date.now() + 60_000);
  await walk();
  expect(look?.()).toEqual({ status: 'ok' });
});

test('a damaged page is a warning, as the rest is served; a store that is away is a failure', async () => {
  let failure: Error | undefined;
  const core = {
    metadata: {
      page: async () => {
        if (failure !== undefined) throw failure;
        return [];
      },
    },
    content: { inspect: async () => undefined },
    settings: { nodeBytesMax: 1 },
  } as unknown as Core;
  const look = async () => {
    const sampler = new HealthSampler(core, { assertSchema: async () => undefined });
    await sampler.start();
    sampler.stop();
    return sampler.checks.find(({ name }) => name === 'engines')?.look();
  };
  expect(await look()).toEqual({ status: 'ok' });
  failure = new StoreUnavailable('block 0 of a table', { isDamage: true });
  expect(await look()).toEqual({
    status: 'warn',
    message: 'the store of rows is damaged: block 0 of a table',
  });
  failure = new StoreUnavailable('nobody is there');
  expect(await look()).toEqual({
    status: 'fail',
    message: 'the store of rows cannot be used: nobody is there',
  });
});
