/** One Space in memory behind a `fetch`: enough of the rules for the client, and a place to plant faults. */
import { expect } from 'bun:test';
import { createHash } from 'node:crypto';
import {
  decodeNode,
  encodeNode,
  NODE_MEDIA_TYPE,
  type PackLeaseResult,
  ROTTEN_NODES_HEADER,
  refsToHashes,
} from '@holdfast/protocol';
import { type Client, createClient } from '../client.ts';
import type { ClientOptions } from '../client-options.ts';
import { CasError, type CasErrorCode } from '../errors.ts';
import { failure, json } from './fake-answers-fixture.ts';
import { FakeBulk } from './fake-bulk-fixture.ts';
import { FAR_TIMEOUTS, FakeClock } from './fake-clock-fixture.ts';

export interface Call {
  /** `metadata`, `content`, `lease`, `usage`, `gc`, `root-refs`, `health`, `upload`, or of Bulk `leases`, `reads`, `pack-lease`, `pack-upload` */
  readonly kind: string;
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  readonly body: Uint8Array;
  readonly signal: AbortSignal | undefined;
}

export { failure, json };

/** Answers instead of the Space, throws as `fetch` does, or (undefined) lets the Space answer. */
export type Fault = (call: Call) => Response | Promise<Response> | undefined;

export const TOKEN = 'secret.token.value';
/** Each field another number, so that none is taken for its neighbour. */
export const USAGE = {
  nodeCount: 1,
  readyContentBytes: 2,
  readyStoredBytes: 3,
  reservedBytes: 4,
  notReadyNodeCount: 5,
  leasedNodeCount: 6,
};
export const BASE_URL = 'http://space.test/prefix';

export function sha256Hex(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const BULK_KINDS: ReadonlySet<string> = new Set(['leases', 'reads', 'pack-lease', 'pack-upload']);

function kindOf(path: string): string {
  if (path.startsWith('/packs/')) return 'pack-upload';
  const kind = plainKindOf(path);
  return kind === 'lease' && path.includes('/packs/') ? 'pack-lease' : kind;
}

function plainKindOf(path: string): string {
  return path.startsWith('/uploads/') ? 'upload' : (path.split('/').at(-1) ?? '');
}

export class FakeSpace {
  readonly clock = new FakeClock();
  readonly calls: Call[] = [];
  /** canonical bytes by hash */
  readonly nodes = new Map<string, Uint8Array>();
  /** Used up in order, one per call of that kind. */
  readonly #faults = new Map<string, Fault[]>();
  readonly #uploads = new Map<string, { generation: number; bytes: Uint8Array | undefined }>();
  /** validated bytes of parents whose children are not all ready */
  readonly #waiting = new Map<string, Uint8Array>();
  readonly #rejections = new Map<string, { code: string; message: string }>();
  #generation = 0;
  /** Uploads that may be open at once; one more is refused. */
  uploadsMax = Number.POSITIVE_INFINITY;
  /** damaged nodes that answers about rows tell of */
  rottenNodes = 0;
  /** An old server, unless a test says otherwise: requests of Bulk find nothing, and no test counts them. */
  offersBulk = false;
  readonly bulk = new FakeBulk({
    nodes: this.nodes,
    now: () => this.clock.now(),
    find: (hash) => this.#find(hash),
    publish: (hash, canonical) => this.#waiting.set(hash, canonical),
  });

  client(options: Partial<ClientOptions> = {}): Client {
    return createClient({
      baseUrl: `${BASE_URL}/`,
      appId: 'app/1',
      spaceId: 'späce',
      token: TOKEN,
      fetch: this.fetch,
      clock: this.clock,
      random: () => 0.5,
      timeouts: FAR_TIMEOUTS,
      ...options,
    });
  }

  plant(kind: string, ...faults: Fault[]): void {
    this.#faults.set(kind, [...(this.#faults.get(kind) ?? []), ...faults]);
  }

  kinds(): string[] {
    return this.calls.map(({ kind }) => kind);
  }

  readonly fetch = async (address: string, init: RequestInit): Promise<Response> => {
    const url = new URL(address);
    const kind = this.offersBulk ? kindOf(url.pathname) : plainKindOf(url.pathname);
    const isAbsent = !this.offersBulk && url.pathname.includes('/bulk/') && !this.#faults.get(kind)?.length;
    if (isAbsent) return failure(404, 'NOT_FOUND');
    const body = new Uint8Array(await new Response(init.body as BodyInit | null).arrayBuffer());
    const call: Call = {
      kind,
      method: init.method ?? 'GET',
      url,
      headers: new Headers(init.headers),
      body,
      signal: init.signal ?? undefined,
    };
    this.calls.push(call);
    const answer = (await this.#faults.get(kind)?.shift()?.(call)) ?? this.#answer(call);
    const isOfRow = kind === 'lease' || kind === 'metadata' || kind === 'leases';
    if (isOfRow && this.rottenNodes > 0) answer.headers.set(ROTTEN_NODES_HEADER, String(this.rottenNodes));
    return answer;
  };

  #answer(call: Call): Response {
    if (call.kind === 'upload') return this.#receive(call);
    if (call.kind === 'pack-upload') return this.bulk.answer(call.kind, call.url.pathname, call.body);
    if (call.kind === 'health') return json({ status: 'ok' });
    if (call.headers.get('authorization') !== `Bearer ${TOKEN}`) return failure(401, 'invalid_token');
    const hash = call.url.pathname.split('/').at(-2) ?? '';
    if (BULK_KINDS.has(call.kind)) return this.bulk.answer(call.kind, call.url.pathname, call.body);
    if (call.kind === 'lease') return this.#lease(hash);
    const bytes = this.nodes.get(hash);
    if (bytes === undefined) return failure(404, 'NOT_FOUND');
    const node = decodeNode(bytes);
    if (call.kind === 'content')
      return answerContent(node.content, node.contentType, call.headers.get('range'));
    const metadata = {
      hash,
      size: node.content.length,
      contentType: node.contentType,
      refs: refsToHashes(node.refs),
    };
    const state = { leaseStartedAt: 1, leaseExpiresAt: 2, childRefCount: 0, rootRefCount: 0 };
    return json({ metadata, state });
  }

  #receive({ url, headers, body }: Call): Response {
    const [hash = '', generation = ''] = url.pathname.split('/').slice(2);
    const upload = this.#uploads.get(hash);
    const isTold = headers.get('content-type') === NODE_MEDIA_TYPE && headers.get('if-none-match') === '*';
    if (!isTold || headers.has('authorization')) return failure(403, 'FORBIDDEN');
    if (upload?.generation !== Number(generation) || upload.bytes !== undefined)
      return failure(412, 'CONFLICT');
    upload.bytes = body;
    return new Response(null, { status: 200 });
  }

  #lease(hash: string): Response {
    const ready = { hash, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 };
    if (this.nodes.has(hash)) return json(ready);
    const waiting = this.#waiting.get(hash);
    if (waiting !== undefined) return this.#publish(hash, waiting);
    const upload = this.#uploads.get(hash);
    if (upload?.bytes !== undefined) {
      this.#uploads.delete(hash);
      if (sha256Hex(upload.bytes) === hash) {
        return this.#publish(hash, upload.bytes);
      }
      this.#rejections.set(hash, {
        code: 'NODE_DIGEST_MISMATCH',
        message: 'the bytes hash to something else',
      });
    }
    if (!this.#uploads.has(hash)) {
      if (this.#uploads.size >= this.uploadsMax)
        return failure(429, 'CAS_UPLOAD_LIMIT', { 'retry-after': '5' });
      this.#uploads.set(hash, { generation: ++this.#generation, bytes: undefined });
    }
    const rejection = this.#rejections.get(hash);
    const state = rejection === undefined ? 'awaiting_upload' : 'awaiting_replacement_upload';
    return json({ hash, state, rejection, upload: this.#instruct(hash) });
  }

  /** The result for a node that is ready or waits. A waiting node becomes ready when its children are. */
  #find(hash: string): PackLeaseResult | undefined {
    const waiting = this.#waiting.get(hash);
    const refs = waiting === undefined ? [] : refsToHashes(decodeNode(waiting).refs);
    const missing = [...new Set(refs)].filter((ref) => this.#find(ref)?.state !== 'ready');
    if (missing.length > 0) return { hash, state: 'validated_awaiting_children', childHashes: missing };
    if (waiting !== undefined) this.nodes.set(hash, waiting);
    this.#waiting.delete(hash);
    return this.nodes.has(hash) ? { hash, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 } : undefined;
  }

  #publish(hash: string, bytes: Uint8Array): Response {
    const missing = refsToHashes(decodeNode(bytes).refs).filter((ref) => !this.nodes.has(ref));
    if (missing.length > 0) {
      this.#waiting.set(hash, bytes);
      return json({ hash, state: 'validated_awaiting_children', childHashes: [...new Set(missing)] });
    }
    this.#waiting.delete(hash);
    this.nodes.set(hash, bytes);
    return json({ hash, state: 'ready', leaseStartedAt: 1, leaseExpiresAt: 2 });
  }

  #instruct(hash: string): unknown {
    return {
      method: 'PUT',
      url: `http://store.test/uploads/${hash}/${this.#uploads.get(hash)?.generation}`,
      expiresAt: this.clock.now() + 300_000,
      headers: { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' },
    };
  }

  /** Puts a text node there without a request; returns its hash. */
  store(text: string): string {
    const content = new TextEncoder().encode(text);
    const bytes = encodeNode({ contentType: 'text/plain', refs: [], content });
    const hash = sha256Hex(bytes);
    this.nodes.set(hash, bytes);
    return hash;
  }

  /** As if another client's bytes had arrived for the current generation. */
  receiveFromOther(hash: string, bytes: Uint8Array): void {
    const upload = this.#uploads.get(hash);
    if (upload !== undefined) upload.bytes = bytes;
  }
}

export function answerContent(content: Uint8Array, contentType: string, range: string | null): Response {
  const bytes = content as Uint8Array<ArrayBuffer>;
  const headers = { 'content-type': contentType, 'content-length': String(bytes.length) };
  if (range === null) return new Response(bytes, { headers });
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  const start = first === '' ? Math.max(0, bytes.length - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes.length : Math.min(bytes.length, Number(last) + 1);
  if (start >= end) return failure(416, 'INVALID_REQUEST', { 'content-range': `bytes */${bytes.length}` });
  return new Response(bytes.subarray(start, end), {
    status: 206,
    headers: {
      ...headers,
      'content-length': String(end - start),
      'content-range': `bytes ${start}-${end - 1}/${bytes.length}`,
    },
  });
}

/** A body that delivers `chunks` and then breaks. */
export function breakingBody(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  const left = [...chunks];
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = left.shift();
        if (chunk === undefined) throw new TypeError('terminated');
        controller.enqueue(chunk);
      },
    },
    { highWaterMark: 0 },
  );
}

export async function readAll(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(body).arrayBuffer());
}

/** What `promise` rejects with; fails the test when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('this should have been rejected');
}

export async function expectCasError(promise: Promise<unknown>, code: CasErrorCode): Promise<CasError> {
  const error = await rejection(promise);
  expect(error).toBeInstanceOf(CasError);
  expect((error as CasError).code).toBe(code);
  return error as CasError;
}
