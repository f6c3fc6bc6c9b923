/** The operator listener without its socket: probes, metrics, the operator API and the console. */
import { OTHER_APP } from '../metrics/app-label.ts';
import { renderScrape } from '../metrics/exposition.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS, REQUESTS } from '../metrics/server-metrics.ts';
import { answerApi, isOpenPath, noteUnexpected, problemAnswer } from './api.ts';
import { API_PATH } from './api-path.ts';
import { noteRefusal } from './audited.ts';
import { type ConsoleReach, findConsoleAnswer } from './console-answer.ts';
import { assertFromHere, findIdentity, type Gatekeepers, identify } from './guard.ts';
import { RETRY_AFTER_SECONDS } from './guess-throttle.ts';
import type { LiveServer } from './live-server.ts';
import type { OperatorContext } from './operation.ts';
import { LIVE_PATH, liveAnswer, READY_PATH, readyAnswer } from './probes.ts';
import { OperatorError, PROBLEM_STATUS, type ProblemCode, problemOf } from './problem.ts';
import { mayCall, type Operator, type RequestCaller } from './rights.ts';

export interface OperatorHandlerParts {
  readonly context: OperatorContext;
  readonly live: LiveServer;
  readonly gatekeepers: Gatekeepers;
  /** whether only this machine can reach the listener */
  readonly isLoopback: boolean;
  /** metrics merged over all processes of this server */
  readonly readMetrics: () => Promise<MetricsSnapshot>;
  readonly consoleReach: ConsoleReach;
}

type Sender = Omit<RequestCaller, 'operator'>;

/** No answer may be framed, sniffed or used by another origin. The console's pages set their own policy. */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

const HEADERS_OF: Partial<Readonly<Record<ProblemCode, Readonly<Record<string, string>>>>> = {
  UNAUTHORIZED: { 'www-authenticate': 'Bearer' },
  TOO_MANY_GUESSES: { 'retry-after': String(RETRY_AFTER_SECONDS) },
};

/** Never rejects. */
export function createOperatorHandler(
  parts: OperatorHandlerParts,
): (request: Request, peer?: string) => Promise<Response> {
  return async (request, peer) => {
    const caller = { peer, requestId: crypto.randomUUID() };
    const response = await answer(parts, request, caller).catch((error: unknown) => {
      const problem = problemOf(error);
      noteUnexpected(parts.context, request.url, caller, error);
      noteRefusal(parts.context.live?.audit, problem, caller);
      REQUESTS.add({ operation: 'operator', status: String(problem.status), app: OTHER_APP }, 1);
      return problemAnswer(problem, caller, HEADERS_OF[problem.code]);
    });
    for (const [name, value] of Object.entries({ ...SECURITY_HEADERS, 'x-request-id': caller.requestId })) {
      if (!response.headers.has(name)) response.headers.set(name, value);
    }
    return response;
  };
}

async function answer(parts: OperatorHandlerParts, request: Request, caller: Sender): Promise<Response> {
  const { context, live, gatekeepers, isLoopback } = parts;
  if (isLoopback) assertFromHere(request);
  const url = parseUrl(request);
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  // A probe has no token. Except on loopback, it gets the status without reasons.
  if (isRead && url.pathname === LIVE_PATH) return liveAnswer();
  if (isRead && (url.pathname === READY_PATH || url.pathname.startsWith(`${READY_PATH}/`))) {
    const mayKnow = isLoopback || mayRead(await findIdentity(gatekeepers, request));
    return readyAnswer(live.checks, url, mayKnow);
  }
  const isScrape = isRead && url.pathname === '/metrics';
  if (isScrape && isLoopback) return scrapeAnswer(parts, request);
  const page = isRead ? await findConsoleAnswer(parts.consoleReach, request, url) : undefined;
  if (page !== undefined) return page;
  if (isOpenPath(url.pathname)) return answerSignIn(parts, request, url, caller);
  const operator = await identify(gatekeepers, request, caller.peer);
  if (isScrape) {
    if (mayRead(operator)) return scrapeAnswer(parts, request);
    throw new OperatorError('FORBIDDEN', 'the token may not read metrics: that needs the right read');
  }
  if (url.pathname.startsWith(API_PATH)) return answerApi(context, request, url, { operator, ...caller });
  throw new OperatorError('NOT_FOUND', 'there is nothing at this path');
}

const mayRead = (operator: Operator | undefined): boolean =>
  operator !== undefined && mayCall(operator, { method: 'GET', right: 'read' });

/** @throws OperatorError INVALID_INPUT, because `Host` may be malformed */
function parseUrl({ url }: Request): URL {
  // A request without a Host, such as HTTP/1.0 probes send, has only a path.
  if (URL.canParse(url, 'http://localhost')) return new URL(url, 'http://localhost');
  throw new OperatorError('INVALID_INPUT', 'the address of the request cannot be understood');
}

/** A code can be guessed like a token. */
async function answerSignIn(
  { context, gatekeepers }: OperatorHandlerParts,
  request: Request,
  url: URL,
  caller: Sender,
): Promise<Response> {
  const response = await answerApi(context, request, url, { operator: undefined, ...caller });
  if (response.status === PROBLEM_STATUS.FORBIDDEN) await gatekeepers.throttle.slow(caller.peer ?? '');
  return response;
}

async function scrapeAnswer({ readMetrics }: OperatorHandlerParts, request: Request): Promise<Response> {
  const accept = request.headers.get('accept');
  const { contentType, text } = renderScrape(accept, METRICS.definitions(), await readMetrics());
  return new Response(text, { headers: { 'content-type': contentType, 'cache-control': 'no-store' } });
}
