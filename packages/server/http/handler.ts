/** Request → Response for the whole listener: Space routes, upload target, health. Works without a socket. */
import {
  ApiError,
  HEALTH_PATH,
  type Health,
  matchSpacePath,
  type OperationName,
  parsePathId,
  type SpacePathMatch,
  type SpaceRoute,
} from '@holdfast/protocol';
import type { AuditLog } from '../audit/audit-log.ts';
import type { Capability } from '../auth/capability.ts';
import { after } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import type { Awaitable } from '../core/ports.ts';
import { REQUESTS_IN_FLIGHT, UPLOADS_IN_FLIGHT } from '../metrics/server-metrics.ts';
import type { ContentCopies } from './content-copies.ts';
import { type CorsOrigins, preflightHeaders } from './cors.ts';
import { errorAnswer, type ReportFailure, unsentAnswer } from './error-answer.ts';
import { type Connections, type Exchange, emptyAnswer } from './exchange.ts';
import { acceptsHtml, FRONT_PATH, frontPageAnswer } from './front-page.ts';
import { REQUESTS_IN_FLIGHT_MAX, SHED_RETRY_AFTER_SECONDS, UPLOADS_IN_FLIGHT_MAX } from './http-limits.ts';
import { auditAnswer, mayChange, notAudited } from './request-audit.ts';
import { RequestMetrics } from './request-metrics.ts';
import { RequestRecord } from './request-record.ts';
import { RequestTiming } from './request-timing.ts';
import { splitUrl } from './request-url.ts';
import { SPACE_OPERATIONS } from './space-operations.ts';
import { withTiming } from './timed-core.ts';
import { answerUpload, UPLOADS_PATH } from './upload-target.ts';

/** docs/api.md, Capabilities. The ids are decoded, `undefined` for one that is no id. Throws or rejects with ApiError. */
type Authorize = (
  authorization: string | null,
  appId: string | undefined,
  spaceId: string | undefined,
  operation: OperationName,
  record: RequestRecord,
) => Capability | Promise<Capability>;

export interface HandlerOptions {
  readonly core: Core;
  readonly authorize: Authorize;
  /** for metrics: Apps that nobody registered have no series of their own */
  readonly isRegistered: (appId: string) => boolean;
  readonly audit?: AuditLog | undefined;
  readonly copies: ContentCopies;
  readonly reportFailure: ReportFailure;
  /** origin of upload URLs, no trailing slash; undefined: `http://` and the Host of the lease request */
  readonly publicUrl: string | undefined;
  readonly corsOrigins: CorsOrigins;
  readonly requestsInFlightMax?: number;
  readonly uploadsInFlightMax?: number;
}

type Handle = (request: Request, connections?: Connections) => Awaitable<Response>;

export interface Handler {
  /** Answers any request. */
  readonly handle: Handle;
  /** Answers a request of a Space route that a router has taken apart already, its ids as they were sent. */
  readonly handleSpace: (
    match: SpacePathMatch,
    query: string | undefined,
    request: Request,
    connections?: Connections,
  ) => Awaitable<Response>;
  /** Answers 404: for a request whose path, as it was sent, is none of ours. */
  readonly refuse: Handle;
  /** Answers in the place of an answer that could not be sent, as when the file that is its body cannot be opened. */
  readonly replaceUnsent: (error: unknown) => Response;
}

const HEALTHY: Health = { status: 'ok' };
const HEALTH_TEXT = JSON.stringify(HEALTHY);

export function createHandler(options: HandlerOptions): Handler {
  const { corsOrigins, reportFailure, audit } = options;
  const requestsMax = options.requestsInFlightMax ?? REQUESTS_IN_FLIGHT_MAX;
  const uploads = new UploadGate(options.uploadsInFlightMax ?? UPLOADS_IN_FLIGHT_MAX);
  const metrics = new RequestMetrics(options.isRegistered);
  let inFlight = 0;

  /**
   * Counts the request while `step` answers it, and turns whatever it throws into an answer. A step that answers at once is
   * not made to wait: the runtime sends a plain Response sooner than a promise of one.
   */
  const guard = (exchange: Exchange, step: () => Awaitable<Response>): Awaitable<Response> => {
    if (inFlight >= requestsMax) return noted(exchange, errorAnswer(exchange, overloaded(), reportFailure));
    inFlight += 1;
    REQUESTS_IN_FLIGHT.add(1);
    let answer: Awaitable<Response>;
    try {
      answer = step();
    } catch (error) {
      answer = errorAnswer(exchange, error, reportFailure);
    }
    return answer instanceof Promise ? settle(exchange, answer) : ended(exchange, answer);
  };
  const ended = (exchange: Exchange, answer: Response): Awaitable<Response> => {
    inFlight -= 1;
    REQUESTS_IN_FLIGHT.add(-1);
    return noted(exchange, answer);
  };
  const noted = (exchange: Exchange, answer: Response): Awaitable<Response> => {
    if (audit === undefined) return counted(exchange, answer);
    const unwritten = (error: ApiError): Response => errorAnswer(exchange, error, reportFailure);
    return after(auditAnswer(audit, exchange, answer, unwritten), (last) => counted(exchange, last));
  };
  const counted = (exchange: Exchange, answer: Response): Response => {
    metrics.record(exchange.record, answer.status, exchange.timing.elapsedMs);
    return answer;
  };
  const settle = async (exchange: Exchange, answer: Promise<Response>): Promise<Response> => {
    let settled: Response;
    try {
      settled = await answer;
    } catch (error) {
      settled = errorAnswer(exchange, error, reportFailure);
    }
    return ended(exchange, settled);
  };
  const begin = (request: Request, connections: Connections | undefined): Exchange => {
    return { request, timing: new RequestTiming(), record: new RequestRecord(), corsOrigins, connections };
  };

  return {
    handle(request, connections) {
      const { path, query } = splitUrl(request.url);
      const isRead = request.method === 'GET' || request.method === 'HEAD';
      if (path === HEALTH_PATH && isRead) return answerHealth(request);
      const exchange = begin(request, connections);
      return guard(exchange, () => {
        const match = matchSpacePath(path);
        if (match !== undefined) return answerSpace(options, exchange, match, query);
        if (path.startsWith(UPLOADS_PATH)) return uploads.answer(options, exchange, path, query);
        if (path === FRONT_PATH && isRead && acceptsHtml(request)) return frontPageAnswer(exchange);
        throw notFound();
      });
    },
    handleSpace(match, query, request, connections) {
      const exchange = begin(request, connections);
      return guard(exchange, () => answerSpace(options, exchange, match, query));
    },
    refuse(request, connections) {
      const exchange = begin(request, connections);
      return noted(exchange, errorAnswer(exchange, notFound(), reportFailure));
    },
    replaceUnsent: (error) => unsentAnswer(corsOrigins, error, reportFailure),
  };
}

function answerSpace(
  options: HandlerOptions,
  exchange: Exchange,
  match: SpacePathMatch,
  query: string | undefined,
): Awaitable<Response> {
  const appId = readId(match.appId);
  const spaceId = readId(match.spaceId);
  const { request, timing, record } = exchange;
  if (request.method === 'OPTIONS')
    return emptyAnswer(exchange, 204, preflightHeaders(methodsOf(match.route)));
  const operation = findOperation(match.route, request.method);
  if (operation === undefined) throw notFound();
  record.operation = operation;
  if (appId !== undefined && spaceId !== undefined) record.space = { appId, spaceId };
  const authorization = request.headers.get('authorization');
  const judged = timing.measure('cas_auth', () =>
    options.authorize(authorization, appId, spaceId, operation, record),
  );
  return after(judged, (capability) => {
    const refusesChanges = options.audit?.refusesChanges ?? false;
    // A lease may turn out to be a renewal, which changes nothing that is audited.
    if (refusesChanges && mayChange(operation) && operation !== 'leaseNode') throw notAudited();
    return SPACE_OPERATIONS[operation]({
      core: withTiming(options.core, timing),
      exchange,
      space: { appId: capability.appId, spaceId: capability.spaceId },
      rawHash: match.hash,
      query,
      refDomain: capability.refDomain,
      copies: options.copies,
      publicUrl: options.publicUrl,
      isUploadDirect: options.core.content.upload.kind === 'direct',
      refusesChanges,
    });
  });
}

/** Uploads are counted apart: they are long and hold buffers. */
class UploadGate {
  readonly #max: number;
  #open = 0;

  constructor(max: number) {
    this.#max = max;
  }

  async answer(
    { core, audit }: HandlerOptions,
    exchange: Exchange,
    path: string,
    query: string | undefined,
  ): Promise<Response> {
    const { method } = exchange.request;
    if (method === 'OPTIONS') return emptyAnswer(exchange, 204, preflightHeaders('PUT'));
    if (method !== 'PUT') throw notFound();
    exchange.record.operation = 'upload';
    if (audit?.refusesChanges) throw notAudited();
    if (this.#open >= this.#max) throw overloaded();
    this.#open += 1;
    UPLOADS_IN_FLIGHT.add(1);
    try {
      // A URL that was handed out has no query: with one it is not ours, and fails as a wrong signature does.
      const token = path.slice(UPLOADS_PATH.length) + (query === undefined ? '' : `?${query}`);
      return await answerUpload(withTiming(core, exchange.timing), exchange, token);
    } finally {
      this.#open -= 1;
      UPLOADS_IN_FLIGHT.add(-1);
    }
  }
}

/** `.` and `..` make no route; an id that is none is judged with the capability. */
function readId(rawSegment: string): string | undefined {
  const parsed = parsePathId(rawSegment);
  if (parsed.kind === 'not-found') throw notFound();
  return parsed.kind === 'id' ? parsed.id : undefined;
}

function findOperation({ get, post }: SpaceRoute, method: string): OperationName | undefined {
  if (method === 'GET' || method === 'HEAD') return get;
  return method === 'POST' ? post : undefined;
}

function methodsOf({ get, post }: SpaceRoute): string {
  const methods = get === undefined ? [] : ['GET', 'HEAD'];
  return (post === undefined ? methods : [...methods, 'POST']).join(', ');
}

function answerHealth(request: Request): Response {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'access-control-allow-origin': '*',
  };
  if (request.method !== 'HEAD') return new Response(HEALTH_TEXT, { headers });
  headers['content-length'] = String(HEALTH_TEXT.length);
  return new Response(null, { headers });
}

const notFound = (): ApiError =>
  new ApiError(
    'NOT_FOUND',
    'there is no such route: the API is under /v1/apps/{appId}/spaces/{spaceId}/; check the address, the prefix of its path, and the method',
  );

const overloaded = (): ApiError =>
  new ApiError('RESOURCE_EXHAUSTED', 'the server has too much to do; try again shortly', {
    retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
  });
