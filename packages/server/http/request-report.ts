/** Reports each answered request to the audit log, the metrics and the traces. */
import { ApiError, BULK_OPERATIONS, OPERATIONS, SECOND_MS } from '@holdfast/protocol';
import type { AuditEvent } from '../audit/audit-event.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import { type Capability, describeToken, type RequestedOperation } from '../auth/capability.ts';
import type { Awaitable } from '../core/awaitable.ts';
import { after } from '../core/awaitable.ts';
import type { Counter, Histogram } from '../metrics/metric.ts';
import {
  AppLabels,
  KEY_SET_REFUSALS,
  OTHER_APP,
  RECEIVED_BYTES,
  REQUEST_DURATION,
  REQUESTS,
  SENT_BYTES,
} from '../metrics/server-metrics.ts';
import type { TracedRequest, Tracer } from '../traces/tracer.ts';
import { type Exchange, requestIdOf, type ServedOperation } from './exchange.ts';
import { UPLOADS_PATH } from './upload-target.ts';

interface Told {
  readonly audit?: AuditLog | undefined;
  /** undefined if traces are disabled */
  readonly tracer?: Tracer | undefined;
  /** for metrics: unregistered Apps have no series of their own */
  readonly isRegistered: (appId: string) => boolean;
}

export class RequestReport {
  readonly #told: Told;
  readonly #metrics: RequestMetrics;
  readonly #unwritten: (exchange: Exchange, error: ApiError) => Response;

  /** `unwritten`: the answer to a change whose audit line could not be written. */
  constructor(told: Told, unwritten: (exchange: Exchange, error: ApiError) => Response) {
    this.#told = told;
    this.#metrics = new RequestMetrics(told.isRegistered);
    this.#unwritten = unwritten;
  }

  /** Reports one request. Returns the answer to send; the answer to an audited change waits for its line. */
  tell(exchange: Exchange, answer: Response): Awaitable<Response> {
    const { audit } = this.#told;
    if (audit === undefined) return this.#count(exchange, answer);
    const unwritten = (error: ApiError): Response => this.#unwritten(exchange, error);
    return after(auditAnswer(audit, exchange, answer, unwritten), (last) => this.#count(exchange, last));
  }

  #count(exchange: Exchange, answer: Response): Response {
    const { tracer, isRegistered } = this.#told;
    this.#metrics.record(exchange, answer.status, exchange.timing.elapsedMs);
    tracer?.record(findTraceParent(exchange), () => describeRequest(exchange, answer.status, isRegistered));
    return answer;
  }
}

const CHANGES: ReadonlySet<ServedOperation> = new Set([
  'leaseNode',
  'leaseNodes',
  'leasePack',
  'updateRootRefs',
  'runGc',
  'upload',
]);
/** Statuses that answer a permitted read, so they refuse nothing. */
const FOUND_NOTHING: ReadonlySet<number> = new Set([404, 416]);

/** Whether an operation may change something. Whether a lease did is known only afterwards (`isRenewal`). */
export function mayChange(operation: ServedOperation): boolean {
  return CHANGES.has(operation);
}

/** Writes the audit line of a request, if it needs one. A change that must be audited is answered after it, else with `unwritten`. */
function auditAnswer(
  log: AuditLog,
  exchange: Exchange,
  answer: Response,
  unwritten: (error: ApiError) => Response,
): Awaitable<Response> {
  const { status } = answer;
  const isChange = mayChange(exchange.operation) && !exchange.isRenewal;
  const isRefusal = status >= 400;
  if (!isWanted(log, exchange, status, isChange)) return answer;
  answer.headers.set('x-request-id', requestIdOf(exchange));
  log.note(eventOf(exchange, status, isChange), isChange && !isRefusal ? 'change' : 'counted');
  return log.isRequired && isChange && !isRefusal ? onceWritten(log, answer, unwritten) : answer;
}

function isWanted(log: AuditLog, { operation }: Exchange, status: number, isChange: boolean): boolean {
  // An unknown path refuses nothing.
  if (operation === 'other') return status >= 400 && status !== 404;
  if (isChange || log.withReads) return true;
  return status >= 400 && !FOUND_NOTHING.has(status);
}

async function onceWritten(
  log: AuditLog,
  answer: Response,
  unwritten: (error: ApiError) => Response,
): Promise<Response> {
  return (await log.written()) ? answer : unwritten(notAudited());
}

/** The error for a change that is not begun, or whose audit line was lost. */
export const notAudited = (): ApiError =>
  new ApiError(
    'SERVICE_UNAVAILABLE',
    'the audit log of this server cannot be written, and it accepts no change without it; try again shortly',
  );

function eventOf(exchange: Exchange, status: number, isChange: boolean): AuditEvent {
  const { request, operation, capability, space, timing } = exchange;
  const isUpload = operation === 'upload';
  // The Space of an upload comes from a URL that we signed.
  const isProven = capability !== undefined || (isUpload && space !== undefined);
  const claims = isUpload ? undefined : describeToken(request.headers.get('authorization'));
  return {
    requestId: exchange.requestId,
    // The App and Space of the request, even if the capability is for others.
    app: space?.appId ?? capability?.appId,
    space: space?.spaceId ?? capability?.spaceId,
    operation,
    ...claims,
    verified: isProven ? undefined : false,
    peer: exchange.peer,
    status,
    error: exchange.errorCode,
    bytes: isChange ? exchange.receivedBytes : exchange.sentBytes,
    ms: Math.round(timing.elapsedMs * 1000) / 1000,
  };
}

const STATUSES = 1000;

const SERVED_OPERATIONS: readonly ServedOperation[] = [
  ...(Object.keys({ ...OPERATIONS, ...BULK_OPERATIONS }) as RequestedOperation[]),
  'upload',
  'other',
];

interface OperationMetrics {
  /** the operation's index times `STATUSES`: plus a status it is the key of a counter */
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

type Counted = Pick<
  Exchange,
  'operation' | 'capability' | 'space' | 'sentBytes' | 'receivedBytes' | 'appWithoutKeys'
>;

/** The counters of an operation, a status and an App are looked up once, then kept. */
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

  record(answered: Counted, status: number, durationMs: number): void {
    const { operation, sentBytes, receivedBytes, appWithoutKeys } = answered;
    const { offset, duration } = OPERATION_METRICS[operation];
    duration.observe(durationMs / SECOND_MS);
    if (sentBytes > 0) SENT_BYTES.add(sentBytes);
    if (receivedBytes > 0) RECEIVED_BYTES.add(receivedBytes);
    if (appWithoutKeys !== undefined) KEY_SET_REFUSALS.add({ app: this.#labels.labelOf(appWithoutKeys) });
    const { app, counters } = this.#countersOf(answered);
    const key = offset + status;
    let counter = counters.get(key);
    if (counter === undefined) {
      counter = REQUESTS.with({ operation, status: String(status), app });
      counters.set(key, counter);
    }
    counter.add();
  }

  /** A capability that is remembered is the same object each time, and a busy caller comes again at once. */
  #countersOf(answered: Counted): AppCounters {
    const { capability } = answered;
    if (capability !== undefined && capability === this.#latestCapability) return this.#latest;
    const app = this.#labelOf(answered);
    let known = this.#apps.get(app);
    if (known === undefined) {
      known = { app, counters: new Map() };
      this.#apps.set(app, known);
    }
    this.#latestCapability = capability;
    this.#latest = known;
    return known;
  }

  #labelOf({ capability, space }: Counted): string {
    if (capability !== undefined) return this.#labels.labelOf(capability.appId);
    const appId = space?.appId;
    return appId !== undefined && this.#isRegistered(appId) ? this.#labels.labelOf(appId) : OTHER_APP;
  }
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'DELETE', 'PATCH']);

/** Describes a request for traces, without its token, its headers and the ids of its path. */
function describeRequest(
  exchange: Exchange,
  status: number,
  isRegistered: (appId: string) => boolean,
): TracedRequest {
  const { request, operation, capability, space, timing } = exchange;
  const app = capability?.appId ?? space?.appId;
  return {
    name: operation,
    startedAt: timing.startedAt,
    endedAt: timing.startedAt + timing.elapsedMs,
    status,
    attributes: {
      'http.request.method': METHODS.has(request.method) ? request.method : '_OTHER',
      'http.route': routeOf(operation),
      'http.response.status_code': status,
      'url.scheme': exchange.scheme,
      'server.address': URL.parse(exchange.origin)?.hostname,
      'error.type': status >= 500 ? (exchange.errorCode ?? String(status)) : undefined,
      'holdfast.app': app !== undefined && isRegistered(app) ? app : undefined,
      'holdfast.request_id': exchange.requestId,
    },
    steps: timing.steps,
  };
}

/** The `traceparent` of a proven caller or trusted proxy. Strangers must not decide what is sampled or to which trace it belongs. */
function findTraceParent({ request, capability, connections, proxies }: Exchange): string | null {
  const header = request.headers.get('traceparent');
  if (header === null || capability !== undefined) return header;
  return proxies.isProxied(request, connections) ? header : null;
}

const ROUTES = { ...OPERATIONS, ...BULK_OPERATIONS };

function routeOf(operation: ServedOperation): string | undefined {
  if (operation === 'other') return undefined;
  return operation === 'upload' ? `${UPLOADS_PATH}{token}` : ROUTES[operation].path;
}
