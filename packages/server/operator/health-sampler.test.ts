import { expect, test } from 'bun:test';
import type { Core } from '../core/core.ts';
import { StraysSuspicious, StrayWatch } from '../core/stray-watch.ts';
import { newGeneration } from '../engine/contract/samples.ts';
import { HealthSampler } from './health-sampler.ts';

test('a walk over all objects that stopped is a warning with its reason until it continues', async () => {
  const strays = new StrayWatch();
  const parts = { strays, freeSpace: undefined } as unknown as Core;
  const { checks } = new HealthSampler(parts, { assertSchema: async () => undefined });
  const look = checks.find(({ name }) => name === 'strays')?.look;
  expect(look?.()).toEqual({ status: 'ok' });
  const keys = Array.from({ length: 40 }, () => ({ space: 's', generation: newGeneration() }));
  const rows = {
    findKnownGenerations: async () => new Set(),
    findTombstones: async () => new Map(),
    findNote: async () => undefined,
    settleTombstones: async () => undefined,
    setNote: async () => undefined,
  };
  const walk = () => strays.findKept(rows as never, keys as never, Date.now());
  await expect(walk()).rejects.toBeInstanceOf(StraysSuspicious);
  expect(look?.()).toEqual({ status: 'warn', message: expect.stringContaining('accept-restore') });
  Object.assign(rows, { findNote: async () => String(Date.now() + 60_000) });
  await walk();
  expect(look?.()).toEqual({ status: 'ok' });
});
