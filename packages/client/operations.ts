/** The seven operations and health, one request each, named as the wire names them. */
import {
  type GcResult,
  type Hash,
  HEALTH_PATH,
  type Health,
  type LeaseResponse,
  NODE_BYTES_MAX_DEFAULT,
  type NodeDescription,
  OPERATIONS,
  type OperationName,
  operationPath,
  ROTTEN_NODES_HEADER,
  type RootRefPage,
  type SpaceUsage,
  type UpdateRootRefsResponse,
} from '@holdfast/protocol';
import { type CheckedCall, checkHash, checkObject, checkOptions, invalidArgument } from './arguments.ts';
import { planAuthorized, type Target } from './authorized-plan.ts';
import { checkCommit, checkLease, checkPage, checkPass } from './checked-calls.ts';
import { type ContentRange, encodeRange, type NodeContent, openContent } from './content.ts';
import {
  parseGcResult,
  parseHealth,
  parseLeaseResponse,
  parseNodeDescription,
  parseRootRefPage,
  parseRottenNodes,
  parseSpaceUsage,
  parseUpdateRootRefsResponse,
} from './parse-answers.ts';
import { request, type Transport } from './transport.ts';
import { assertInstructionIsSafe } from './upload-instruction.ts';

/** Every call can be given up: the promise, and any stream it gave, then rejects with the signal's reason. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Damage in the Space, as an answer tells it. The answer rests on a node's row alone and proves nothing of the nodes below. */
export interface RotNotice {
  /** How many nodes of the Space the server knows to be lost or damaged; absent when it knows of none. */
  readonly rottenNodes?: number;
}

/** The operations of one Space. All reject with CasError. */
export interface Operations {
  /** The node's content or one range of it, as a stream. The bytes are not verified; prefer `getNode` or `openNode`. */
  readContent(
    hash: Hash,
    options?: CallOptions & { readonly range?: ContentRange | undefined },
  ): Promise<NodeContent>;
  readMetadata(hash: Hash, options?: CallOptions): Promise<NodeDescription & RotNotice>;
  /** Renews the lease of a ready node, or drives an upload one step on. The service clamps to 60 s … 24 h. */
  leaseNode(
    hash: Hash,
    lease: { readonly leaseDurationMs: number },
    options?: CallOptions,
  ): Promise<LeaseResponse & RotNotice>;
  getUsage(options?: CallOptions): Promise<SpaceUsage>;
  /** One bounded collection pass over at most `maxNodes` candidates (default 100, at most 10,000). */
  runGc(pass?: { readonly maxNodes?: number | undefined }, options?: CallOptions): Promise<GcResult>;
  /** One page. A cursor older than the history kept rejects with `CONFLICT`: begin again without one. */
  listRootRefs(
    page?: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
    options?: CallOptions,
  ): Promise<RootRefPage>;
  /** Commits all deltas or none. The same `requestId` with the same `changes` is never applied twice. */
  updateRootRefs(
    commit: { readonly requestId: string; readonly changes: Readonly<Record<Hash, number>> },
    options?: CallOptions,
  ): Promise<UpdateRootRefsResponse>;
  health(options?: CallOptions): Promise<Health>;
}

interface Call {
  readonly operation: OperationName;
  readonly hash?: Hash;
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly json?: unknown;
  readonly timeoutMs?: number;
  readonly options: CallOptions | undefined;
}

export function createOperations(
  transport: Transport,
  target: Target,
  contentBytesMax = NODE_BYTES_MAX_DEFAULT,
): Operations {
  const { timeouts } = transport;

  function plan(call: Call) {
    const { operation, hash, json } = call;
    if ('hash' in call) checkHash(callOf(operation), hash);
    checkOptions(callOf(operation), call.options);
    return planAuthorized(target, {
      operation,
      method: OPERATIONS[operation].method,
      path: `${operationPath(operation, hash === undefined ? target : { ...target, hash })}${call.query ?? ''}`,
      headers: call.headers,
      json,
      timeoutMs: call.timeoutMs ?? timeouts.answerMs,
      isSuccess: (status: number) => status === 200,
      signal: call.options?.signal,
    });
  }

  function ask<T>(call: Call, parse: (value: unknown) => T): Promise<T> {
    return request(transport, plan(call), (answer) => answer.readJson(parse));
  }

  function askOfRow<T extends object>(call: Call, parse: (value: unknown) => T): Promise<T & RotNotice> {
    return request(transport, plan(call), async (answer) => {
      const parsed = await answer.readJson(parse);
      const rottenNodes = parseRottenNodes(answer.headers.get(ROTTEN_NODES_HEADER));
      return rottenNodes === undefined ? parsed : { ...parsed, rottenNodes };
    });
  }

  return {
    // Why each may be sent again after a lost answer. Reads change nothing.
    async readContent(hash, options) {
      const range = options?.range;
      const headers = range === undefined ? {} : { range: checkRange(range) };
      const isSuccess = (status: number) => status === 200 || status === 206;
      const call = { ...plan({ operation: 'readContent', hash, headers, options }), isSuccess };
      return request(transport, call, async (answer) =>
        openContent(answer, range, { idleMs: timeouts.contentIdleMs, bytesMax: contentBytesMax }),
      );
    },
    async readMetadata(hash, options) {
      return askOfRow({ operation: 'readMetadata', hash, options }, parseNodeDescription);
    },
    // A repeated lease ends no earlier, and an upload generation that exists is returned instead of a new one.
    async leaseNode(hash, lease, options) {
      checkLease(callOf('leaseNode'), lease);
      const { leaseDurationMs } = lease;
      const call: Call = { operation: 'leaseNode', hash, json: { leaseDurationMs }, options };
      const leased = await askOfRow(call, (value) => parseLeaseResponse(value, hash));
      if ('upload' in leased) assertInstructionIsSafe('leaseNode', leased.upload, target.baseUrl);
      return leased;
    },
    async getUsage(options) {
      return ask({ operation: 'getUsage', options }, parseSpaceUsage);
    },
    // A further bounded pass is always safe. If the answer is lost, nobody counts what the pass deleted.
    async runGc(pass, options) {
      checkPass(callOf('runGc'), pass);
      const json = pass?.maxNodes === undefined ? {} : { maxNodes: pass.maxNodes };
      return ask({ operation: 'runGc', json, timeoutMs: timeouts.gcMs, options }, parseGcResult);
    },
    async listRootRefs(page, options) {
      checkPage(callOf('listRootRefs'), page);
      const query = new URLSearchParams();
      if (page?.limit !== undefined) query.set('limit', String(page.limit));
      if (page?.cursor !== undefined) query.set('cursor', page.cursor);
      const suffix = query.size === 0 ? '' : `?${query}`;
      return ask({ operation: 'listRootRefs', query: suffix, options }, parseRootRefPage);
    },
    // The server recognises the requestId and answers with the original revision. The body is made once, before the first
    // attempt, so that every attempt sends exactly the same request.
    async updateRootRefs(commit, options) {
      checkCommit(callOf('updateRootRefs'), commit);
      const { requestId, changes } = commit;
      const call: Call = { operation: 'updateRootRefs', json: { requestId, changes }, options };
      return ask(call, parseUpdateRootRefsResponse);
    },
    async health(options) {
      checkOptions({ name: 'health', requestOperation: 'health' }, options);
      const url = `${target.baseUrl}${HEALTH_PATH}`;
      const call = {
        operation: 'health' as const,
        method: 'GET',
        url,
        headers: async () => ({}),
        timeoutMs: timeouts.answerMs,
        isSuccess: (status: number) => status === 200,
        signal: options?.signal,
      };
      return request(transport, call, (answer) => answer.readJson(parseHealth));
    },
  };
}

const callOf = (operation: OperationName): CheckedCall => {
  return { name: operation, requestOperation: operation };
};

function checkRange(range: ContentRange): string {
  const call = callOf('readContent');
  checkObject(call, 'range', range);
  try {
    return encodeRange(range);
  } catch (cause) {
    throw invalidArgument(call, cause instanceof Error ? cause.message : String(cause), cause);
  }
}
