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
import type { Core } from '../core/core.ts';
import type { Space } from '../core/model.ts';
import { REQUESTS_IN_FLIGHT } from '../metrics/server-metrics.ts';
import type { ClaimOptions, Hold } from '../shares/fair-shares.ts';
import type { Tracer } from '../traces/tracer.ts';
import { BULK_ANSWERS } from './bulk-answers.ts';
import type { ContentCopies } from './content-copies.ts';
import { type CorsOrigins, preflightHeaders } from './cors.ts';
import { errorAnswer, type ReportFailure } from './error-answer.ts';
import {
  type AuthorizedCall,
  Exchange,
  emptyAnswer,
  type Operation,
  type ServedOperation,
  type Surroundings,
  splitUrl,
} from './exchange.ts';
import { acceptsHtml, FRONT_PATH, frontPageAnswer } from './front-page.ts';
import { IDLE_SECONDS_MAX, SMALL_BODY_BYTES_MAX } from './http-limits.ts';
import { type Connections, TrustedProxies } from './peer.ts';
import { jsonBytesAtMost, orDropped } from './request-body.ts';
import { mayChange, notAudited, RequestReport } from './request-report.ts';
import { withTiming } from './request-timing.ts';
import { SPACE_OPERATIONS } from './space-operations.ts';
import { makeTenantShares, type TenantShares } from './tenant-shares.ts';
import { type CheckUpload, UPLOADS_PATH, UploadTarget } from './upload-target.ts';

/** docs/api.md, Capabilities. The ids are decoded; undefined if invalid. Throws or rejects with ApiError. */
type Authorize = (
  authorization: string | null,
  appId: string | undefined,
  spaceId: string | undefined,
  operation: RequestedOperation,
  witness: Exchange,
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

const ANSWERS: Readonly<Record<RequestedOperation, Operation>> = { ...SPACE_OPERATIONS, ...BULK_ANSWERS };

const HEALTHY: Health = { status: 'ok' };
const HEALTH_TEXT = JSON.stringify(HEALTHY);

export function createHandler(options: HandlerOptions): Handler {
  const { corsOrigins, idleSeconds = IDLE_SECONDS_MAX, reportFailure } = options;
  const shares = options.shares ?? makeTenantShares();
  const proxies = options.trustedProxies ?? new TrustedProxies();
  const surroundings: Surroundings = { corsOrigins, idleSeconds, proxies };
  const uploads = new UploadTarget(shares, options.checkUpload);
  const tenants: Tenants = { ...options, shares };

  const failed = (exchange: Exchange, error: unknown): Response =>
    errorAnswer(exchange, error, reportFailure);
  const report = new RequestReport(options, failed);
  const begin = (request: Request, connections?: Connections): Exchange =>
    new Exchange(request, connections, surroundings);

  /** Counts the request and turns any error into a response. A synchronous step stays so: a plain Response is sent sooner. */
  const guard = (exchange: Exchange, step: () => Awaitable<Response>): Awaitable<Response> => {
    REQUESTS_IN_FLIGHT.add(1);
    let answer: Awaitable<Response>;
    try {
      answer = step();
    } catch (error) {
      answer = failed(exchange, error);
    }
    return answer instanceof Promise ? settle(exchange, answer) : ended(exchange, answer);
  };
  const ended = (exchange: Exchange, answer: Response): Awaitable<Response> => {
    REQUESTS_IN_FLIGHT.add(-1);
    exchange.hold?.release();
    return report.tell(exchange, answer);
  };
  const settle = async (exchange: Exchange, answer: Promise<Response>): Promise<Response> => {
    let settled: Response;
    try {
      settled = await answer;
    } catch (error) {
      settled = failed(exchange, error);
    }
    return ended(exchange, settled);
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
      return report.tell(exchange, failed(exchange, notFound()));
    },
    // The runtime does not say for which request, so the answer is that of a made-up one.
    replaceUnsent: (error) => failed(begin(new Request('http://localhost/')), error),
  };
}

interface Tenants extends HandlerOptions {
  readonly shares: TenantShares;
}

interface Target {
  /** the ids as they were sent */
  readonly appId: string;
  readonly spaceId: string;
  readonly hash?: string | undefined;
  readonly packId?: string | undefined;
  readonly query: string | undefined;
  /** undefined if the path does not exist for the method */
  readonly operation: RequestedOperation | undefined;
  /** the methods of the path; only a preflight needs them */
  readonly listMethods: () => string;
}

function answerSpace(
  tenants: Tenants,
  exchange: Exchange,
  { route, appId, spaceId, hash }: SpacePathMatch,
  query: string | undefined,
): Awaitable<Response> {
  const operation = findOperation(route, exchange.method);
  const listMethods = (): string => methodsOf(route);
  return answerTenant(tenants, exchange, { appId, spaceId, hash, query, operation, listMethods });
}

function answerBulk(
  tenants: Tenants,
  exchange: Exchange,
  match: BulkPathMatch,
  query: string | undefined,
): Awaitable<Response> {
  const { appId, spaceId, packId } = match;
  const operation = exchange.method === 'POST' ? match.operation : undefined;
  const listMethods = (): string => 'POST';
  return answerTenant(tenants, exchange, { appId, spaceId, packId, query, operation, listMethods });
}

/** The operation runs once the capability is verified, and within the share of its Space. */
function answerTenant(tenants: Tenants, exchange: Exchange, target: Target): Awaitable<Response> {
  const { operation } = target;
  const appId = readId(target.appId);
  const spaceId = readId(target.spaceId);
  if (exchange.method === 'OPTIONS')
    return emptyAnswer(exchange, 204, preflightHeaders(target.listMethods()));
  if (operation === undefined) throw notFound();
  exchange.operation = operation;
  if (appId !== undefined && spaceId !== undefined) exchange.space = { appId, spaceId };
  const authorization = exchange.request.headers.get('authorization');
  const judged = exchange.timing.measure('cas_auth', () =>
    tenants.authorize(authorization, appId, spaceId, operation, exchange),
  );
  const serve = (capability: Capability): Awaitable<Response> =>
    withinShare(tenants.shares, exchange, capability, () =>
      ANSWERS[operation](callOf(tenants, exchange, capability, target)),
    );
  if (!(judged instanceof Promise)) return serve(judged);
  return whileUnverified(tenants.shares, exchange, appId ?? '', judged).then(serve);
}

/** Until the capability is verified, the request and its body count for the peer's address, and within that for the App it names. */
async function whileUnverified(
  shares: TenantShares,
  exchange: Exchange,
  appId: string,
  judged: Promise<Capability>,
): Promise<Capability> {
  const { request } = exchange;
  const peer = exchange.peerShare();
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
  { core, audit, copies, shares, publicUrl }: Tenants,
  exchange: Exchange,
  capability: Capability,
  { hash: rawHash, packId, query }: Target,
): AuthorizedCall {
  const refusesChanges = audit?.refusesChanges ?? false;
  if (refusesChanges && mayChange(exchange.operation) && !MAY_RENEW.has(exchange.operation))
    throw notAudited();
  const { appId, spaceId, refDomain, tokenId: jti, subject: sub } = capability;
  return {
    core: withTiming(core, exchange.timing),
    space: { appId, spaceId },
    holder: { jti, sub },
    uploadOrigin: () => publicUrl ?? exchange.origin,
    isUploadDirect: core.content.upload.kind === 'direct',
    exchange,
    rawHash,
    packId,
    query,
    refDomain,
    copies,
    shares,
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
  exchange.operation = 'upload';
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
