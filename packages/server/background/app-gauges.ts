/** Periodically reads what each App stores and may store, for metrics. */
import type { RegistryStore } from '../auth/registry-store.ts';
import type { MetadataStore } from '../core/ports.ts';
import { storedOf } from '../core/quotas.ts';
import { AppLabels, OTHER_APP } from '../metrics/app-label.ts';
import { APP_QUOTA_BYTES, APP_STORED_BYTES, PENDING_BYTES } from '../metrics/server-metrics.ts';

interface AppHeld {
  readonly app: string;
  /** bytes, all three fields */
  readonly stored: number;
  readonly pending: number;
  readonly quota: number | undefined;
}

/** Apps without series of their own are left out. Resolves with the ms until the next reading. */
export function makeAppGaugesStep(
  apps: Pick<RegistryStore, 'readAll'>,
  metadata: Pick<MetadataStore, 'readAppTotals'>,
  /** bytes of an App's uploads in progress */
  heldBytesOf: (appId: string) => number,
): () => Promise<number> {
  return async () => {
    const startedAt = performance.now();
    const labels = new AppLabels();
    const read: AppHeld[] = [];
    for (const { appId, quotas } of await apps.readAll()) {
      const app = labels.labelOf(appId);
      if (app === OTHER_APP) break;
      const totals = await metadata.readAppTotals(appId);
      const pending = totals.pendingBytes + heldBytesOf(appId);
      read.push({ app, stored: storedOf(totals).bytes, pending, quota: quotas.maxBytes });
    }
    // Replaced in one go, so that no scrape sees a part.
    APP_STORED_BYTES.clear();
    APP_QUOTA_BYTES.clear();
    PENDING_BYTES.clear();
    for (const { app, stored, pending, quota } of read) {
      APP_STORED_BYTES.set({ app }, stored);
      PENDING_BYTES.set({ app }, pending);
      if (quota !== undefined) APP_QUOTA_BYTES.set({ app }, quota);
    }
    // The pause is at least 20 times as long as the reading.
    return Math.max(5_000, (performance.now() - startedAt) * 20);
  };
}
