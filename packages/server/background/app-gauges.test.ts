import { expect, test } from 'bun:test';
import type { AppRecord } from '../auth/registry-store.ts';
import type { MetadataStore } from '../core/ports.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { makeAppGaugesStep } from './work.ts';

const record = (appId: string, maxBytes?: number): AppRecord =>
  ({ appId, quotas: { maxBytes, maxNodes: undefined } }) as AppRecord;

test('each App has what it stores and its quota, and one that was removed has nothing left', async () => {
  let records = [record('limited', 100), record('free')];
  const metadata: Pick<MetadataStore, 'readAppTotals'> = {
    readAppTotals: async (appId) =>
      ({ readyStoredBytes: appId.length, waitingBytes: 1, nodeCount: 1, pendingBytes: 2 }) as Awaited<
        ReturnType<MetadataStore['readAppTotals']>
      >,
  };
  const heldBytesOf = (appId: string) => (appId === 'free' ? 40 : 0);
  const step = makeAppGaugesStep({ readAll: async () => records }, metadata, heldBytesOf);
  expect(await step()).toBeGreaterThanOrEqual(5_000);
  const read = (name: string) => Object.fromEntries(METRICS.snapshot()[name] ?? []);
  expect(read('holdfast_app_stored_bytes')).toEqual({ 'app="limited"': 8, 'app="free"': 5 });
  expect(read('holdfast_app_quota_bytes')).toEqual({ 'app="limited"': 100 });
  expect(read('holdfast_pending_bytes')).toEqual({ 'app="limited"': 2, 'app="free"': 42 });
  records = [record('free')];
  await step();
  expect(read('holdfast_app_stored_bytes')).toEqual({ 'app="free"': 5 });
  expect(read('holdfast_app_quota_bytes')).toEqual({});
});
