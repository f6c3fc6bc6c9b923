/**
 * The behaviour of every MetadataStore, on any engine (core/ports.ts). An engine's own test gives an adapter and calls
 * `testMetadataStore`.
 */
import { afterEach, beforeEach, describe } from 'bun:test';
import type { MetadataStore } from '../../core/ports.ts';
import { testCommitRecords } from './commit-record-suite.ts';
import { testHoldings } from './holdings-suite.ts';
import { testInspection } from './inspection-suite.ts';
import { testMaintenance } from './maintenance-suite.ts';
import { testMending } from './mending-suite.ts';
import { testNodeRows } from './node-row-suite.ts';
import { testPackRows } from './pack-row-suite.ts';
import { testPurge } from './purge-suite.ts';
import { testReadyLeases } from './ready-lease-suite.ts';
import { testRootRefs } from './root-ref-suite.ts';
import { ManualClock } from './samples.ts';
import { testSpaceListing, testStored } from './space-listing-suite.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { testStrayRows } from './stray-row-suite.ts';
import { testTransactions } from './transaction-suite.ts';
import { testUploadRows } from './upload-row-suite.ts';
import { testUsage } from './usage-suite.ts';

export interface MetadataStoreAdapter {
  /** A store with nothing in it. */
  open(clock: ManualClock): Promise<OpenedMetadataStore>;
}

interface OpenedMetadataStore {
  readonly store: MetadataStore;
  /** Closes the store and opens it again on what it kept. */
  reopen(): Promise<MetadataStore>;
  /** Closes it and removes what it kept. */
  destroy(): Promise<void>;
}

export function testMetadataStore(name: string, adapter: MetadataStoreAdapter): void {
  describe(`MetadataStore: ${name}`, () => {
    let opened: OpenedMetadataStore;
    const subject: StoreUnderTest = {
      store: undefined as unknown as MetadataStore,
      clock: new ManualClock(),
      async reopen() {
        subject.store = await opened.reopen();
        return subject.store;
      },
    };
    beforeEach(async () => {
      subject.clock = new ManualClock();
      opened = await adapter.open(subject.clock);
      subject.store = opened.store;
    });
    afterEach(() => opened.destroy());
    testTransactions(subject);
    testNodeRows(subject);
    testUploadRows(subject);
    testUsage(subject);
    testSpaceListing(subject);
    testStored(subject);
    testHoldings(subject);
    testPurge(subject);
    testReadyLeases(subject);
    testPackRows(subject);
    testRootRefs(subject);
    testCommitRecords(subject);
    testMaintenance(subject);
    testInspection(subject);
    testMending(subject);
    testStrayRows(subject);
  });
}
