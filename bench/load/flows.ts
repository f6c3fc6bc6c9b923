/** The step of one connection, per kind of load. A step resolves with the body bytes received, or throws. */
import {
  encodePackHeader,
  encodeRecord,
  encodeRecordHeader,
  LEASE_DURATION_MS_MAX,
} from '@holdfast/protocol';
import { contentBytesOf, createNodeSource, type LoadNode } from './canonical-nodes.ts';
import { findHeader, type HttpAnswer, HttpConnection } from './http-connection.ts';
import { formatBulk, formatLease } from './space-requests.ts';
import {
  COUNTER_DIGITS,
  type Flow,
  formatRequest,
  type LoadSpace,
  type LoadSpec,
  type PutTarget,
  type RequestTemplate,
} from './spec.ts';

export interface RunningFlow {
  step(connection: HttpConnection): Promise<number>;
  /** one step per connection, whatever the time */
  readonly runsOnce: boolean;
  /** ends connections of its own */
  close?(): void;
  readonly togetherAtHalf?: () => number;
}

type FlowOf<K extends Flow['kind']> = Extract<Flow, { kind: K }>;

/** Slow servers may never let all uploads be half done at once; then the rest goes on after this. */
const BARRIER_MS_MAX = 15_000;

export function createFlow(spec: LoadSpec): RunningFlow {
  const { flow } = spec;
  switch (flow.kind) {
    case 'fixed':
      return createFixedFlow(flow);
    case 'put-nodes':
      return createPutNodesFlow(flow, spec);
    case 'put-packs':
      return createPutPacksFlow(flow, spec);
    case 'push-blobs':
      return createPushBlobsFlow(flow, spec);
    case 'put-objects':
      return createPutObjectsFlow(flow, spec);
    case 'put-large':
      return createPutLargeFlow(flow, spec);
  }
}

function createFixedFlow(flow: FlowOf<'fixed'>): RunningFlow {
  const requests = flow.requests.map((request) => toParts(request));
  let next = 0;
  const step = async (connection: HttpConnection): Promise<number> => {
    const count = next++;
    const { before, after } = requests[count % requests.length] as (typeof requests)[number];
    const parts = after === undefined ? [before] : [before, Buffer.from(formatCounter(count)), after];
    return expectStatus(
      await connection.request(parts.length === 1 ? parts : [Buffer.concat(parts)]),
      flow.status,
    ).bodyBytes;
  };
  return { step, runsOnce: false };
}

function toParts(request: RequestTemplate): { before: Buffer; after: Buffer | undefined } {
  return {
    before: Buffer.from(request.before, 'latin1'),
    after: request.after === undefined ? undefined : Buffer.from(request.after, 'latin1'),
  };
}

function formatCounter(count: number): string {
  return String(count).padStart(COUNTER_DIGITS, '0');
}

function createPutNodesFlow(flow: FlowOf<'put-nodes'>, spec: LoadSpec): RunningFlow {
  const nextNode = createNodeSource(flow.contentBytes, spec.seed);
  const uploads = new UploadConnections(spec.port);
  let started = 0;
  const step = async (connection: HttpConnection): Promise<number> => {
    const { hash, bytes } = nextNode();
    const body = Buffer.from(bytes); // the source reuses its buffer, sixty-four flows do not
    const space = flow.spaces[started++ % flow.spaces.length] as LoadSpace;
    const lease = toBytes(formatLease(space, hash));
    const target = parseUpload(expectStatus(await connection.request([lease]), 200), 'awaiting_upload');
    const upload = await uploads.of(connection, target);
    expectStatus(await upload.request([Buffer.concat([formatPut(target, body.length), body])]), 200);
    const last = expectStatus(await connection.request([lease]), 200);
    if (!last.body.includes('"ready"')) throw new Error(`The node did not become ready: ${last.body}`);
    return last.bodyBytes;
  };
  return { step, runsOnce: false, close: () => uploads.close() };
}

interface OpenedPack extends PutTarget {
  readonly id: string;
}

/** The bytes do not compress, so records hold them as they are. */
function createPutPacksFlow(flow: FlowOf<'put-packs'>, spec: LoadSpec): RunningFlow {
  const nextNode = createNodeSource(flow.contentBytes, spec.seed);
  const uploads = new UploadConnections(spec.port);
  let started = 0;
  const step = async (connection: HttpConnection): Promise<number> => {
    const records = Array.from({ length: flow.nodesPerPack }, () => {
      const { hash, bytes } = nextNode();
      return encodeRecord(hash, bytes.slice());
    });
    const space = flow.spaces[started++ % flow.spaces.length] as LoadSpace;
    const leaseDurationMs = LEASE_DURATION_MS_MAX;
    const ask = async (path: string, body: unknown): Promise<HttpAnswer> =>
      expectStatus(await connection.request([toBytes(formatBulk(space, path, body))]), 200);
    const asked = { leaseDurationMs, hashes: records.map(({ hash }) => hash), pack: true };
    const { pack } = JSON.parse((await ask('/leases', asked)).body.toString()) as { pack?: OpenedPack };
    if (pack === undefined) throw new Error('The server opened no pack.');
    const parts = records.flatMap((record) => [encodeRecordHeader(record), record.stored]);
    const body = Buffer.concat([encodePackHeader(), ...parts]);
    const upload = await uploads.of(connection, pack);
    expectStatus(await upload.request([Buffer.concat([formatPut(pack, body.length), body])]), 200);
    const last = await ask(`/packs/${pack.id}/lease`, { leaseDurationMs });
    const ready = last.body.toString().split('"ready"').length - 1;
    if (ready !== records.length) throw new Error(`${ready} of ${records.length} nodes became ready.`);
    return last.bodyBytes;
  };
  return { step, runsOnce: false, close: () => uploads.close() };
}

/** Uploads go where their URL says: back to the server, or to a store, with one connection there for each of ours. */
class UploadConnections {
  readonly #ownPort: number;
  readonly #opened = new Map<HttpConnection, HttpConnection>();

  constructor(ownPort: number) {
    this.#ownPort = ownPort;
  }

  async of(connection: HttpConnection, { url }: PutTarget): Promise<HttpConnection> {
    const { port } = new URL(url);
    // Our requests name a host without a port, and so do the URLs that the server makes from it.
    if (port === '' || Number(port) === this.#ownPort) return connection;
    const opened = this.#opened.get(connection) ?? (await HttpConnection.open(Number(port)));
    this.#opened.set(connection, opened);
    return opened;
  }

  close(): void {
    for (const connection of this.#opened.values()) connection.close();
  }
}

function createPutObjectsFlow(flow: FlowOf<'put-objects'>, spec: LoadSpec): RunningFlow {
  const nextNode = createNodeSource(flow.contentBytes, spec.seed);
  const targets = flow.targets.values();
  const step = async (connection: HttpConnection): Promise<number> => {
    const { value: target } = targets.next();
    if (target === undefined) throw new Error(`All ${flow.targets.length} places to put to are used up.`);
    const body = Buffer.from(nextNode().bytes);
    const put = Buffer.concat([formatPut(target, body.length), body]);
    return expectStatus(await connection.request([put]), 200).bodyBytes;
  };
  return { step, runsOnce: false };
}

/** The bytes of a request without a counter. */
function toBytes({ before }: RequestTemplate): Buffer {
  return Buffer.from(before, 'latin1');
}

function formatPut(target: PutTarget, length: number): Buffer {
  const { pathname, search, host } = new URL(target.url);
  const headers = { ...target.headers, 'content-length': String(length) };
  return toBytes(formatRequest({ method: 'PUT', path: pathname + search, host, headers }));
}

function parseUpload(answer: HttpAnswer, state: string): PutTarget {
  const lease = JSON.parse(answer.body.toString()) as { state: string; upload: PutTarget };
  if (lease.state !== state) throw new Error(`Expected ${state}, the lease answered ${lease.state}.`);
  return lease.upload;
}

function createPushBlobsFlow(flow: FlowOf<'push-blobs'>, spec: LoadSpec): RunningFlow {
  const nextNode = createNodeSource(flow.contentBytes, spec.seed);
  const path = `/v2/${flow.repository}/blobs/uploads/`;
  const start = toBytes(formatRequest({ method: 'POST', path, headers: { 'content-length': '0' } }));
  const step = async (connection: HttpConnection): Promise<number> => {
    const { hash, bytes } = nextNode();
    const body = Buffer.from(bytes);
    const location = findHeader(expectStatus(await connection.request([start]), 202).head, 'location');
    if (location === undefined) throw new Error('The registry named no upload location.');
    const url = new URL(location, 'http://127.0.0.1');
    url.searchParams.set('digest', `sha256:${hash}`);
    const headers = { 'content-type': 'application/octet-stream' };
    const put = formatPut({ url: url.href, headers }, body.length);
    return expectStatus(await connection.request([Buffer.concat([put, body])]), 201).bodyBytes;
  };
  return { step, runsOnce: false };
}

function createPutLargeFlow(flow: FlowOf<'put-large'>, spec: LoadSpec): RunningFlow {
  const nextNode = createNodeSource(contentBytesOf(flow.canonicalBytes), spec.seed);
  const bytes = nextNode().bytes;
  const tailAt = bytes.length - 8; // only the last eight bytes differ from node to node
  const nodes = Array.from({ length: spec.connections }, () => copyTail(nextNode(), tailAt));
  const half = Math.floor(tailAt / 2);
  const barrier = createBarrier(spec.connections);
  let started = 0;
  const step = async (connection: HttpConnection): Promise<number> => {
    const { hash, tail } = nodes[started++] as (typeof nodes)[number];
    const lease = toBytes(formatLease(flow.space, hash));
    const target = parseUpload(expectStatus(await connection.request([lease]), 200), 'awaiting_upload');
    const answer = connection.answer();
    answer.catch(() => {}); // an early answer that breaks the sending is thrown by `send`
    await connection.send(formatPut(target, flow.canonicalBytes));
    await connection.send(bytes.subarray(0, half));
    await barrier.arrive();
    await connection.send(bytes.subarray(half, tailAt));
    await connection.send(tail);
    expectStatus(await answer, 200);
    const last = expectStatus(await connection.request([lease]), 200);
    if (!last.body.includes('"ready"')) throw new Error(`The node did not become ready: ${last.body}`);
    return last.bodyBytes;
  };
  return { step, runsOnce: true, togetherAtHalf: barrier.most };
}

function copyTail(node: LoadNode, tailAt: number): { hash: string; tail: Uint8Array } {
  return { hash: node.hash, tail: node.bytes.slice(tailAt) };
}

/** Opens when all have arrived, or after BARRIER_MS_MAX for those that have. */
function createBarrier(parties: number): { arrive(): Promise<void>; most(): number } {
  let arrived = 0;
  let most = 0;
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = () => {
      most = most === 0 ? arrived : most;
      resolve();
    };
  });
  const arrive = (): Promise<void> => {
    arrived += 1;
    if (arrived === 1) setTimeout(() => open(), BARRIER_MS_MAX).unref();
    if (arrived === parties) open();
    return opened;
  };
  return { arrive, most: () => most };
}

function expectStatus(answer: HttpAnswer, status: number): HttpAnswer {
  if (answer.status === status) return answer;
  throw new Error(`Expected ${status}, got ${answer.status}: ${answer.body.toString().slice(0, 200)}`);
}
