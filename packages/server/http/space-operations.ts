/** The seven operations between HTTP and core: how each reads its request and sends its result. */

import {
  ApiError,
  HASH_BYTES,
  type Hash,
  isHash,
  type OperationName,
  parseGcRequest,
  parseLeaseRequest,
  parseListRootRefsQuery,
  parseUpdateRootRefsRequest,
} from '@holdfast/protocol';
import { type Awaitable, after } from '../core/awaitable.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { type LeaseOptions, leaseNode } from '../core/lease/lease-node.ts';
import type { NodeRow, Space } from '../core/model.ts';
import type { ReadAids } from '../core/ports.ts';
import type { ContentCaller, CopySource } from '../core/read/content-caller.ts';
import { getUsage } from '../core/read/get-usage.ts';
import { type ContentAnswer, readContent } from '../core/read/read-content.ts';
import { describeNode, readMetadata } from '../core/read/read-metadata.ts';
import { listRootRefs } from '../core/refs/list-root-refs.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { noteCollection } from '../metrics/server-metrics.ts';
import { askCollector } from '../runtime/release-bytes.ts';
import type { Hold } from '../shares/fair-shares.ts';
import type { ContentCopies } from './content-copies.ts';
import { corsHeaders, type HeaderFields, OPEN_CORS_HEADERS } from './cors.ts';
import {
  type AuthorizedCall,
  dispatch,
  dispatchText,
  type Exchange,
  type Operation,
  refuseQuery,
  tellRot,
  waitingUpTo,
} from './exchange.ts';
import { LONG_WORK_SECONDS_MAX, SMALL_ANSWER_BYTES_MAX } from './http-limits.ts';
import type { PieceSlot } from './piece-slots.ts';
import { withJsonBody, withOptionalJsonBody } from './request-body.ts';
import type { SentAnswers } from './sent-answers.ts';
import type { TenantShares } from './tenant-shares.ts';

interface Held {
  readonly answers: SentAnswers;
  readonly hold: Hold;
}

/** A request for content and its reservations: shares until the response is sent, slots until it is made. */
class ContentRequest implements ContentCaller {
  readonly wantsBytes: boolean;
  readonly #exchange: Exchange;
  readonly #space: Space;
  readonly #copies: ContentCopies;
  readonly #shares: TenantShares;
  /** An earlier look reserved as much as this one wants, because it was for the same range. */
  #held: Held | undefined;
  #slot: PieceSlot | undefined;

  constructor(exchange: Exchange, space: Space, copies: ContentCopies, shares: TenantShares) {
    this.#exchange = exchange;
    this.#space = space;
    this.#copies = copies;
    this.#shares = shares;
    this.wantsBytes = exchange.method !== 'HEAD';
  }

  async reserve(bytes: number, fillsScratch: boolean): Promise<ReadAids | undefined> {
    if (bytes <= SMALL_ANSWER_BYTES_MAX) return undefined;
    if (this.#held === undefined) {
      const { answers } = this.#shares;
      this.#held = { answers, hold: await answers.reserve(this.#space, bytes) };
    }
    return this.wantsBytes && fillsScratch ? this.#enterLane() : undefined;
  }

  lend(bytes: number, fillsScratch: boolean): Promise<ReadAids> | undefined {
    if (this.#held === undefined) {
      const answers = this.#shares.largeAnswers;
      const hold = answers.tryReserve(this.#space, bytes);
      if (hold === undefined) return undefined;
      this.#held = { answers, hold };
    }
    // Reads that hang in a bucket would hold the slots of all tenants.
    const { signal } = this.#exchange.request;
    return fillsScratch ? this.#enterLane() : Promise.resolve({ signal });
  }

  copy(source: CopySource, start: number, end: number): Promise<Blob> {
    const { request, connections, idleSeconds } = this.#exchange;
    const onProgress = (): void => connections?.timeout(request, idleSeconds);
    return this.#copies.take(source, start, end, { space: this.#space, signal: request.signal, onProgress });
  }

  /** Call when the response is made: the runtime has its own copy, so bytes outside lent memory are garbage to be collected soon. */
  release(body: Uint8Array | Blob): void {
    const isLent = body instanceof Blob || body.buffer === this.#slot?.scratch.buffer;
    if (!isLent && body.length > SMALL_ANSWER_BYTES_MAX) askCollector(body.length);
    this.#leaveLane();
    if (this.#held === undefined) return;
    const { request, connections } = this.#exchange;
    const { answers, hold } = this.#held;
    answers.releaseOnceSent(request, connections, hold);
  }

  /** Call if there is no answer with content. */
  drop(): void {
    this.#leaveLane();
    this.#held?.hold.release();
  }

  async #enterLane(): Promise<ReadAids> {
    const { signal } = this.#exchange.request;
    this.#slot ??= await this.#copies.slots.enter(this.#space);
    signal.throwIfAborted();
    return { scratch: this.#slot.scratch, signal };
  }

  #leaveLane(): void {
    if (this.#slot !== undefined) this.#copies.slots.leave(this.#slot);
    this.#slot = undefined;
  }
}

export const SPACE_OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  readMetadata(call) {
    const hash = readHash(call);
    refuseQuery(call);
    return dispatchText(call, () => readMetadata(call.core, call.space, hash, metadataText), tellRot);
  },

  readContent(call) {
    const hash = readHash(call);
    refuseQuery(call);
    const { exchange, core, space, copies, shares } = call;
    const range = exchange.request.headers.get('range') ?? undefined;
    const startedAt = performance.now();
    const caller = new ContentRequest(exchange, space, copies, shares);
    const answer = after(readContent(core, space, hash, range, caller), (content) => {
      exchange.timing.record('cas_dispatch', startedAt);
      const sent = contentAnswer(exchange, content);
      caller.release(content.body);
      return sent;
    });
    if (!(answer instanceof Promise)) return answer;
    return answer.catch((error: unknown) => {
      caller.drop();
      throw error;
    });
  },

  leaseNode(call) {
    const hash = readHash(call);
    refuseQuery(call);
    const { exchange } = call;
    const options: LeaseOptions = {
      renewsOnly: call.refusesChanges,
      holder: call.holder,
      onRenewal: () => {
        exchange.isRenewal = true;
      },
    };
    return withJsonBody(exchange, call, (bytes) => {
      const { leaseDurationMs } = parseLeaseRequest(bytes);
      const lease = (): Awaitable<Response> =>
        dispatch(
          call,
          () => leaseNode(call.core, call.space, hash, leaseDurationMs, call.uploadOrigin, options),
          tellRot,
        );
      return call.isUploadDirect ? waitingUpTo(LONG_WORK_SECONDS_MAX, call, lease) : lease();
    });
  },

  getUsage(call) {
    refuseQuery(call);
    return dispatch(call, () => getUsage(call.core, call.space));
  },

  runGc(call) {
    refuseQuery(call);
    return withOptionalJsonBody(call.exchange, call, (bytes) => {
      const { maxNodes } = parseGcRequest(bytes);
      return waitingUpTo(LONG_WORK_SECONDS_MAX, call, () =>
        dispatch(call, async () => noteCollection(await runGc(call.core, call.space, maxNodes))),
      );
    });
  },

  listRootRefs(call) {
    const page = parseListRootRefsQuery(new URLSearchParams(call.query));
    return dispatch(call, () => listRootRefs(call.core, call.space, readRefDomain(call), page));
  },

  updateRootRefs(call) {
    refuseQuery(call);
    return withJsonBody(call.exchange, call, (bytes) => {
      const update = parseUpdateRootRefsRequest(bytes);
      return dispatch(call, () => updateRootRefs(call.core, call.space, readRefDomain(call), update));
    });
  },
};

/** The response of each row: a store that keeps rows in memory returns the same object until the row changes. */
const metadataTexts = new WeakMap<NodeRow, string>();

function metadataText(node: NodeRow): string {
  const known = metadataTexts.get(node);
  if (known !== undefined) return known;
  const text = JSON.stringify(describeNode(node));
  // The text of more refs would take more memory than the row.
  if (node.refs.length <= 4 * HASH_BYTES) metadataTexts.set(node, text);
  return text;
}

function readHash({ rawHash }: AuthorizedCall): Hash {
  if (rawHash !== undefined && isHash(rawHash)) return rawHash;
  throw new ApiError('INVALID_REQUEST', 'the hash of the path must be 64 lowercase hexadecimal characters');
}

/** Authorization has refused a capability without one (row 10). */
function readRefDomain({ refDomain }: AuthorizedCall): string {
  if (refDomain === undefined) throw new Error('a root-ref operation was authorized without a refDomain');
  return refDomain;
}

/** Answers of readContent (docs/api.md). */
function contentAnswer(exchange: Exchange, content: ContentAnswer): Response {
  const { status } = content;
  const isHead = exchange.method === 'HEAD';
  const body = isHead ? null : (content.body as BodyInit);
  if (!isHead) exchange.sentBytes = content.end - content.start;
  if (exchange.corsOrigins === '*' && status === 200) {
    return new Response(body, { headers: plainHeaders(exchange, content) });
  }
  return new Response(body, { status, headers: contentHeaders(exchange, content) });
}

const CONTENT_FIELDS: HeaderFields = {
  'accept-ranges': 'bytes',
  'cache-control': 'private, max-age=31536000, immutable',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "sandbox; default-src 'none'",
  // Without this header the runtime would send the file name of the body. So every response has it, HEAD too.
  'content-disposition': 'inline',
};

/** Reused: filled in and copied for each response, as in exchange.ts. */
const OPEN_CONTENT_HEADERS = new Headers({ ...OPEN_CORS_HEADERS, ...CONTENT_FIELDS });

/** The headers for a node's whole content if every origin may read: the same fields as `contentHeaders` makes. */
function plainHeaders({ timing }: Exchange, { start, end, contentType }: ContentAnswer): Headers {
  OPEN_CONTENT_HEADERS.set('content-type', sendable(contentType));
  OPEN_CONTENT_HEADERS.set('content-length', String(end - start));
  OPEN_CONTENT_HEADERS.set('server-timing', timing.render());
  return OPEN_CONTENT_HEADERS;
}

function contentHeaders(exchange: Exchange, content: ContentAnswer): HeaderFields {
  const { start, end, size } = content;
  const headers: HeaderFields = {
    ...corsHeaders(exchange.corsOrigins, exchange.request),
    ...CONTENT_FIELDS,
    'content-type': sendable(content.contentType),
    'content-length': String(end - start),
    'server-timing': exchange.timing.render(),
  };
  if (content.status === 206) headers['content-range'] = `bytes ${start}-${end - 1}/${size}`;
  return headers;
}

/** Whitespace alone is a valid content type, but no header can carry it. The metadata has the exact type. */
function sendable(contentType: string): string {
  return /^ +$/.test(contentType) ? 'application/octet-stream' : contentType;
}
