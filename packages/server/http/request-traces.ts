/** The trace of an answered request. It never holds a token, a header or a path with ids. */
import { BULK_OPERATIONS, OPERATIONS } from '@holdfast/protocol';
import type { TracedRequest } from '../traces/tracer.ts';
import type { Exchange } from './exchange.ts';
import type { TrustedProxies } from './peer.ts';
import type { ServedOperation } from './request-record.ts';
import { originOf } from './request-url.ts';
import { UPLOADS_PATH } from './upload-target.ts';

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'DELETE', 'PATCH']);

interface Surroundings {
  readonly proxies: TrustedProxies;
  readonly isRegistered: (appId: string) => boolean;
}

export function describeRequest(
  { request, record, timing, connections }: Exchange,
  status: number,
  { proxies, isRegistered }: Surroundings,
): TracedRequest {
  const { operation, capability, space } = record;
  const scheme = proxies.schemeOf(request, connections);
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
      'url.scheme': scheme,
      'server.address': URL.parse(originOf(request, scheme))?.hostname,
      'error.type': status >= 500 ? (record.errorCode ?? String(status)) : undefined,
      'holdfast.app': app !== undefined && isRegistered(app) ? app : undefined,
      'holdfast.request_id': record.requestId,
    },
    steps: timing.steps,
  };
}

/** The `traceparent` of a proven caller or trusted proxy. Strangers must not decide what is sampled or to which trace it belongs. */
export function findTraceParent(
  { request, record, connections }: Exchange,
  proxies: TrustedProxies,
): string | null {
  const header = request.headers.get('traceparent');
  if (header === null || record.capability !== undefined) return header;
  return proxies.isProxied(request, connections) ? header : null;
}

const ROUTES = { ...OPERATIONS, ...BULK_OPERATIONS };

function routeOf(operation: ServedOperation): string | undefined {
  if (operation === 'other') return undefined;
  return operation === 'upload' ? `${UPLOADS_PATH}{token}` : ROUTES[operation].path;
}
