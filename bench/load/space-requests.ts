/** Authorised requests to a Space as they go over the wire. */
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { formatRequest, type LoadSpace, type RequestTemplate } from './spec.ts';

export function formatRead({ spacePath, token }: LoadSpace, path: string): RequestTemplate {
  return formatRequest({
    method: 'GET',
    path: spacePath + path,
    headers: { authorization: `Bearer ${token}` },
  });
}

/** The longest there is, unless said: then every renewal moves its node's deadline by the time since the last one. */
export function formatLease(
  space: LoadSpace,
  hash: string,
  leaseDurationMs = LEASE_DURATION_MS_MAX,
): RequestTemplate {
  return formatPost(space, `/cas/nodes/${hash}/lease`, `{"leaseDurationMs":${leaseDurationMs}}`);
}

export function formatBulk(space: LoadSpace, path: string, body: unknown): RequestTemplate {
  return formatPost({ ...space, spacePath: `/bulk${space.spacePath}` }, path, JSON.stringify(body));
}

export function formatCollection(space: LoadSpace, maxNodes: number): RequestTemplate {
  return formatPost(space, '/cas/gc', `{"maxNodes":${maxNodes}}`);
}

/** +1 for each hash. The request id may contain the counter's marker. */
export function formatCommit(
  space: LoadSpace,
  hashes: readonly string[],
  requestId: string,
): RequestTemplate {
  const changes = hashes.map((hash) => `"${hash}":1`).join(',');
  return formatPost(space, '/root-refs', `{"changes":{${changes}},"requestId":"${requestId}"}`);
}

function formatPost({ spacePath, token }: LoadSpace, path: string, body: string): RequestTemplate {
  return formatRequest({
    method: 'POST',
    path: spacePath + path,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
  });
}
