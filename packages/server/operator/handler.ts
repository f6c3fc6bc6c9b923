/** The operator listener without its socket: probes, metrics, the operator API and the console. */

import type { DeploymentPlace } from '../deployment/place.ts';
import { isLoopbackHost } from '../engine/address.ts';
import { renderScrape } from '../metrics/exposition.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS, OTHER_APP, REQUESTS } from '../metrics/server-metrics.ts';
import { answerApi, isOpenPath, noteUnexpected, problemAnswer } from './api.ts';
import { noteRefusal } from './audited.ts';
import { API_PATH } from './fields.ts';
import { type GuessThrottle, RETRY_AFTER_SECONDS } from './guess-throttle.ts';
import type { LiveServer } from './live-server.ts';
import type { OperatorContext } from './operation.ts';
import type { OperatorTokens } from './operator-tokens.ts';
import { OperatorError, PROBLEM_STATUS, type ProblemCode, problemOf } from './problem.ts';
import { type Check, type CheckedResult, isReady, lookAll } from './readiness.ts';
import { mayCall, type Operator, type RequestCaller } from './rights.ts';
import type { ConsoleSignIn } from './sign-in.ts';

const BRACKETS = /^\[(.*)\]$/;
const PORT = /:[0-9]{1,5}$/;
const BEARER = /^Bearer +([\x21-\x7e]+)$/i;

/**
 * On loopback such a page could reach what needs no token there.
 *
 * @throws OperatorError FORBIDDEN for requests that only a browser sends for a page of another origin
 */
function assertFromHere(request: Request): void {
  const host = request.headers.get('host') ?? '';
  if (!isLoopbackHost(nameOf(host))) {
    throw new OperatorError(
      'FORBIDDEN',
      'the Host of the request is no loopback address: a listener on loopback answers localhost, 127.0.0.1 and [::1] alone, so let a proxy send one of these',
    );
  }
  const origin = request.headers.get('origin');
  if (origin !== null && origin !== `http://${host}`) {
    throw new OperatorError('FORBIDDEN', 'pages of another origin may not use the listener for operators');
  }
}

function nameOf(authority: string): string {
  return authority.replace(PORT, '').replace(BRACKETS, '$1');
}

interface Gatekeepers {
  readonly tokens: OperatorTokens;
  readonly signIn: ConsoleSignIn | undefined;
  readonly throttle: GuessThrottle;
}

/** Resolves with the sender of the request. Rejects with OperatorError (UNAUTHORIZED, TOO_MANY_GUESSES). */
async function identify(
  { tokens, signIn, throttle }: Gatekeepers,
  request: Request,
  peer: string | undefined,
): Promise<Operator> {
  const given = findBearer(request);
  if (given === undefined) throw new OperatorError('UNAUTHORIZED', 'the operator token is missing');
  const session = signIn?.findOperator(given);
  if (session !== undefined) return session;
  const verdict = await tokens.judge(given);
  if (verdict.kind === 'known') return verdict.operator;
  if (verdict.kind === 'expired') {
    throw new OperatorError('UNAUTHORIZED', `the operator token ${JSON.stringify(verdict.name)} has expired`);
  }
  await throttle.slow(peer ?? '');
  throw new OperatorError('UNAUTHORIZED', 'the operator token is wrong');
}

/** The sender of the request if its token is valid; never delayed. */
async function findIdentity(
  { tokens, signIn }: Gatekeepers,
  request: Request,
): Promise<Operator | undefined> {
  const given = findBearer(request);
  if (given === undefined) return undefined;
  const verdict = await tokens.judge(given);
  return signIn?.findOperator(given) ?? (verdict.kind === 'known' ? verdict.operator : undefined);
}

function findBearer(request: Request): string | undefined {
  return BEARER.exec(request.headers.get('authorization') ?? '')?.[1];
}

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

/** The origins that the page may contact besides this listener. */
interface ConsoleReach {
  /** the public address of the Space API; called once it listens */
  readonly spaceUrl: () => string;
  readonly place: DeploymentPlace;
}

const LOOPBACK_HOSTS = ['127.0.0.1', 'localhost'];
/** Host names safe in a Content-Security-Policy: no character ends a directive. */
const HOST = /^[a-z0-9.-]+$/i;
const GZIP = /\bgzip\b/i;

/** undefined if the console has no file at the path */
async function findConsoleAnswer(
  reach: ConsoleReach,
  request: Request,
  url: URL,
): Promise<Response | undefined> {
  if (url.pathname !== '/' && !url.pathname.startsWith('/console/')) return undefined;
  // Loaded, and in a checkout built, when the first browser asks.
  const { consoleAsset } = await import('@holdfast/console');
  const asset = await consoleAsset(url.pathname, {
    spaceUrls: listSpaceUrls(reach.spaceUrl(), url),
    uploadOrigins: listUploadOrigins(reach.place),
  });
  if (asset === undefined) return undefined;
  const headers = { ...asset.headers, vary: 'accept-encoding' };
  if (!GZIP.test(request.headers.get('accept-encoding') ?? '')) return new Response(asset.body, { headers });
  return new Response(Bun.gzipSync(asset.body), { headers: { ...headers, 'content-encoding': 'gzip' } });
}

/** The server's other names that a person may type. */
function listSpaceUrls(spaceUrl: string, { hostname }: URL): readonly string[] {
  const { hostname: own, protocol, port } = new URL(spaceUrl);
  const names = LOOPBACK_HOSTS.includes(own) ? LOOPBACK_HOSTS : [];
  const here = HOST.test(hostname) ? [hostname] : [];
  const suffix = port === '' ? '' : `:${port}`;
  return [spaceUrl, ...[...names, ...here].map((name) => `${protocol}//${name}${suffix}`)];
}

/** With bytes in S3, uploads go to the store. AWS uses host names of buckets and regions. */
function listUploadOrigins({ bytes }: DeploymentPlace): readonly string[] {
  if (bytes.kind !== 's3') return [];
  const { bucket, endpoint, publicEndpoint, region, style } = bytes.address;
  const origin = new URL(publicEndpoint ?? endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (style === 'path') return [origin.origin];
  return [`${origin.protocol}//${bucket}.${origin.host}`];
}

const LIVE_PATH = '/livez';
const READY_PATH = '/readyz';

const HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
const MARKS = { ok: '+', warn: '!', fail: '-' } as const;

/** This process answers: a restart could not improve anything else. */
function liveAnswer(): Response {
  return new Response('ok', { headers: HEADERS });
}

/** `path`: `READY_PATH`, or below it the name of one check. `mayKnow`: whether the caller may see reasons. */
function readyAnswer(checks: readonly Check[], url: URL, mayKnow: boolean): Response {
  const name = url.pathname.slice(READY_PATH.length + 1);
  if (name !== '') return oneAnswer(checks, name, mayKnow);
  const excluded = url.searchParams.getAll('exclude').flatMap((names) => names.split(','));
  const unknown = excluded.find((each) => !checks.some((check) => check.name === each));
  // A mistyped name must show when the probe is set up, not when the check first fails.
  if (unknown !== undefined) return unknownCheck(checks, 400, `${unknown} cannot be excluded: `);
  const results = lookAll(checks, new Set(excluded));
  const ready = isReady(results);
  const isVerbose = url.searchParams.has('verbose');
  const lines = [
    ...results.map((each) => lineOf(each, mayKnow)),
    ...excluded.map((each) => `[+]${each} excluded: ok`),
    `readyz check ${ready ? 'passed' : 'failed'}`,
  ];
  return probeAnswer(ready, ready && !isVerbose ? 'ok' : `${lines.join('\n')}\n`);
}

function oneAnswer(checks: readonly Check[], name: string, mayKnow: boolean): Response {
  const check = checks.find((each) => each.name === name);
  if (check === undefined) return unknownCheck(checks, 404, '');
  const result = { name, result: check.look() };
  const ready = isReady([result]);
  return probeAnswer(ready, result.result.status === 'ok' ? 'ok' : `${lineOf(result, mayKnow)}\n`);
}

function unknownCheck(checks: readonly Check[], status: number, what: string): Response {
  const names = checks.map((each) => each.name).join(', ');
  return new Response(`${what}there is no such check; there are ${names}\n`, { status, headers: HEADERS });
}

function probeAnswer(ready: boolean, body: string): Response {
  return new Response(body, { status: ready ? 200 : 503, headers: HEADERS });
}

function lineOf({ name, result }: CheckedResult, mayKnow: boolean): string {
  const head = `[${MARKS[result.status]}]${name}`;
  if (result.status === 'ok') return `${head} ok`;
  const word = result.status === 'warn' ? 'warning' : 'failed';
  return `${head} ${word}: ${mayKnow ? result.message : 'reason withheld'}`;
}
