import type { MetadataStore } from '../../core/ports.ts';
import type { ManualClock } from './samples.ts';

/** What the parts of the suite see: a fresh store for each test. */
export interface StoreUnderTest {
  store: MetadataStore;
  clock: ManualClock;
  reopen(): Promise<MetadataStore>;
}
