/** The requests of Bulk over plain fetch, for one Space. Answers come as they are: nothing is retried or hidden. */
import type { CanonicalNode } from './canonical-node.ts';
import { makePack, type PlantedRecord, plain, takeApart } from './planted-pack.ts';

interface BulkAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads fields of answers it then judges
  readonly json: any;
}

interface Instruction {
  readonly id: string;
  readonly url: string;
  readonly headers: Record<string, string>;
}

const MINUTE_MS = 60_000;

export interface BulkClient {
  readonly spaceUrl: string;
  request(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  leases(hashes: readonly string[], pack?: boolean, leaseDurationMs?: number): Promise<BulkAnswer>;
  /** A pack for what is absent of these hashes; fails if none is opened. */
  open(hashes: readonly string[]): Promise<Instruction>;
  put(pack: Instruction, bytes: Uint8Array): Promise<Response>;
  lease(id: string, leaseDurationMs?: number): Promise<BulkAnswer>;
  /** opens, PUTs and leases: the last answer */
  send(nodes: readonly CanonicalNode[], records?: readonly PlantedRecord[]): Promise<BulkAnswer>;
  /** Rejects if the answer breaks. */
  read(hashes: readonly string[], codecs?: readonly string[]): Promise<PlantedRecord[]>;
}

export function makeBulkClient(
  /** a server, or which of several the next request goes to */
  url: string | (() => string),
  appId: string,
  spaceId: string,
  token: string,
): BulkClient {
  const findSpaceUrl = (): string =>
    `${typeof url === 'string' ? url : url()}/bulk/v1/apps/${encodeURIComponent(appId)}/spaces/${encodeURIComponent(spaceId)}`;
  const request: BulkClient['request'] = (path, body, headers = {}) =>
    fetch(`${findSpaceUrl()}${path}`, {
      method: 'POST',
      keepalive: false,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const ask = async (path: string, body: unknown): Promise<BulkAnswer> => {
    const response = await request(path, body);
    return { status: response.status, json: await response.json() };
  };
  const client: BulkClient = {
    get spaceUrl() {
      return findSpaceUrl();
    },
    request,
    leases: (hashes, pack = false, leaseDurationMs = MINUTE_MS) =>
      ask('/leases', { leaseDurationMs, hashes, pack }),
    async open(hashes) {
      const { status, json } = await client.leases(hashes, true);
      if (json.pack === undefined)
        throw new Error(`no pack was opened: ${status} ${JSON.stringify(json).slice(0, 300)}`);
      return json.pack;
    },
    put: ({ url: target, headers }, bytes) =>
      fetch(target, { method: 'PUT', keepalive: false, headers, body: bytes as Uint8Array<ArrayBuffer> }),
    lease: (id, leaseDurationMs = MINUTE_MS) => ask(`/packs/${id}/lease`, { leaseDurationMs }),
    async send(nodes, records = nodes.map(plain)) {
      const pack = await client.open(nodes.map(({ hash }) => hash));
      const put = await client.put(pack, makePack(records));
      if (put.status !== 200) throw new Error(`the PUT was answered ${put.status}: ${await put.text()}`);
      return client.lease(pack.id);
    },
    async read(hashes, codecs) {
      const response = await request('/reads', { hashes, ...(codecs && { codecs }) });
      if (response.status !== 200)
        throw new Error(`reads was answered ${response.status}: ${await response.text()}`);
      return takeApart(await response.bytes());
    },
  };
  return client;
}
