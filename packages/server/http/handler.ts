/** Request → Response for the whole listener: Space routes, upload target, health. Works without a socket. */
import {
  ApiError,
  type BulkPathMatch,
  HEALTH_PATH,
  type Health,
  matchBulkPath,
  matchSpacePath,
  type OperationName,
  parsePathId,
  type SpacePathMatch,
  type SpaceRoute,
} from '@holdfast/protocol';
import type { AuditLog } from '../audit/audit-log.ts';
import type { Capability, RequestedOperation } from '../auth/capability.ts';
import type { Awaitable } from '../core/awaitable.ts';
import { after } from '../core/awaitable.ts';
import type { Core } from '../core/core.ts';
import type { Space } from '../core/model.ts';
import { REQUESTS_IN_FLIGHT } from '../metrics/server-metrics.ts';
import type { ClaimOptions, Hold } from '../shares/fair-shares.ts';
import type { Tracer } from '../traces/tracer.ts';
import type { AuthorizedCall } from './authorized-call.ts';
import { BULK_ANSWERS } from './bulk-answers.ts';
import type { ContentCopies } from './content-copies.ts';
import { type CorsOrigins, preflightHeaders } from './cors.ts';
import { errorAnswer, type ReportFailure, unsentAnswer } from './error-answer.ts';
import { type Connections, type Exchange, emptyAnswer } from './exchange.ts';
import { acceptsHtml, FRONT_PATH, frontPageAnswer } from './front-page.ts';
import { IDLE_SECONDS_MAX, SMALL_BODY_BYTES_MAX } from './http-limits.ts';
import { peerShareOf, TrustedProxies } from './peer.ts';
import { auditAnswer, mayChange, notAudited } from './request-audit.ts';
import { jsonBytesAtMost, orDropped } from './request-body.ts';
import { RequestMetrics } from './request-metrics.ts';
import { RequestRecord, type ServedOperation } from './request-record.ts';
import { RequestTiming } from './request-timing.ts';
import { describeRequest, findTraceParent } from './request-traces.ts';
import { originOf, splitUrl } from './request-url.ts';
import { SPACE_OPERATIONS } from './space-operations.ts';
import { makeTenantShares, type TenantShares } from './tenant-shares.ts';
import { withTiming } from './timed-core.ts';
import { type CheckUpload, UPLOADS_PATH, UploadTarget } from './upload-target.ts';

/** docs/api.md, Capabilities. The ids are decoded; undefined if invalid. Throws or rejects with ApiError. */
type Authorize = (
  authorization: string | null,
  appId: string | undefined,
  spaceId: string | undefined,
  operation: RequestedOperation,
  record: RequestRecord,
) => Capability | Promise<Capability>;

export interface HandlerOptions {
  readonly core: Core;
  readonly authorize: Authorize;
  /** for metrics: unregistered Apps have no series of their own */
  readonly isRegistered: (appId: string) => boolean;
  /** Throws or rejects if the upload URL may no longer be used. Absent if nothing is ever revoked. */
  readonly checkUpload?: CheckUpload;
  readonly audit?: AuditLog | undefined;
  /** undefined if traces are disabled */
  readonly tracer?: Tracer | undefined;
  readonly copies: ContentCopies;
  readonly reportFailure: ReportFailure;
  /** origin of upload URLs, no trailing slash; undefined: `http://` and the Host of the lease request */
  readonly publicUrl: string | undefined;
  readonly corsOrigins: CorsOrigins;
  /** s a connection may rest between requests */
  readonly idleSeconds?: number | undefined;
  /** proxies whose word about the client's address and scheme is trusted; none by default */
  readonly trustedProxies?: TrustedProxies;
  readonly shares?: TenantShares;
}

type Handle = (request: Request, connections?: Connections) => Awaitable<Response>;

export interface Handler {
  /** Answers any request. */
  readonly handle: Handle;
  /** Handles a request of a Space route that a router has parsed, with the ids as sent. */
  readonly handleSpace: (
    match: SpacePathMatch,
    query: string | undefined,
    request: Request,
    connections?: Connections,
  ) => Awaitable<Response>;
  /** Answers 404 if the path as sent is not one of ours. */
  readonly refuse: Handle;
  /** Replaces a response that could not be sent, such as when the file of its body cannot be opened. */
  readonly replaceUnsent: (error: unknown) => Response;
}

const HEALTHY: Health = { status: 'ok' };
const HEALTH_TEXT = JSON.stringify(HEALTHY);

export function createHandler(options: HandlerOptions): Handler {
  const { corsOrigins, idleSeconds = IDLE_SECONDS_MAX, reportFailure, audit, tracer } = options;
  const shares = options.shares ?? makeTenantShares();
  const proxies = options.trustedProxies ?? new TrustedProxies();
  const uploads = new UploadTarget(shares, options.checkUpload);
  const metrics = new RequestMetrics(options.isRegistered);
  const tenants: Tenants = { ...options, shares, proxies };

  /** Counts the request and turns any error into a response. A synchronous step stays so: a plain Response is sent sooner. */
  const guard = (exchange: Exchange, step: () => Awaitable<Response>): Awaitable<Response> => {
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
    REQUESTS_IN_FLIGHT.add(-1);
    exchange.hold?.release();
    return noted(exchange, answer);
  };
  const noted = (exchange: Exchange, answer: Response): Awaitable<Response> => {
    if (audit === undefined) return counted(exchange, answer);
    const unwritten = (error: ApiError): Response => errorAnswer(exchange, error, reportFailure);
    return after(auditAnswer(audit, exchange, answer, tenants.proxies, unwritten), (last) =>
      counted(exchange, last),
    );
  };
  const counted = (exchange: Exchange, answer: Response): Response => {
    metrics.record(exchange.record, answer.status, exchange.timing.elapsedMs);
    if (tracer !== undefined) {
      tracer.record(findTraceParent(exchange, tenants.proxies), () =>
        describeRequest(exchange, answer.status, tenants),
      );
    }
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
    return {
      request,
      method: request.method,
      timing: new RequestTiming(),
      record: new RequestRecord(),
      corsOrigins,
      connections,
      idleSeconds,
    };
  };

  return {
    handle(request, connections) {
      const { path, query } = splitUrl(request.url);
      const isRead = request.method === 'GET' || request.method === 'HEAD';
      if (path === HEALTH_PATH && isRead) return answerHealth(request);
      const exchange = begin(request, connections);
      return guard(exchange, () => {
        const match = matchSpacePath(path);
        if (match !== undefined) return answerSpace(tenants, exchange, match, query);
        const bulk = matchBulkPath(path);
        if (bulk !== undefined) return answerBulk(tenants, exchange, bulk, query);
        if (path.startsWith(UPLOADS_PATH)) return answerUpload(tenants, uploads, exchange, path, query);
        if (path === FRONT_PATH && isRead && acceptsHtml(request)) return frontPageAnswer(exchange);
        throw notFound();
      });
    },
    handleSpace(match, query, request, connections) {
      const exchange = begin(request, connections);
      return guard(exchange, () => answerSpace(tenants, exchange, match, query));
    },
    refuse(request, connections) {
      const exchange = begin(request, connections);
      return noted(exchange, errorAnswer(exchange, notFound(), reportFailure));
    },
    replaceUnsent: (error) => unsentAnswer(corsOrigins, error, reportFailure),
  };
}

interface Tenants extends HandlerOptions {
  readonly shares: TenantShares;
  readonly proxies: TrustedProxies;
}

function answerSpace(
  tenants: Tenants,
  exchange: Exchange,
  match: SpacePathMatch,
  query: string | undefined,
): Awaitable<Response> {
  const { route, appId, spaceId, hash } = match;
  const operation = findOperation(route, exchange.method);
  const target = { appId, spaceId, operation, listMethods: () => methodsOf(route) };
  return answerTenant(tenants, exchange, target, (capability) => {
    return SPACE_OPERATIONS[operation as OperationName](callOf(tenants, exchange, capability, query, hash));
  });
}

function answerBulk(
  tenants: Tenants,
  exchange: Exchange,
  match: BulkPathMatch,
  query: string | undefined,
): Awaitable<Response> {
  const { appId, spaceId } = match;
  const operation = exchange.method === 'POST' ? match.operation : undefined;
  const target = { appId, spaceId, operation, listMethods: () => 'POST' };
  return answerTenant(tenants, exchange, target, (capability) => {
    const call = callOf(tenants, exchange, capability, query);
    return BULK_ANSWERS[match.operation](call, match.packId);
  });
}

/** The request that a path of one Space stands for. */
interface Target {
  /** the ids as they were sent */
  readonly appId: string;
  readonly spaceId: string;
  /** undefined if the path does not exist for the method */
  readonly operation: RequestedOperation | undefined;
  /** the methods of the path; only a preflight needs them */
  readonly listMethods: () => string;
}

/** `answer` is called once the capability is verified, and within the share of its Space. */
function answerTenant(
  tenants: Tenants,
  exchange: Exchange,
  target: Target,
  answer: (capability: Capability) => Awaitable<Response>,
): Awaitable<Response> {
  const { operation } = target;
  const appId = readId(target.appId);
  const spaceId = readId(target.spaceId);
  const { request, timing, record, connections } = exchange;
  if (exchange.method === 'OPTIONS')
    return emptyAnswer(exchange, 204, preflightHeaders(target.listMethods()));
  if (operation === undefined) throw notFound();
  record.operation = operation;
  if (appId !== undefined && spaceId !== undefined) record.space = { appId, spaceId };
  const authorization = request.headers.get('authorization');
  const peerShare = (): string => peerShareOf(tenants.proxies.peerOf(request, connections));
  record.peerShare = peerShare;
  const judged = timing.measure('cas_auth', () =>
    tenants.authorize(authorization, appId, spaceId, operation, record),
  );
  const serve = (capability: Capability): Awaitable<Response> =>
    withinShare(tenants.shares, exchange, capability, () => answer(capability));
  if (!(judged instanceof Promise)) return serve(judged);
  return whileUnverified(tenants.shares, request, { peer: peerShare(), appId: appId ?? '' }, judged).then(
    serve,
  );
}

/** Until the capability is verified, the request and its body count for the peer's address, and within that for the App it names. */
async function whileUnverified(
  shares: TenantShares,
  request: Request,
  { peer, appId }: { readonly peer: string; readonly appId: string },
  judged: Promise<Capability>,
): Promise<Capability> {
  const holds: Hold[] = [];
  // Without a share, nothing waits for this verdict.
  judged.catch(() => undefined);
  try {
    const bytes = request.method === 'POST' ? jsonBytesAtMost(request) : 0;
    if (bytes > SMALL_BODY_BYTES_MAX)
      holds.push(await orDropped(request, shares.bodies.acquire(peer, appId, bytes)));
    holds.push(await shares.requests.acquire(peer, appId, 1));
    return await judged;
  } finally {
    for (const hold of holds) hold.release();
  }
}

/** While capacity is plentiful, a request is counted only if it must wait: most are answered at once. */
function withinShare(
  { requests }: TenantShares,
  exchange: Exchange,
  { appId, spaceId }: Space,
  answer: () => Awaitable<Response>,
): Awaitable<Response> {
  if (!requests.hasPlenty)
    return onceShared(requests.acquire(appId, spaceId, 1, reclaimOf(exchange)), answer);
  const answered = answer();
  if (!(answered instanceof Promise)) return answered;
  exchange.hold = requests.tryAcquire(appId, spaceId, 1, reclaimOf(exchange));
  return answered;
}

async function onceShared(pending: Awaitable<Hold>, answer: () => Awaitable<Response>): Promise<Response> {
  const hold = await pending;
  try {
    return await answer();
  } finally {
    hold.release();
  }
}

const reclaimOf = (exchange: Exchange): ClaimOptions => ({ onReclaim: () => exchange.body?.giveWay() });

/** Leases may turn out to be renewals, which change nothing that is audited. */
const MAY_RENEW: ReadonlySet<ServedOperation> = new Set(['leaseNode', 'leaseNodes', 'leasePack']);

/** Throws if the operation would be a change and changes cannot be audited now. */
function callOf(
  { core, audit, copies, shares, publicUrl, proxies }: Tenants,
  exchange: Exchange,
  capability: Capability,
  query: string | undefined,
  rawHash?: string,
): AuthorizedCall {
  const { request, timing, connections, record } = exchange;
  const refusesChanges = audit?.refusesChanges ?? false;
  if (refusesChanges && mayChange(record.operation) && !MAY_RENEW.has(record.operation)) throw notAudited();
  return {
    core: withTiming(core, timing),
    exchange,
    space: { appId: capability.appId, spaceId: capability.spaceId },
    rawHash,
    query,
    refDomain: capability.refDomain,
    holder: { jti: capability.tokenId, sub: capability.subject },
    copies,
    shares,
    uploadOrigin: () => publicUrl ?? originOf(request, proxies.schemeOf(request, connections)),
    isUploadDirect: core.content.upload.kind === 'direct',
    refusesChanges,
  };
}

async function answerUpload(
  { core, audit }: Tenants,
  uploads: UploadTarget,
  exchange: Exchange,
  path: string,
  query: string | undefined,
): Promise<Response> {
  const { method } = exchange;
  if (method === 'OPTIONS') return emptyAnswer(exchange, 204, preflightHeaders('PUT'));
  if (method !== 'PUT') throw notFound();
  exchange.record.operation = 'upload';
  if (audit?.refusesChanges) throw notAudited();
  // Upload URLs have no query: with one the URL is not ours and fails like a wrong signature.
  const token = path.slice(UPLOADS_PATH.length) + (query === undefined ? '' : `?${query}`);
  return uploads.answer(withTiming(core, exchange.timing), exchange, token);
}

/** `.` and `..` match no route; an invalid id is judged with the capability. */
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
