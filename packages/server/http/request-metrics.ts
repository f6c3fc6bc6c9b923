/** Counts answered requests. The counters of an operation, a status and an App are looked up once, then kept. */
import { BULK_OPERATIONS, OPERATIONS, SECOND_MS } from '@holdfast/protocol';
import type { Capability, RequestedOperation } from '../auth/capability.ts';
import { AppLabels, OTHER_APP } from '../metrics/app-label.ts';
import type { Counter, Histogram } from '../metrics/metric.ts';
import {
  KEY_SET_REFUSALS,
  RECEIVED_BYTES,
  REQUEST_DURATION,
  REQUESTS,
  SENT_BYTES,
} from '../metrics/server-metrics.ts';
import type { RequestRecord, ServedOperation } from './request-record.ts';

const STATUSES = 1000;

const SERVED_OPERATIONS: readonly ServedOperation[] = [
  ...(Object.keys({ ...OPERATIONS, ...BULK_OPERATIONS }) as RequestedOperation[]),
  'upload',
  'other',
];

interface OperationMetrics {
  /** of the operation among all, times `STATUSES` */
  readonly offset: number;
  readonly duration: Histogram;
}

interface AppCounters {
  /** the label */
  readonly app: string;
  /** by operation and status */
  readonly counters: Map<number, Counter>;
}

/** All operations exist from the start, so that the first request of a kind is an increase. */
function makeOperationMetrics(): Readonly<Record<ServedOperation, OperationMetrics>> {
  const metrics = SERVED_OPERATIONS.map((operation, index): [ServedOperation, OperationMetrics] => {
    REQUESTS.with({ operation, status: '200', app: OTHER_APP });
    return [operation, { offset: index * STATUSES, duration: REQUEST_DURATION.with({ operation }) }];
  });
  return Object.fromEntries(metrics) as Record<ServedOperation, OperationMetrics>;
}

// Without a sample, an expression that subtracts it would have no value.
KEY_SET_REFUSALS.with({ app: OTHER_APP });

const OPERATION_METRICS = makeOperationMetrics();

export class RequestMetrics {
  readonly #isRegistered: (appId: string) => boolean;
  readonly #labels = new AppLabels();
  /** by label */
  readonly #apps = new Map<string, AppCounters>();
  #latestCapability: Capability | undefined;
  #latest: AppCounters = { app: OTHER_APP, counters: new Map() };

  /** `isRegistered`: an unregistered App never gets its own series. */
  constructor(isRegistered: (appId: string) => boolean) {
    this.#isRegistered = isRegistered;
  }

  record(record: RequestRecord, status: number, durationMs: number): void {
    const { operation, sentBytes, receivedBytes, appWithoutKeys } = record;
    const { offset, duration } = OPERATION_METRICS[operation];
    duration.observe(durationMs / SECOND_MS);
    if (sentBytes > 0) SENT_BYTES.add(sentBytes);
    if (receivedBytes > 0) RECEIVED_BYTES.add(receivedBytes);
    if (appWithoutKeys !== undefined) KEY_SET_REFUSALS.add({ app: this.#labels.labelOf(appWithoutKeys) });
    const { app, counters } = this.#countersOf(record);
    const key = offset + status;
    let counter = counters.get(key);
    if (counter === undefined) {
      counter = REQUESTS.with({ operation, status: String(status), app });
      counters.set(key, counter);
    }
    counter.add();
  }

  /** A capability that is remembered is the same object each time, and a busy caller comes again at once. */
  #countersOf(record: RequestRecord): AppCounters {
    const { capability } = record;
    if (capability !== undefined && capability === this.#latestCapability) return this.#latest;
    const app = this.#labelOf(record);
    let known = this.#apps.get(app);
    if (known === undefined) {
      known = { app, counters: new Map() };
      this.#apps.set(app, known);
    }
    this.#latestCapability = capability;
    this.#latest = known;
    return known;
  }

  #labelOf({ capability, space }: RequestRecord): string {
    if (capability !== undefined) return this.#labels.labelOf(capability.appId);
    const appId = space?.appId;
    return appId !== undefined && this.#isRegistered(appId) ? this.#labels.labelOf(appId) : OTHER_APP;
  }
}
