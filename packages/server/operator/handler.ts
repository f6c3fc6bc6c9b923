/** The listener for operators, without a socket: probes, metrics, the operator API and the console. */
import { OTHER_APP } from '../metrics/app-label.ts';
import { renderScrape } from '../metrics/exposition.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS, REQUESTS } from '../metrics/server-metrics.ts';
import { answerApi, isOpenPath, problemAnswer } from './api.ts';
import { API_PATH } from './api-path.ts';
import { noteRefusal } from './audited.ts';
import { type ConsoleReach, findConsoleAnswer } from './console-answer.ts';
import { assertFromHere, assertToken } from './guard.ts';
import type { LiveServer } from './live-server.ts';
import type { OperatorContext } from './operation.ts';
import type { OperatorToken } from './operator-token.ts';
import { LIVE_PATH, liveAnswer, READY_PATH, readyAnswer } from './probes.ts';
import { OperatorError, problemOf } from './problem.ts';

export interface OperatorHandlerParts {
  readonly context: OperatorContext;
  readonly live: LiveServer;
  /** undefined: only programs of this machine may speak to the listener */
  readonly token: OperatorToken | undefined;
  /** what all processes of this server have counted */
  readonly readMetrics: () => Promise<MetricsSnapshot>;
  readonly consoleReach: ConsoleReach;
}

const METRICS_PATH = '/metrics';

/** No answer may be framed, sniffed, or used by a page of another origin. The console's pages replace the policy by their own. */
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

/** Never rejects. */
export function createOperatorHandler(
  parts: OperatorHandlerParts,
): (request: Request, peer?: string) => Promise<Response> {
  return async (request, peer) => {
    const response = await answer(parts, request, peer).catch((error: unknown) => {
      const problem = problemOf(error);
      noteRefusal(parts.context.live?.audit, problem, peer);
      REQUESTS.add({ operation: 'operator', status: String(problem.status), app: OTHER_APP }, 1);
      return problemAnswer(problem, problem.code === 'UNAUTHORIZED' ? { 'www-authenticate': 'Bearer' } : {});
    });
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) {
      if (!response.headers.has(name)) response.headers.set(name, value);
    }
    return response;
  };
}

async function answer(parts: OperatorHandlerParts, request: Request, peer?: string): Promise<Response> {
  const { context, live, token } = parts;
  // A request without a Host, as probes in HTTP/1.0 send it, has a path alone.
  const url = new URL(request.url, 'http://localhost');
  if (token === undefined) assertFromHere(request);
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  // A probe has no token to send: it learns whether, and not why.
  if (isRead && url.pathname === LIVE_PATH) return liveAnswer();
  if (isRead && (url.pathname === READY_PATH || url.pathname.startsWith(`${READY_PATH}/`))) {
    return readyAnswer(live.checks, url, await mayKnow(token, request));
  }
  const page = isRead ? await findConsoleAnswer(parts.consoleReach, request, url) : undefined;
  if (page !== undefined) return page;
  if (token !== undefined && !isOpenPath(url.pathname)) await assertToken(token, request);
  if (isRead && url.pathname === METRICS_PATH) return scrapeAnswer(parts, request);
  if (url.pathname.startsWith(API_PATH)) return answerApi(context, request, url, peer);
  throw new OperatorError('NOT_FOUND', 'there is nothing at this path');
}

async function scrapeAnswer({ readMetrics }: OperatorHandlerParts, request: Request): Promise<Response> {
  const accept = request.headers.get('accept');
  const { contentType, text } = renderScrape(accept, METRICS.definitions(), await readMetrics());
  return new Response(text, { headers: { 'content-type': contentType, 'cache-control': 'no-store' } });
}

async function mayKnow(token: OperatorToken | undefined, request: Request): Promise<boolean> {
  if (token === undefined) return true;
  return assertToken(token, request).then(
    () => true,
    () => false,
  );
}
