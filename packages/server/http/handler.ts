/** Request → Response for the whole listener: Space routes, upload target, health. Works without a socket. */
import {
  ApiError,
  HEALTH_PATH,
  type Health,
  matchSpacePath,
  OPERATIONS,
  type OperationName,
  parsePathId,
  type SpacePathMatch,
} from '@holdfast/protocol';
import type { Capability } from '../auth/capability.ts';
import type { Core } from '../core/core.ts';
import type { ContentSpool } from './content-spool.ts';
import { type CorsOrigins, preflightHeaders } from './cors.ts';
import { errorAnswer, type ReportFailure } from './error-answer.ts';
import { type Connections, type Exchange, emptyAnswer } from './exchange.ts';
import { REQUESTS_IN_FLIGHT_MAX, SHED_RETRY_AFTER_SECONDS, UPLOADS_IN_FLIGHT_MAX } from './http-limits.ts';
import { RequestTiming } from './request-timing.ts';
import { splitUrl } from './request-url.ts';
import { SPACE_OPERATIONS } from './space-operations.ts';
import { withTiming } from './timed-core.ts';
import { answerUpload } from './upload-target.ts';

/** Contract section 3; ids are decoded, `undefined` for one that is no id. Throws or rejects with ApiError. */
type Authorize = (
  authorization: string | null,
  appId: string | undefined,
  spaceId: string | undefined,
  operation: OperationName,
) => Capability | Promise<Capability>;

export interface HandlerOptions {
  readonly core: Core;
  readonly authorize: Authorize;
  readonly spool: ContentSpool;
  readonly reportFailure: ReportFailure;
  /** origin of upload URLs, no trailing slash; undefined: `http://` and the Host of the lease request */
  readonly publicUrl: string | undefined;
  readonly corsOrigins: CorsOrigins;
  readonly requestsInFlightMax?: number;
  readonly uploadsInFlightMax?: number;
}

export type Handle = (request: Request, connections?: Connections) => Response | Promise<Response>;

export interface Handler {
  /** Answers any request. */
  readonly handle: Handle;
  /** Answers 404: for a request whose path, as it was sent, is none of `ROUTE_PATTERNS`. */
  readonly refuse: Handle;
}

const UPLOADS_PREFIX = '/uploads/';
/**
 * Every path that is served, for a router that sees it as it was sent. The URL of a Request has its dot segments resolved and
 * its backslashes turned, so that `/x/../health` would look like a route.
 */
export const ROUTE_PATTERNS: readonly string[] = [
  ...new Set(Object.values(OPERATIONS).map(({ path }) => path.replace(/\{(\w+)\}/g, ':$1'))),
  `${UPLOADS_PREFIX}*`,
  HEALTH_PATH,
];

const HEALTHY: Health = { status: 'ok' };
const HEALTH_TEXT = JSON.stringify(HEALTHY);

export function createHandler(options: HandlerOptions): Handler {
  const { corsOrigins, reportFailure } = options;
  const requestsMax = options.requestsInFlightMax ?? REQUESTS_IN_FLIGHT_MAX;
  const uploads = new UploadGate(options.uploadsInFlightMax ?? UPLOADS_IN_FLIGHT_MAX);
  let inFlight = 0;

  const answer = async (exchange: Exchange, path: string, query: string | undefined): Promise<Response> => {
    try {
      if (inFlight >= requestsMax) throw overloaded();
      inFlight += 1;
      try {
        const match = matchSpacePath(path);
        if (match !== undefined) return await answerSpace(options, exchange, match, query);
        if (path.startsWith(UPLOADS_PREFIX)) return await uploads.answer(options.core, exchange, path, query);
        throw notFound();
      } finally {
        inFlight -= 1;
      }
    } catch (error) {
      return errorAnswer(exchange, error, reportFailure);
    }
  };

  return {
    handle(request, connections) {
      const { path, query } = splitUrl(request.url);
      if (path === HEALTH_PATH && (request.method === 'GET' || request.method === 'HEAD')) {
        return answerHealth(request);
      }
      return answer({ request, timing: new RequestTiming(), corsOrigins, connections }, path, query);
    },
    refuse(request, connections) {
      const exchange = { request, timing: new RequestTiming(), corsOrigins, connections };
      return errorAnswer(exchange, notFound(), reportFailure);
    },
  };
}

async function answerSpace(
  options: HandlerOptions,
  exchange: Exchange,
  match: SpacePathMatch,
  query: string | undefined,
): Promise<Response> {
  const appId = readId(match.appId);
  const spaceId = readId(match.spaceId);
  const { request, timing } = exchange;
  if (request.method === 'OPTIONS') return emptyAnswer(exchange, 204, preflightHeaders(methodsOf(match)));
  const operation = findOperation(match, request.method);
  if (operation === undefined) throw notFound();
  const authorization = request.headers.get('authorization');
  const judged = timing.measure('cas_auth', () =>
    options.authorize(authorization, appId, spaceId, operation),
  );
  const capability = judged instanceof Promise ? await judged : judged;
  return SPACE_OPERATIONS[operation]({
    core: withTiming(options.core, timing),
    exchange,
    space: { appId: capability.appId, spaceId: capability.spaceId },
    rawHash: match.hash,
    query,
    refDomain: capability.refDomain,
    spool: options.spool,
    publicUrl: options.publicUrl,
  });
}

/** Uploads are counted apart: they are long and hold buffers. */
class UploadGate {
  private readonly max: number;
  private open = 0;

  constructor(max: number) {
    this.max = max;
  }

  async answer(core: Core, exchange: Exchange, path: string, query: string | undefined): Promise<Response> {
    const { method } = exchange.request;
    if (method === 'OPTIONS') return emptyAnswer(exchange, 204, preflightHeaders('PUT'));
    if (method !== 'PUT') throw notFound();
    if (this.open >= this.max) throw overloaded();
    this.open += 1;
    try {
      // A URL that was handed out has no query: with one it is not ours, and fails as a wrong signature does.
      const token = path.slice(UPLOADS_PREFIX.length) + (query === undefined ? '' : `?${query}`);
      return await answerUpload(withTiming(core, exchange.timing), exchange, token);
    } finally {
      this.open -= 1;
    }
  }
}

/** `.` and `..` make no route; an id that is none is judged with the capability. */
function readId(rawSegment: string): string | undefined {
  const parsed = parsePathId(rawSegment);
  if (parsed.kind === 'not-found') throw notFound();
  return parsed.kind === 'id' ? parsed.id : undefined;
}

function findOperation(match: SpacePathMatch, method: string): OperationName | undefined {
  if (method === 'GET' || method === 'HEAD') return match.get;
  return method === 'POST' ? match.post : undefined;
}

function methodsOf(match: SpacePathMatch): string {
  const methods = match.get === undefined ? [] : ['GET', 'HEAD'];
  return (match.post === undefined ? methods : [...methods, 'POST']).join(', ');
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
  new ApiError('NOT_FOUND', 'there is no such route; see the API document for paths and methods');

const overloaded = (): ApiError =>
  new ApiError('RESOURCE_EXHAUSTED', 'the server has too much to do; try again shortly', {
    retryAfterSeconds: SHED_RETRY_AFTER_SECONDS,
  });
