/** One Space as an outside client sees it: builds requests, reads answers, decides nothing. */
import type { Answer } from './answer.ts';
import { expectBytes, expectEqual, expectNotFound, expectStatus, expectThat } from './expect.ts';
import { makeNode, type SampleNode } from './node-bytes.ts';
import { type Fields, type Identity, mintToken, type TokenSketch } from './tokens.ts';
import {
  type Commit,
  type Description,
  type GcPass,
  type Lease,
  type RootRefPage,
  readCommit,
  readDescription,
  readGcPass,
  readLease,
  readRootRefPage,
  readUsage,
  type Upload,
  type Usage,
} from './wire.ts';

export interface Wire {
  send(url: string, init: RequestInit): Promise<Answer>;
  now(): number;
  /** How nodes that a check only needs to be there are uploaded; by themselves unless told. */
  upload?(client: SpaceClient, node: SampleNode, leaseDurationMs: number): Promise<Lease>;
}

/** The seven operations: method, path under the Space, the authority they ask for. */
export const OPERATIONS = {
  readContent: { method: 'GET', path: 'cas/nodes/{hash}/content', authority: 'cas:nodes:read' },
  readMetadata: { method: 'GET', path: 'cas/nodes/{hash}/metadata', authority: 'cas:nodes:read' },
  leaseNode: { method: 'POST', path: 'cas/nodes/{hash}/lease', authority: 'cas:nodes:lease' },
  getUsage: { method: 'GET', path: 'cas/usage', authority: 'cas:usage:read' },
  runGc: { method: 'POST', path: 'cas/gc', authority: 'cas:gc:execute' },
  listRootRefs: { method: 'GET', path: 'root-refs', authority: 'cas:root-refs:read' },
  updateRootRefs: { method: 'POST', path: 'root-refs', authority: 'cas:root-refs:update' },
} as const;
export type OperationName = keyof typeof OPERATIONS;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[];

export interface CallOptions {
  readonly hash?: string;
  /** raw query without `?` */
  readonly query?: string;
  /** JSON value, or raw text or bytes */
  readonly json?: unknown;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
  /** overrides; `undefined` leaves a header out */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly method?: string;
}

const LEASE_MS = 60_000;
const UPLOADS_AT_ONCE = 8;

/** The body that an operation cannot do without, about this node. */
export function neededBody(operation: OperationName, hash: string): CallOptions {
  if (operation === 'leaseNode') return { json: { leaseDurationMs: LEASE_MS } };
  if (operation === 'updateRootRefs') return { json: { requestId: 'r', changes: { [hash]: 1 } } };
  return {};
}

export class SpaceClient {
  readonly appId: string;
  readonly spaceId: string;
  readonly identity: Identity;
  readonly #wire: Wire;
  readonly #sketch: TokenSketch;
  readonly #pathSpace: string;

  constructor(
    wire: Wire,
    identity: Identity,
    spaceId: string,
    sketch: TokenSketch = {},
    pathSpace = encodeURIComponent(spaceId),
  ) {
    this.#wire = wire;
    this.identity = identity;
    this.appId = identity.appId;
    this.spaceId = spaceId;
    this.#sketch = sketch;
    this.#pathSpace = pathSpace;
  }

  /** The same Space under a token with other claims (`undefined` removes one). */
  withClaims(claims: Fields): SpaceClient {
    return this.withToken({ ...this.#sketch, claims: { ...this.#sketch.claims, ...claims } });
  }

  withToken(sketch: TokenSketch): SpaceClient {
    return new SpaceClient(this.#wire, this.identity, this.spaceId, sketch, this.#pathSpace);
  }

  inSpace(spaceId: string): SpaceClient {
    return new SpaceClient(this.#wire, this.identity, spaceId, this.#sketch);
  }

  /** The same spaceId under another App's identity. */
  asIdentity(identity: Identity): SpaceClient {
    return new SpaceClient(this.#wire, identity, this.spaceId, this.#sketch);
  }

  inDomain(refDomain: string): SpaceClient {
    return this.withClaims({ refDomain });
  }

  /** The token names this Space, the path is `segment` exactly as given. */
  atPath(segment: string): SpaceClient {
    return new SpaceClient(this.#wire, this.identity, this.spaceId, this.#sketch, segment);
  }

  token(): string {
    return mintToken(this.identity, this.spaceId, this.#wire.now(), this.#sketch);
  }

  path(operation: OperationName, hash = '0'.repeat(64), app = encodeURIComponent(this.appId)): string {
    return `/v1/apps/${app}/spaces/${this.#pathSpace}/${OPERATIONS[operation].path.replace('{hash}', hash)}`;
  }

  call(operation: OperationName, options: CallOptions = {}): Promise<Answer> {
    const { method } = OPERATIONS[operation];
    const query = options.query === undefined ? '' : `?${options.query}`;
    return this.request(options.method ?? method, this.path(operation, options.hash) + query, options);
  }

  /** Any path, with this client's token unless the headers say otherwise. */
  request(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const body = options.body ?? (options.json === undefined ? undefined : JSON.stringify(options.json));
    const headers = new Headers();
    const wanted: Record<string, string | undefined> = { authorization: `Bearer ${this.token()}` };
    if (body !== undefined) wanted['content-type'] = 'application/json';
    for (const [name, value] of Object.entries({ ...wanted, ...options.headers })) {
      if (value !== undefined) headers.set(name, value);
    }
    const init: RequestInit & { duplex?: 'half' } = { method, headers };
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = 'half';
    return this.#wire.send(path, init);
  }

  lease(hash: string, json: unknown = { leaseDurationMs: LEASE_MS }): Promise<Answer> {
    return this.call('leaseNode', { hash, json });
  }

  async leased(hash: string, leaseDurationMs: number = LEASE_MS): Promise<Lease> {
    return readLease(await this.lease(hash, { leaseDurationMs }), hash);
  }

  /** Sends the bytes as the instruction says, with headers replaced or (`undefined`) left out where told. */
  put(
    upload: Upload,
    body: Uint8Array | ReadableStream<Uint8Array>,
    headers: Readonly<Record<string, string | undefined>> = {},
    signal?: AbortSignal,
  ): Promise<Answer> {
    const sent = new Headers();
    for (const [name, value] of Object.entries({ ...upload.headers, ...headers })) {
      if (value !== undefined) sent.set(name, value);
    }
    const init: RequestInit & { duplex?: 'half' } = { method: 'PUT', headers: sent, body: body as BodyInit };
    if (body instanceof ReadableStream) init.duplex = 'half';
    if (signal) init.signal = signal;
    return this.#wire.send(upload.url, init);
  }

  /** A lease that must answer with this state. */
  async expectLease<S extends Lease['state']>(
    hash: string,
    state: S,
    what = 'state',
    leaseDurationMs: number = LEASE_MS,
  ): Promise<Extract<Lease, { state: S }>> {
    const lease = await this.leased(hash, leaseDurationMs);
    expectEqual(lease.state, state, what);
    return lease as Extract<Lease, { state: S }>;
  }

  /** A lease that must tell why the last upload was rejected, and ask for another. */
  expectRejected(
    hash: string,
    what = 'a rejection',
  ): Promise<Extract<Lease, { state: 'awaiting_replacement_upload' }>> {
    return this.expectLease(hash, 'awaiting_replacement_upload', what);
  }

  /** A lease that must ask for bytes; its instruction. */
  async instruction(hash: string): Promise<Upload> {
    const lease = await this.leased(hash);
    expectThat(
      lease.state === 'awaiting_upload' || lease.state === 'awaiting_replacement_upload',
      'a lease that asks for bytes',
      lease.state,
    );
    return lease.upload;
  }

  /** A node, and the instruction of its first lease. */
  async startUpload(node: SampleNode = makeNode()): Promise<{ node: SampleNode; upload: Upload }> {
    return { node, upload: await this.instruction(node.hash) };
  }

  /** The lease after an upload in the way of this run, whatever it says. */
  upload(node: SampleNode, leaseDurationMs: number = LEASE_MS): Promise<Lease> {
    return this.#wire.upload?.(this, node, leaseDurationMs) ?? this.uploadAlone(node, leaseDurationMs);
  }

  /** lease → PUT → lease; the last lease, whatever it says. */
  async uploadAlone(node: SampleNode, leaseDurationMs: number = LEASE_MS): Promise<Lease> {
    const answer = await this.put(await this.instruction(node.hash), node.bytes);
    expectStatus(answer, 200, 'the upload as instructed');
    return this.leased(node.hash, leaseDurationMs);
  }

  /** Uploads a node whose children are ready; its ready lease. */
  async publish(
    node: SampleNode,
    leaseDurationMs: number = LEASE_MS,
  ): Promise<Extract<Lease, { state: 'ready' }>> {
    const lease = await this.upload(node, leaseDurationMs);
    expectThat(lease.state === 'ready', `state ready after the upload of ${node.hash}`, lease.state);
    return lease;
  }

  /** Publishes the node and gives it back. */
  async published(node: SampleNode = makeNode()): Promise<SampleNode> {
    await this.publish(node);
    return node;
  }

  /** Uploads nodes whose children are ready, one after another. */
  async publishAll(nodes: readonly SampleNode[]): Promise<void> {
    for (const node of nodes) await this.publish(node);
  }

  /** Uploads independent nodes side by side, few enough at once for a small limit of active uploads. */
  async publishTogether(nodes: readonly SampleNode[]): Promise<void> {
    const queue = nodes.values();
    const worker = async () => {
      for (const node of queue) await this.publish(node);
    };
    await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, worker));
  }

  async describe(hash: string): Promise<Description> {
    return readDescription(await this.call('readMetadata', { hash }), hash);
  }

  async expectChildRefCount(hash: string, count: number, what: string): Promise<void> {
    expectEqual((await this.describe(hash)).state.childRefCount, count, what);
  }

  readContent(hash: string, range?: string): Promise<Answer> {
    return this.call('readContent', { hash, headers: { range } });
  }

  async expectContent(node: SampleNode, what = 'content'): Promise<void> {
    const answer = await this.readContent(node.hash);
    expectStatus(answer, 200, what);
    expectBytes(answer.bytes, node.content, what, answer);
  }

  /** No node, by content nor by metadata. */
  async expectAbsent(hash: string, when: string): Promise<void> {
    for (const operation of ['readContent', 'readMetadata'] as const) {
      expectNotFound(await this.call(operation, { hash }), when);
    }
  }

  async usage(): Promise<Usage> {
    return readUsage(await this.call('getUsage'));
  }

  async expectUsage(expected: Usage, when: string): Promise<void> {
    expectEqual(await this.usage(), expected, `usage ${when}`);
  }

  async gc(maxNodes?: number): Promise<GcPass> {
    return readGcPass(await this.call('runGc', maxNodes === undefined ? {} : { json: { maxNodes } }));
  }

  async page(query?: string): Promise<RootRefPage> {
    return readRootRefPage(await this.call('listRootRefs', query === undefined ? {} : { query }));
  }

  update(requestId: string, changes: Readonly<Record<string, number>>): Promise<Answer> {
    return this.call('updateRootRefs', { json: { requestId, changes } });
  }

  async commit(requestId: string, changes: Readonly<Record<string, number>>): Promise<Commit> {
    return readCommit(await this.update(requestId, changes));
  }
}

export const NO_USAGE: Usage = {
  nodeCount: 0,
  readyContentBytes: 0,
  readyStoredBytes: 0,
  reservedBytes: 0,
  notReadyNodeCount: 0,
  leasedNodeCount: 0,
};
