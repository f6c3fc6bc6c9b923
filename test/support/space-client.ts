/** The seven operations over plain fetch, for one Space. Answers come as they are: nothing is retried or hidden. */
import { expect } from 'bun:test';
import type { SpaceUsage } from '@holdfast/protocol';
import type { CanonicalNode } from './canonical-node.ts';

interface ApiAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads fields of answers it then judges
  readonly json: any;
}

export interface SpaceClient {
  readonly spaceUrl: string;
  request(method: string, path: string, body?: unknown): Promise<Response>;
  lease(hash: string, leaseDurationMs?: number): Promise<ApiAnswer>;
  put(upload: { url: string; headers: Record<string, string> }, bytes: Uint8Array): Promise<Response>;
  /** lease, PUT, lease; fails unless the node is ready or waits for children at the end */
  store(node: CanonicalNode, leaseDurationMs?: number): Promise<ApiAnswer>;
  metadata(hash: string): Promise<ApiAnswer>;
  content(hash: string, range?: string): Promise<Response>;
  usage(): Promise<SpaceUsage>;
  gc(maxNodes?: number): Promise<ApiAnswer>;
  commit(requestId: string, changes: Record<string, number>): Promise<ApiAnswer>;
  roots(query?: string): Promise<ApiAnswer>;
}

const MINUTE_MS = 60_000;

export function makeSpaceClient(
  /** a server, or which of several the next request goes to */
  url: string | (() => string),
  appId: string,
  spaceId: string,
  token: string,
  /** false: a connection for each request; fetch repeats a request by itself when a connection it reused breaks */
  keepalive = true,
): SpaceClient {
  const spacePath = `/v1/apps/${encodeURIComponent(appId)}/spaces/${encodeURIComponent(spaceId)}`;
  const findSpaceUrl = (): string => `${typeof url === 'string' ? url : url()}${spacePath}`;
  const authorization = `Bearer ${token}`;
  const request = (method: string, path: string, body?: unknown): Promise<Response> =>
    fetch(`${findSpaceUrl()}${path}`, {
      method,
      keepalive,
      headers: body === undefined ? { authorization } : { authorization, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const ask = async (method: string, path: string, body?: unknown): Promise<ApiAnswer> => {
    const response = await request(method, path, body);
    return { status: response.status, json: await response.json() };
  };
  const lease = (hash: string, leaseDurationMs = MINUTE_MS): Promise<ApiAnswer> =>
    ask('POST', `/cas/nodes/${hash}/lease`, { leaseDurationMs });
  const put: SpaceClient['put'] = (upload, bytes) =>
    fetch(upload.url, {
      method: 'PUT',
      keepalive,
      headers: upload.headers,
      body: bytes as Uint8Array<ArrayBuffer>,
    });
  return {
    get spaceUrl() {
      return findSpaceUrl();
    },
    request,
    lease,
    put,
    async store(node, leaseDurationMs) {
      const first = await lease(node.hash, leaseDurationMs);
      expect(first.status).toBe(200);
      if (first.json.state === 'ready') return first;
      if (first.json.upload !== undefined) {
        const answer = await put(first.json.upload, node.bytes);
        expect(answer.status).toBe(200);
      }
      const second = await lease(node.hash, leaseDurationMs);
      expect(second.status).toBe(200);
      expect(['ready', 'validated_awaiting_children']).toContain(second.json.state);
      return second;
    },
    metadata: (hash) => ask('GET', `/cas/nodes/${hash}/metadata`),
    content: (hash, range) =>
      fetch(`${findSpaceUrl()}/cas/nodes/${hash}/content`, {
        keepalive,
        headers: range === undefined ? { authorization } : { authorization, range },
      }),
    async usage() {
      const { status, json } = await ask('GET', '/cas/usage');
      expect(status).toBe(200);
      return json;
    },
    gc: (maxNodes) => ask('POST', '/cas/gc', maxNodes === undefined ? undefined : { maxNodes }),
    commit: (requestId, changes) => ask('POST', '/root-refs', { requestId, changes }),
    roots: (query = '') => ask('GET', `/root-refs${query}`),
  };
}
