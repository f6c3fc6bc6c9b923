import type { MetadataStore } from '../../core/ports.ts';
import type { ManualClock } from './samples.ts';

/** The subject of the parts of the suite: a fresh store for each test. */
export interface StoreUnderTest {
  store: MetadataStore;
  clock: ManualClock;
  reopen(): Promise<MetadataStore>;
}
