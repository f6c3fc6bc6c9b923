/** Verified nodes of a Space for long jobs: one request for a node without children, several at once, tried with patience. */

import type { Hash } from '@holdfast/protocol';
import { type CheckedCall, checkMethod, checkOptions } from '../../arguments.ts';
import { isProven, ReadBatches, type ReadBatchesOptions } from '../../bulk/read-batches.ts';
import type { BulkNode } from '../../bulk/read-nodes.ts';
import type { Client } from '../../client.ts';
import type { ContentMemory } from '../../content.ts';
import { abortable, type Clock, systemClock } from '../../deadline.ts';
import type { NodeDigest } from '../../digest.ts';
import { CasError } from '../../errors.ts';
import { findNodeUpTo } from '../../leaf-first-read.ts';
import { NODES_IN_BULK_MAX } from '../../limits.ts';
import { ROT_EVIDENCE_MIN, readUnlessRotten } from '../../rotten-node.ts';
import { Semaphore } from '../../semaphore.ts';
import {
  CHUNK_BYTES_MAX,
  type NodeParts,
  TREE_NODE_CONTENT_BYTES_MAX,
  TreeFormatError,
} from '../format/tree-format.ts';
import type { NodeSource, ReadNodeOptions, UnprovenRecord } from '../read/node-source.ts';
import { AdaptiveLimit } from './adaptive-limit.ts';
import { Kept } from './kept.ts';
import { PARALLEL_MAX_DEFAULT, PARALLEL_START, PatientRequests } from './patient-requests.ts';
import { type ProgressReporter, SILENT_PROGRESS } from './progress.ts';

const KEPT_LARGE_BYTES_MAX = CHUNK_BYTES_MAX + 2 * 1024 * 1024;

/** Verified nodes read a short while ago, so that equal files, folders and chunks of a tree are fetched twice at most. */
class NodeCache {
  /** Small nodes have a bound of their own, so that the chunks of one large file do not push out the many small nodes. */
  readonly #small = new Kept<NodeParts>(4 * 1024 * 1024);
  readonly #large = new Kept<NodeParts>(KEPT_LARGE_BYTES_MAX);
  /** hashes of nodes that came once */
  readonly #met = new Kept<true>(8192);

  find(hash: Hash): NodeParts | undefined {
    return this.#small.find(hash) ?? this.#large.find(hash);
  }

  /** Whether it comes for the first time, as far as that is remembered. */
  meet(hash: Hash): boolean {
    if (this.#met.has(hash)) return false;
    this.#met.keep(hash, true);
    return true;
  }

  /** It did not come after all. */
  forget(hash: Hash): void {
    this.#met.forget(hash);
  }

  /** Whether it was kept: then others look at it later. */
  keep(hash: Hash, node: NodeParts): boolean {
    if (this.meet(hash)) return false;
    const isSmall = node.content.length <= 64 * 1024;
    (isSmall ? this.#small : this.#large).keep(hash, node, weighNode(node));
    return true;
  }
}

/** The memory of a node in bytes, rounded up: its content, what it has beside it, and its refs. */
export function weighNode({ content, refs }: Pick<NodeParts, 'content' | 'refs'>): number {
  return 512 + content.length + refs.length * 96;
}

/** For a long job make the client with `retry: { attemptsMax: 1 }`: the source tries again by itself, with patience. */
export type ReadingClient = Pick<Client, 'readContent' | 'readMetadata' | 'getNode'> &
  Partial<Pick<Client, 'bulk'>>;

export interface PatientSourceOptions {
  /** WebCrypto, or the built-in SHA-256, when left out. */
  readonly digest?: NodeDigest | undefined;
  /** For content and pieces of the client's `fetch`, if it looks at them no more, as the runtime's. The collector's when left out. */
  readonly memory?: ContentMemory | undefined;
  /** Requests at once, at most; 32 when left out. How many there are adapts to the server. */
  readonly parallelMax?: number | undefined;
  /** How long no request may succeed before reading fails, ms; 5 minutes when left out; 0 leaves trying to the client. */
  readonly patienceMs?: number | undefined;
  /** Tries of one request, at most; as many as patience allows when left out. */
  readonly attemptsMax?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The Space has no ready node with this hash. `code` is NOT_FOUND. */
export class MissingNodeError extends CasError {
  override readonly name: string = 'MissingNodeError';
  readonly hash: Hash;

  constructor(hash: Hash, cause: CasError) {
    const { code, status, requestOperation } = cause;
    const advice = 'check the hash and the Space, or push the tree again and hold it by a root ref';
    const message = `${hash} is not in this Space, or not ready there: ${advice}`;
    super(message, { code, status, requestOperation, cause });
    this.hash = hash;
  }
}

const CALL: CheckedCall = { name: 'createPatientSource', requestOperation: 'readNodes' };

/**
 * A node that is read for the second time is kept for a while, and one that several callers ask for at once is fetched once.
 * Callers share the nodes and must not change them.
 * Rejects with CasError (VERIFICATION_FAILED among them), RottenNodeError, TreeFormatError for what is too large.
 */
export function createPatientSource(client: ReadingClient, options: PatientSourceOptions = {}): NodeSource {
  checkGiven(client, options);
  const { digest, memory, progress = SILENT_PROGRESS, signal } = options;
  // Without patience the client itself has already tried again.
  const evidenceMin = options.patienceMs === 0 ? 1 : ROT_EVIDENCE_MIN;
  const clock = options.clock ?? systemClock;
  const limit = new AdaptiveLimit({
    start: PARALLEL_START,
    max: options.parallelMax ?? PARALLEL_MAX_DEFAULT,
  });
  const requests = new PatientRequests({ ...options, limit, progress, signal });
  const places = new Semaphore(() => limit.limit);
  /** The memory of nodes that nothing of another node lies in. */
  const memories = new WeakMap<NodeParts, Uint8Array>();
  const bulkReader = createBulkReader(client, requests, memories, options);

  async function read(hash: Hash, call: ReadNodeOptions): Promise<NodeParts> {
    const askedAt = clock.now();
    const node = await findNodeUpTo(client, hash, TREE_NODE_CONTENT_BYTES_MAX, { ...call, digest, memory });
    if (node === undefined) throw tooLarge(hash);
    // A large node takes as long as its bytes take, which does not tell how busy the server is.
    if (node.content.length <= 64 * 1024) limit.onAnswer(clock.now() - askedAt);
    // The metadata of a parent is a request of its own.
    const requestCount = node.refs.length > 0 ? 1 : 0;
    progress.count({
      transferredNodes: 1,
      transferredBytes: node.content.length,
      requests: requestCount,
    });
    memories.set(node, node.content);
    return node;
  }

  async function fetchNode(hash: Hash, call: ReadNodeOptions): Promise<NodeParts> {
    const found = await bulkReader?.find(hash, call);
    if (found !== undefined) return found;
    const done = await places.take();
    try {
      const rot = { client, clock, signal: call.signal, evidenceMin };
      return await requests.send(`reading ${hash}`, false, () =>
        readUnlessRotten(hash, () => read(hash, call), rot),
      );
    } catch (error) {
      throw withHash(hash, error);
    } finally {
      done();
    }
  }

  const cache = new NodeCache();
  /** Nodes on their way, with their callers: another signal may end one sooner. */
  const coming = new Map<Hash, ComingNode>();
  /** Content that one caller alone has, with the memory it lies in. */
  const lent = new WeakMap<Uint8Array, Uint8Array>();
  const lend = (node: NodeParts): NodeParts => {
    const own = memories.get(node);
    if (own !== undefined) lent.set(node.content, own);
    return node;
  };

  return {
    get nodesAtOnce() {
      return client.bulk?.isOffered === true ? NODES_IN_BULK_MAX : undefined;
    },
    async readNode(hash, call = {}) {
      const kept = cache.find(hash);
      if (kept !== undefined) return kept;
      const options = { ...call, signal: call.signal ?? signal };
      const shared = coming.get(hash);
      if (shared !== undefined && shared.signal === options.signal) {
        shared.isShared = true;
        return shared.node;
      }
      const fetching = { signal: options.signal, node: fetchNode(hash, options), isShared: false };
      coming.set(hash, fetching);
      try {
        const node = await fetching.node;
        const isKept = cache.keep(hash, node);
        return isKept || fetching.isShared ? node : lend(node);
      } finally {
        if (coming.get(hash) === fetching) coming.delete(hash);
      }
    },
    async readUnproven(hash, { signal: callSignal = signal, contentBytes }) {
      if (bulkReader?.givesUnproven(contentBytes) !== true) return undefined;
      // Another caller has it, will have it, or may want it again: one verified node serves all of them.
      if (cache.find(hash) !== undefined || coming.has(hash) || !cache.meet(hash)) return undefined;
      const found = await bulkReader.findUnproven(hash, callSignal);
      if (found === undefined) {
        cache.forget(hash);
        return undefined;
      }
      return { ...found, prove: () => found.prove().then(lend) };
    },
    giveBack(content) {
      const own = lent.get(content);
      if (lent.delete(content) && own !== undefined) memory?.give(own);
    },
  };
}

interface ComingNode {
  readonly signal: AbortSignal | undefined;
  readonly node: Promise<NodeParts>;
  /** Another caller gets it too. */
  isShared: boolean;
}

interface BulkReader {
  /** Undefined for a node that is to be asked for by itself. */
  find(hash: Hash, call: ReadNodeOptions): Promise<NodeParts | undefined>;
  /** Whether nodes of that size may be asked for unproven. */
  givesUnproven(contentBytes: number): boolean;
  findUnproven(hash: Hash, signal: AbortSignal | undefined): Promise<UnprovenRecord | undefined>;
}

/** Parents do not wait behind leaves: what is read next hangs on them. */
function createBulkReader(
  { bulk }: ReadingClient,
  requests: PatientRequests,
  memories: WeakMap<NodeParts, Uint8Array>,
  { memory, progress = SILENT_PROGRESS, signal }: PatientSourceOptions,
): BulkReader | undefined {
  if (bulk === undefined) return undefined;
  const open = (gather: Pick<ReadBatchesOptions, 'isMoreComing' | 'onIdle'>): ReadBatches =>
    new ReadBatches({
      bulk,
      signal,
      memory,
      send: (what, request) => requests.send(what, false, request),
      onNode: ({ storedBytes }) => progress.count({ transferredNodes: 1, transferredBytes: storedBytes }),
      ...gather,
    });
  const parents = open({ onIdle: () => leaves.flushSoon() });
  // A parent that comes names more of them.
  const leaves: ReadBatches = open({ isMoreComing: () => parents.isBusy });
  const takeLeaf = (node: BulkNode): NodeParts => {
    if (node.content.length > TREE_NODE_CONTENT_BYTES_MAX) throw tooLarge(node.hash);
    const { contentType, refs, content } = node;
    const leaf = { contentType, refs, content };
    if (node.memory !== undefined) memories.set(leaf, node.memory);
    return leaf;
  };
  // Larger content is asked for by itself.
  const isInBulk = (contentBytes = 0): boolean => bulk.isOffered && contentBytes <= 512 * 1024;
  return {
    async find(hash, { signal: callSignal, expectsRefs, contentBytes }) {
      if (!isInBulk(contentBytes)) return undefined;
      const batches = expectsRefs === true ? parents : leaves;
      const node = await abortable(batches.read(hash), callSignal);
      if (node === undefined) return undefined;
      const leaf = takeLeaf(node);
      // The content of a parent is kept for long, so it must not hold the answer that it came in.
      return expectsRefs === true ? { ...leaf, content: new Uint8Array(leaf.content) } : leaf;
    },
    givesUnproven: (contentBytes) => bulk.readRecords !== undefined && isInBulk(contentBytes),
    async findUnproven(hash, callSignal) {
      const node = await abortable(leaves.readRecord(hash), callSignal);
      // It came verified, because somebody else waits for it: that one keeps it for the next reader.
      if (node === undefined || isProven(node)) return undefined;
      return { record: node.record, release: node.release, prove: async () => takeLeaf(await node.prove()) };
    },
  };
}

function tooLarge(hash: Hash): TreeFormatError {
  return new TreeFormatError(
    `the node has more than ${TREE_NODE_CONTENT_BYTES_MAX} bytes, more than any node of a tree`,
    hash,
  );
}

/** Names the hash of a node that is not there: the server's answer does not, and one tree has many. */
function withHash(hash: Hash, error: unknown): unknown {
  return error instanceof CasError && error.code === 'NOT_FOUND' ? new MissingNodeError(hash, error) : error;
}

function checkGiven(client: unknown, options: unknown): void {
  checkMethod(CALL, 'client', client, 'readContent');
  checkOptions(CALL, options);
}
