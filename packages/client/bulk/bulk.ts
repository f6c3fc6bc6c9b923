/** Many nodes in few requests: the four requests of Bulk, one call each (docs/bulk.md). */
import {
  BULK_HASHES_MAX,
  BULK_OPERATIONS,
  type BulkCodec,
  type BulkLeaseResponse,
  type BulkLeaseResult,
  type BulkOperationName,
  bulkOperationPath,
  type Compress,
  type Hash,
  isHash,
  isPathId,
  PACK_RECORDS_MAX,
  type PackFault,
  type PackInstruction,
  type PackLeaseResponse,
  type PackLeaseResult,
  ROTTEN_NODES_HEADER,
  type Unzstd,
} from '@holdfast/protocol';
import {
  type Fields,
  fieldOf,
  malformed,
  parseFields,
  parseHash,
  parseInteger,
  parseList,
  parseText,
} from '../answer-fields.ts';
import { type CheckedCall, checkHash, checkOptions, describeValue, invalidArgument } from '../arguments.ts';
import { planAuthorized, type Target } from '../authorized-plan.ts';
import { checkLease } from '../checked-calls.ts';
import type { NodeDigest } from '../digest.ts';
import { CasError } from '../errors.ts';
import { BULK_ANSWER_BYTES_MAX, BULK_PROBE_PAUSE_MS, MESSAGE_CHARACTERS_MAX } from '../limits.ts';
import type { CallOptions, RotNotice } from '../operations.ts';
import {
  parseInstruction,
  parseReady,
  parseRejection,
  parseRottenNodes,
  parseWaiting,
} from '../parse-answers.ts';
import { type RequestPlan, request, type Transport } from '../transport.ts';
import { assertInstructionIsSafe, checkUpload, uploadAsTold } from '../upload-instruction.ts';
import {
  type BulkNode,
  detachPack,
  type ReadRecordsOptions,
  readNodes,
  type UnprovenNode,
} from './read-nodes.ts';

/** `hashes` are those that were asked for: exactly they must be answered, in their order. */
function parseBulkLeaseResponse(value: unknown, hashes: readonly Hash[]): BulkLeaseResponse {
  const fields = parseFields(value, 'the whole');
  const list = parseList(fields, 'results');
  if (list.length !== hashes.length) throw malformed('results', `a list of ${hashes.length} results`);
  const results = list.map((item, index) => {
    const result = parseFields(item, 'results');
    const hash = parseHash(result, 'hash');
    if (hash !== hashes[index]) throw malformed('hash', 'the one that was asked for');
    return parseLeaseResult(result, hash);
  });
  if (fieldOf(fields, 'pack') === undefined) return { results };
  return { results, pack: parsePack(parseFields(fieldOf(fields, 'pack'), 'pack')) };
}

function parsePackLeaseResponse(value: unknown): PackLeaseResponse {
  const fields = parseFields(value, 'the whole');
  const list = parseList(fields, 'results');
  if (list.length > PACK_RECORDS_MAX)
    throw malformed('results', `a list of at most ${PACK_RECORDS_MAX} results`);
  const results = list.map((item) => parsePackLeaseResult(parseFields(item, 'results')));
  if (fieldOf(fields, 'broken') === undefined) return { results };
  return { results, broken: parseFault(parseFields(fieldOf(fields, 'broken'), 'broken')) };
}

function parseLeaseResult(fields: Fields, hash: Hash): BulkLeaseResult {
  const state = parseText(fields, 'state');
  switch (state) {
    case 'ready':
      return parseReady(fields, hash);
    case 'validated_awaiting_children':
      return parseWaiting(fields, hash);
    case 'absent':
      return { state, hash };
    default:
      throw malformed('state', 'a state that Bulk has');
  }
}

function parsePackLeaseResult(fields: Fields): PackLeaseResult {
  const hash = parseHash(fields, 'hash');
  if (fieldOf(fields, 'state') !== 'rejected') return parseLeaseResult(fields, hash);
  return { state: 'rejected', hash, rejection: parseRejection(fields) };
}

function parsePack(fields: Fields): PackInstruction {
  const id = parseText(fields, 'id');
  if (!isPathId(id)) throw malformed('id', 'the id of a pack');
  return {
    ...parseInstruction(fields),
    id,
    bytesMax: parseInteger(fields, 'bytesMax'),
    recordsMax: parseInteger(fields, 'recordsMax'),
  };
}

function parseFault(fields: Fields): PackFault {
  return {
    byte: parseInteger(fields, 'byte'),
    message: parseText(fields, 'message').slice(0, MESSAGE_CHARACTERS_MAX),
  };
}

export interface Zstd {
  /** For packs that are sent; without it nodes are sent as they are. */
  readonly compress?: Compress | undefined;
  /**
   * The same on another thread, for larger nodes: `bytes` stay as they are until it settles. Undefined, at once, where a look says
   * that it would save nothing.
   */
  readonly compressAside?: ((bytes: Uint8Array) => Promise<Uint8Array> | undefined) | undefined;
  /** Gives back the memory of a frame that `compress` made and nobody looks at any more; it is called for most of them. */
  readonly release?: ((frame: Uint8Array) => void) | undefined;
  /** For packs that are read. */
  readonly unzstd: Unzstd;
}

interface BulkLease {
  /** 60 s to 24 h, clamped by the service */
  readonly leaseDurationMs: number;
}

/**
 * All reject with CasError. If the server has no Bulk, the code is `BULK_UNAVAILABLE`: do the same with single nodes. For a while
 * then nothing is sent; later the next call asks again.
 */
export interface Bulk {
  /** False while it is known that the server has no Bulk. True says only that a call is worth trying. */
  readonly isOffered: boolean;
  readonly zstd: Zstd | undefined;
  /** that the client was given */
  readonly digest?: NodeDigest | undefined;
  /**
   * Leases 1 to 4,096 distinct nodes, one result for each. With `pack`, and if any is absent, the answer says where one pack goes;
   * the same hashes again, before it arrived, get the same one.
   */
  leaseNodes(
    hashes: readonly Hash[],
    lease: BulkLease & { readonly pack?: boolean | undefined },
    options?: CallOptions,
  ): Promise<BulkLeaseResponse & RotNotice>;
  /** Sends the pack exactly as told. `superseded`: the instruction is over (expired, or a pack is there); `leasePack` tells. */
  uploadPack(
    pack: PackInstruction,
    bytes: Uint8Array,
    options?: CallOptions,
  ): Promise<'accepted' | 'superseded'>;
  /**
   * Has the pack judged and its good nodes published and leased, one result for each record. `CONFLICT`: no pack came; lease the
   * nodes again. `NOT_FOUND`: the pack is forgotten, or the server does not offer Bulk any more; `leaseNodes` tells.
   */
  leasePack(packId: string, lease: BulkLease, options?: CallOptions): Promise<PackLeaseResponse>;
  /**
   * Those of 1 to 4,096 distinct nodes that can be read in bulk, verified, in this order. One that does not come is to be asked for
   * by itself, which tells why. Every record is held no longer than its caller does.
   */
  readNodes(hashes: readonly Hash[], options?: CallOptions): AsyncGenerator<BulkNode, void, undefined>;
  /** The same, but what the caller has verified elsewhere comes as it is. A Bulk without this method verifies every node itself. */
  readRecords?(
    hashes: readonly Hash[],
    options: ReadRecordsOptions,
  ): AsyncGenerator<BulkNode | UnprovenNode, void, undefined>;
}

export interface BulkSettings {
  readonly digest?: NodeDigest | undefined;
  readonly zstd?: Zstd | undefined;
}

export function createBulk(transport: Transport, target: Target, { digest, zstd }: BulkSettings): Bulk {
  const { timeouts, clock, retry, random } = transport;
  const offer = new Offer(() => clock.now());

  function plan(
    operation: BulkOperationName,
    call: { readonly packId?: string; readonly json: unknown; readonly timeoutMs: number },
    options: CallOptions | undefined,
  ): RequestPlan {
    const { packId, json, timeoutMs } = call;
    return planAuthorized(target, {
      operation,
      method: BULK_OPERATIONS[operation].method,
      path: bulkOperationPath(operation, packId === undefined ? target : { ...target, packId }),
      json,
      timeoutMs,
      isSuccess: (status) => status === 200,
      signal: options?.signal,
    });
  }

  async function* readRecords(
    hashes: readonly Hash[],
    options: ReadRecordsOptions,
  ): AsyncGenerator<BulkNode | UnprovenNode, void, undefined> {
    checkHashes('readNodes', hashes, options);
    const ask = (asked: readonly Hash[], codecs: readonly BulkCodec[]) => {
      const json = { hashes: asked, ...(codecs.length > 0 ? { codecs } : {}) };
      const call = plan('readNodes', { json, timeoutMs: timeouts.answerMs }, options);
      return offer.ask('readNodes', () => request(transport, call, async (answer) => detachPack(answer)));
    };
    const { contentIdleMs } = timeouts;
    const settings = { retry, clock, random, contentIdleMs, digest, unzstd: zstd?.unzstd };
    yield* readNodes(ask, settings, hashes, options);
  }

  return {
    zstd,
    digest,
    get isOffered() {
      return offer.stands;
    },
    // Why each may be sent again after a lost answer. A repeated lease ends no earlier, and a pack that waits for its bytes is
    // answered again instead of a second one.
    async leaseNodes(hashes, lease, options) {
      checkHashes('leaseNodes', hashes, options);
      checkLease(callOf('leaseNodes'), lease);
      const { leaseDurationMs, pack } = lease;
      const json = { leaseDurationMs, hashes, ...(pack === true ? { pack } : {}) };
      const call = plan('leaseNodes', { json, timeoutMs: timeouts.packMs }, options);
      const leased = await offer.ask('leaseNodes', () =>
        request(transport, call, async (answer) => {
          const parse = (value: unknown) => parseBulkLeaseResponse(value, hashes);
          const parsed = await answer.readJson(parse, BULK_ANSWER_BYTES_MAX);
          const rottenNodes = parseRottenNodes(answer.headers.get(ROTTEN_NODES_HEADER));
          return rottenNodes === undefined ? parsed : { ...parsed, rottenNodes };
        }),
      );
      if (leased.pack !== undefined) assertInstructionIsSafe('leaseNodes', leased.pack, target.baseUrl);
      return leased;
    },
    async uploadPack(pack, bytes, options) {
      checkUpload({ name: 'uploadPack', requestOperation: 'uploadPack' }, pack, bytes, options);
      return uploadAsTold(transport, 'uploadPack', pack, bytes, options);
    },
    // The nodes that the first call published stay, and the answer is made from the server's record of the pack.
    async leasePack(packId, lease, options) {
      const checked = callOf('leasePack');
      if (typeof packId !== 'string' || !isPathId(packId)) {
        throw invalidArgument(checked, 'the id of a pack is what leaseNodes answered');
      }
      checkLease(checked, lease);
      checkOptions(checked, options);
      const json = { leaseDurationMs: lease.leaseDurationMs };
      const call = plan('leasePack', { packId, json, timeoutMs: timeouts.packMs }, options);
      return request(transport, call, (answer) =>
        answer.readJson(parsePackLeaseResponse, BULK_ANSWER_BYTES_MAX),
      );
    },
    readNodes: (hashes, options) =>
      // Every one of them is verified.
      readRecords(hashes, { ...options, isLeftUnproven: () => false }) as AsyncGenerator<BulkNode>,
    readRecords,
  };
}

/** Remembers whether the server offers Bulk. Only routes without an id of their own tell. */
class Offer {
  readonly #now: () => number;
  #askAgainAt = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  get stands(): boolean {
    return this.#now() >= this.#askAgainAt;
  }

  async ask<T>(operation: BulkOperationName, send: () => Promise<T>): Promise<T> {
    if (!this.stands) throw unavailable(operation);
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof CasError) || error.status !== 404) throw error;
      this.#askAgainAt = this.#now() + BULK_PROBE_PAUSE_MS;
      throw unavailable(operation, error);
    }
  }
}

function unavailable(requestOperation: BulkOperationName, cause?: CasError): CasError {
  const message = `${requestOperation}: this server does not offer Bulk; use the operations on single nodes`;
  return new CasError(message, { code: 'BULK_UNAVAILABLE', status: cause?.status, requestOperation, cause });
}

const callOf = (operation: BulkOperationName): CheckedCall => {
  return { name: operation, requestOperation: operation };
};

/** Throws CasError INVALID_ARGUMENT. */
function checkHashes(operation: BulkOperationName, hashes: readonly Hash[], options: unknown): void {
  const call = callOf(operation);
  checkOptions(call, options);
  if (!Array.isArray(hashes)) {
    throw invalidArgument(call, `the hashes must be an array; it is ${describeValue(hashes)}`);
  }
  if (hashes.length < 1 || hashes.length > BULK_HASHES_MAX) {
    throw invalidArgument(call, `one call takes 1 to ${BULK_HASHES_MAX} hashes, not ${hashes.length}`);
  }
  const wrong = hashes.findIndex((hash) => !isHash(hash));
  if (wrong >= 0) checkHash(call, hashes[wrong], `hash ${wrong}`);
  if (new Set(hashes).size !== hashes.length) throw invalidArgument(call, 'give each hash once');
}
