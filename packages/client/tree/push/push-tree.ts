/**
 * Pushing a tree. From the top down: a node that is ready proves everything below it, a node that waits names the children
 * that are missing, and only those are visited. Parents are uploaded first, so that their edges protect what is below
 * while the rest arrives; a parent is leased once more when its children are ready. At most four requests for a node that
 * is new (lease, PUT, lease, and the last lease of a parent), one for a tree that is there.
 */
import {
  BULK_HASHES_MAX,
  type Hash,
  LEASE_DURATION_MS_MAX,
  type ReadyLease,
  type ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import { checkLeaseDuration, checkMethod, checkOptions } from '../../arguments.ts';
import type { Client } from '../../client.ts';
import { type Clock, systemClock } from '../../deadline.ts';
import { CasError } from '../../errors.ts';
import { type LeaseKeeper, startLeaseKeeper } from '../../lease-keeper.ts';
import type { CallOptions } from '../../operations.ts';
import { Semaphore } from '../../semaphore.ts';
import { AdaptiveLimit } from '../jobs/adaptive-limit.ts';
import { PARALLEL_START, PatientRequests, PUSH_PARALLEL_MAX_DEFAULT } from '../jobs/patient-requests.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import { BulkNodes } from './bulk-nodes.ts';
import type { EarlyCounts } from './early-nodes.ts';
import type { NodeSupply, PushNode } from './node-supply.ts';
import { NodeWalk, type VisitResult } from './node-walk.ts';
import { SingleNodes, type SingleNodesOptions, unsettled } from './single-nodes.ts';

/** The calls of a client that a push uses. Make the client with `retry: { attemptsMax: 1 }`: the push tries again by itself. */
export type PushClient = Pick<Client, 'leaseNode' | 'uploadNode'> & Partial<Pick<Client, 'bulk'>>;

export interface PushOptions extends CallOptions {
  /** Lease of the root: 60 s to 24 h, clamped by the service; 24 h when left out. */
  readonly leaseDurationMs?: number | undefined;
  /** Lease every node, also below what is ready, so that nodes whose bytes were lost are uploaded again. */
  readonly check?: boolean | undefined;
  /** Requests at once, at most; 64 when left out. How many there are adapts to the server. */
  readonly parallelMax?: number | undefined;
  /** Bytes of nodes in memory on their way out; 16 MiB when left out. */
  readonly memoryBytesMax?: number | undefined;
  /** How long no request may succeed before the push fails, ms; 5 minutes when left out. */
  readonly patienceMs?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  /** The part of the tree that was sent while it was read. */
  readonly early?: EarlyCounts | undefined;
}

export interface PushResult {
  readonly root: Hash;
  /** The tree is safe from collection until then. */
  readonly leaseExpiresAt: number;
  readonly uploadedNodes: number;
  /** canonical bytes */
  readonly uploadedBytes: number;
  /** Nodes of the Space that the server still knew to be lost or damaged when the push ended, none of this tree. */
  readonly rottenNodes: number;
}

/** Makes the tree of `supply` ready and leased; called again it goes on. Throws CasError, SourceChangedError, the supply's or signal's. */
export async function pushTree<Node extends PushNode>(
  client: PushClient,
  supply: NodeSupply<Node>,
  options: PushOptions = {},
): Promise<PushResult> {
  const call = { name: 'pushTree', requestOperation: 'leaseNode' } as const;
  checkMethod(call, 'client', client, 'leaseNode');
  checkMethod(call, 'supply', supply, 'makeNode');
  checkOptions(call, options);
  if (options.leaseDurationMs !== undefined) checkLeaseDuration(call, options.leaseDurationMs);
  return new Push(client, supply, options).run();
}

class Push<Node extends PushNode> {
  readonly #client: PushClient;
  readonly #supply: NodeSupply<Node>;
  /** Every node is looked at: as asked, or since the server said that the Space has damaged nodes. */
  #check: boolean;
  readonly #leaseDurationMs: number;
  /** Fires with the caller's signal, and when the push has failed: requests that are still running are then given up. */
  readonly #ending = new AbortController();
  readonly #callerSignal: AbortSignal | undefined;
  readonly #progress: ProgressReporter;
  readonly #clock: Clock;
  readonly #random: (() => number) | undefined;
  readonly #limit: AdaptiveLimit;
  /** Many more nodes are at work by Bulk than there may be requests. */
  readonly #places: Semaphore;
  readonly #requests: PatientRequests;
  readonly #single: SingleNodes<Node>;
  readonly #inBulk: BulkNodes<Node> | undefined;
  #walk: NodeWalk<Node>;
  /** While all below a ready root is checked, only the root's own lease keeps it. */
  #keeper: LeaseKeeper | undefined;
  #leaseExpiresAt = 0;
  /** A ready parent was taken for proof of what is below it. */
  #hasBelieved = false;
  /** as the last lease said */
  #rottenNodes = 0;
  readonly #early: EarlyCounts | undefined;
  #countedFiles: number;
  #countedBytes: number;
  /** Early nodes are counted already, and are found on the server once more. */
  #earlyFiles: number;
  #earlyBytes: number;

  constructor(client: PushClient, supply: NodeSupply<Node>, options: PushOptions) {
    this.#client = client;
    this.#supply = supply;
    this.#check = options.check ?? false;
    this.#leaseDurationMs = options.leaseDurationMs ?? LEASE_DURATION_MS_MAX;
    this.#callerSignal = options.signal;
    this.#progress = options.progress ?? SILENT_PROGRESS;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random;
    this.#early = options.early;
    this.#countedFiles = this.#earlyFiles = this.#early?.files ?? 0;
    this.#countedBytes = this.#earlyBytes = this.#early?.bytes ?? 0;
    this.#limit = new AdaptiveLimit({
      start: PARALLEL_START,
      max: options.parallelMax ?? PUSH_PARALLEL_MAX_DEFAULT,
    });
    this.#places = new Semaphore(() => this.#limit.limit);
    const { signal } = this.#ending;
    this.#requests = new PatientRequests({
      ...options,
      limit: this.#limit,
      progress: this.#progress,
      signal,
    });
    const nodes = this.#describeNodes(options, signal);
    this.#single = new SingleNodes(nodes);
    const { bulk } = client;
    const onFailure = (error: unknown): void => this.#walk.fail(error);
    const singlesMax = (): number => this.#limit.limit;
    this.#inBulk =
      bulk &&
      new BulkNodes({ ...nodes, bulk, single: this.#single, clock: this.#clock, singlesMax, onFailure });
    this.#keeper = this.#check ? this.#startKeeper() : undefined;
    this.#walk = this.#makeWalk();
  }

  #describeNodes(options: PushOptions, signal: AbortSignal): SingleNodesOptions<Node> {
    return {
      client: this.#client,
      supply: this.#supply,
      memory: new Semaphore(options.memoryBytesMax ?? 16 * 1024 * 1024),
      progress: this.#progress,
      signal,
      leaseDurationMs: options.leaseDurationMs,
      send: (what, measured, request) => this.#send(what, measured, request),
      onRot: (rottenNodes) => this.#takeRot(rottenNodes),
      onRootLease: (lease) => this.#takeRootLease(lease),
    };
  }

  async #send<T>(what: string, measured: boolean, request: () => Promise<T>): Promise<T> {
    const done = await this.#places.take();
    try {
      return await this.#requests.send(what, measured, request);
    } finally {
      done();
    }
  }

  #makeWalk(): NodeWalk<Node> {
    return new NodeWalk({
      visit: (node, round) => this.#visit(node, round),
      // Those of one request for leases, and as many that are in packs meanwhile.
      limit: () => (this.#isInBulk() ? 2 * BULK_HASHES_MAX : this.#limit.limit),
      weigh: (node) =>
        // A node has at most 256 children.
        node.isLeaf || !this.#isInBulk() ? 1 : Math.max(1, Math.min(node.entryCount, 256)),
      onTwin: (node) => this.#countThere(node.entryCount, node.bytes),
      onFailure: (error) => this.#ending.abort(error),
    });
  }

  #isInBulk(): boolean {
    return this.#client.bulk?.isOffered === true;
  }

  #startKeeper(): LeaseKeeper {
    return startLeaseKeeper({
      client: this.#client,
      leaseDurationMs: this.#leaseDurationMs,
      clock: this.#clock,
      random: this.#random,
    });
  }

  async run(): Promise<PushResult> {
    const { root } = this.#supply;
    const onCallerAbort = (): void => this.#ending.abort(this.#callerSignal?.reason);
    this.#callerSignal?.addEventListener('abort', onCallerAbort, { once: true });
    this.#progress.phase('negotiate');
    const stopKeeping = this.#keepWaiting();
    try {
      this.#callerSignal?.throwIfAborted();
      const sent = this.#findSent();
      if (sent === undefined) await this.#walk.run(root);
      else {
        this.#takeRootLease(sent);
        this.#countThere(root.entryCount, root.bytes);
      }
      if (this.#check && this.#hasBelieved) {
        // The server learnt of the damage while we pushed.
        this.#walk = this.#makeWalk();
        await this.#walk.run(root);
      }
      // After a long check the root's own lease is old.
      if (this.#check && (await this.#single.lease(root)).state !== 'ready') {
        throw unsettled('the root went away while the tree was checked');
      }
    } finally {
      stopKeeping();
      await this.#keeper?.stop();
      this.#callerSignal?.removeEventListener('abort', onCallerAbort);
    }
    return {
      root: root.hash,
      leaseExpiresAt: this.#leaseExpiresAt,
      uploadedNodes: this.#single.uploadedNodes + (this.#early?.uploadedNodes ?? 0),
      uploadedBytes: this.#single.uploadedBytes + (this.#early?.uploadedBytes ?? 0),
      rottenNodes: this.#rottenNodes,
    };
  }

  /** The lease of the root, when the tree was sent while it was read and needs no other look. */
  #findSent(): ReadyLease | undefined {
    const lease = this.#early?.lastLease;
    return !this.#check && lease?.hash === this.#supply.root.hash ? lease : undefined;
  }

  async #visit(node: Node, round: number): Promise<VisitResult<Node>> {
    // Once is the rule for a leaf, twice for a parent; more when children went away.
    if (round > 12) throw unsettled(`${this.#supply.nameOf(node)} never became ready`);
    const isFirst = round === 1;
    const settled = await (this.#inBulk ?? this.#single).settle(node);
    if (settled === 'under-way') {
      const children = await this.#listWanted(node, undefined);
      if (isFirst) this.#countDone(node, children, false);
      return { kind: 'children', children, again: true };
    }
    const { lease, isUploaded, isCutShort } = settled;
    if (lease.state === 'ready' && (!this.#check || node.isLeaf || !isFirst)) {
      if (isFirst) this.#countDone(node, [], isUploaded);
      if (!this.#check && !node.isLeaf && isFirst) this.#hasBelieved = true;
      return { kind: 'done' };
    }
    const children = await this.#listWanted(node, isCutShort ? undefined : lease);
    if (isFirst) this.#countDone(node, children, false);
    return { kind: 'children', children, again: lease.state !== 'ready' };
  }

  /** The distinct children to visit: those that are missing, or all when everything is checked or the server has nothing of `node`. */
  async #listWanted(
    node: Node,
    lease: ReadyLease | ValidatedAwaitingChildren | undefined,
  ): Promise<readonly Node[]> {
    const missing = lease?.state === 'validated_awaiting_children' ? new Set(lease.childHashes) : undefined;
    const isAllWanted = this.#check || lease === undefined;
    const distinct = new Map<Hash, Node>();
    let found = 0;
    for (const child of await this.#supply.listChildren(node)) {
      if (distinct.has(child.hash)) continue;
      const isMissing = missing?.has(child.hash) ?? false;
      if (isMissing) found += 1;
      if (isMissing || isAllWanted) distinct.set(child.hash, child);
      else if (!child.isLeaf) this.#hasBelieved = true;
    }
    if (found < (missing?.size ?? 0)) {
      const message = `leaseNode: the server waits for children that ${node.hash} does not have; check that the address is a server of this API`;
      throw new CasError(message, { code: 'MALFORMED_RESPONSE', requestOperation: 'leaseNode' });
    }
    return [...distinct.values()];
  }

  #takeRot(rottenNodes: number): void {
    this.#rottenNodes = rottenNodes;
    if (rottenNodes > 0 && !this.#check) this.#lookBelow();
  }

  #takeRootLease({ hash, leaseExpiresAt }: ReadyLease): void {
    this.#leaseExpiresAt = leaseExpiresAt;
    this.#keeper?.add(hash, { safeUntil: leaseExpiresAt });
  }

  /** Some nodes of the Space are damaged, and a ready node does not prove the bytes below it: from now on every node is looked at. */
  #lookBelow(): void {
    this.#check = true;
    this.#keeper = this.#startKeeper();
    this.#progress.phase('check');
    const count = this.#rottenNodes === 1 ? '1 damaged node' : `${this.#rottenNodes} damaged nodes`;
    this.#progress.warn(
      `the server knows of ${count} in this Space: every node is looked at, and what was lost of this tree is uploaded again`,
    );
  }

  /** `node` is dealt with except for `children`, which are visited next. */
  #countDone(node: Node, children: readonly Node[], isUploaded: boolean): void {
    let { entryCount, bytes } = node;
    for (const child of children) {
      entryCount -= child.entryCount;
      bytes -= child.bytes;
    }
    if (isUploaded && node.isLeaf) this.#count(entryCount, bytes, 0);
    else this.#countThere(entryCount, bytes);
  }

  #countThere(files: number, bytes: number): void {
    const knownFiles = Math.min(files, this.#earlyFiles);
    const knownBytes = Math.min(bytes, this.#earlyBytes);
    this.#earlyFiles -= knownFiles;
    this.#earlyBytes -= knownBytes;
    const moreBytes = bytes - knownBytes;
    this.#count(files - knownFiles, moreBytes, moreBytes);
  }

  /** Never more than the tree has: a node that was lost on the server meanwhile is dealt with twice. */
  #count(files: number, bytes: number, deduplicatedBytes: number): void {
    const { root } = this.#supply;
    const filesLeft = Math.max(0, Math.min(files, root.entryCount - this.#countedFiles));
    const bytesLeft = Math.max(0, Math.min(bytes, root.bytes - this.#countedBytes));
    this.#countedFiles += filesLeft;
    this.#countedBytes += bytesLeft;
    this.#progress.count({
      files: filesLeft,
      bytes: bytesLeft,
      deduplicatedBytes: Math.min(deduplicatedBytes, bytesLeft),
    });
  }

  /** Leases what waits for children again and again, so that a job of days loses nothing. Returns how to stop. */
  #keepWaiting(): () => void {
    let stopTimer: (() => void) | undefined;
    let isStopped = false;
    const renew = async (): Promise<void> => {
      const waiting = [...this.#walk.waiting()];
      // Its own visit meets whatever is wrong with a node, and tells.
      if (this.#isInBulk()) {
        await Promise.allSettled(waiting.map((node) => this.#inBulk?.renew(node)));
        return;
      }
      for (const node of waiting) {
        if (isStopped) return;
        await this.#single.lease(node).catch(() => undefined);
      }
    };
    const start = (): void => {
      // A waiting parent is dropped 24 h after its last lease call.
      stopTimer = this.#clock.startTimer(6 * 60 * 60_000, () => {
        void renew().then(() => isStopped || start());
      });
    };
    start();
    return () => {
      isStopped = true;
      stopTimer?.();
    };
  }
}
