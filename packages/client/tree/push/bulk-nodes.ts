/**
 * Nodes of a push by Bulk: leases are asked for in batches, and what is absent and small travels in packs. A parent does not wait
 * for its pack: its children are visited meanwhile, and go into the same pack or into later ones.
 */
import type { Hash } from '@holdfast/protocol';
import type { Bulk } from '../../bulk/bulk.ts';
import { BulkStore, PACKED_NODE_BYTES_MAX } from '../../bulk/bulk-store.ts';
import type { PackedNode } from '../../bulk/pack-uploads.ts';
import type { Clock } from '../../deadline.ts';
import { DAMAGED_UPLOADS_MAX, PUT_ROUNDS_MAX } from '../../limits.ts';
import { Semaphore } from '../../semaphore.ts';
import type { NodeSupply, PushNode } from './node-supply.ts';
import { type SettledNode, type SingleNodes, type SingleNodesOptions, unsettled } from './single-nodes.ts';

export interface BulkNodesOptions<Node extends PushNode> extends SingleNodesOptions<Node> {
  readonly bulk: Bulk;
  readonly single: SingleNodes<Node>;
  readonly clock: Clock;
  /** Nodes at work by themselves at once. Each holds one of the Space's active uploads until it is done. */
  readonly singlesMax: () => number;
  /** A parent that was on its way could not be stored. */
  readonly onFailure: (error: unknown) => void;
}

export class BulkNodes<Node extends PushNode> {
  readonly #options: BulkNodesOptions<Node>;
  readonly #single: SingleNodes<Node>;
  readonly #supply: NodeSupply<Node>;
  readonly #store: BulkStore;
  readonly #singles: Semaphore;
  /** parents that are on their way while their children are visited */
  readonly #underWay = new Map<Hash, Promise<SettledNode | undefined>>();

  constructor(options: BulkNodesOptions<Node>) {
    const { bulk, single, supply, signal, clock, send, onRot, progress } = options;
    this.#options = options;
    this.#single = single;
    this.#supply = supply;
    this.#singles = new Semaphore(options.singlesMax);
    this.#store = new BulkStore({
      bulk,
      send: (what, request) => send(what, false, request),
      signal,
      clock,
      packLeaseDurationMs: single.innerLeaseMs,
      onSent: (packBytes) => progress.count({ transferredBytes: packBytes }),
      onRot,
    });
  }

  /** The state of the node on the server. `under-way`: it has nothing yet of this parent, which is on its way; ask again when its children are done. */
  async settle(node: Node): Promise<SettledNode | 'under-way'> {
    const arrived = await this.#takeArrived(node);
    if (arrived !== undefined && !this.#single.isRoot(node)) return arrived;
    for (let round = 1; round <= PUT_ROUNDS_MAX; round += 1) {
      if (!this.#options.bulk.isOffered) return this.#settleAlone(node);
      const leaseDurationMs = this.#single.leaseDurationOf(node);
      const isPackable = this.#supply.sizeOf(node) <= PACKED_NODE_BYTES_MAX;
      const lease = await this.#store.lease(node.hash, { leaseDurationMs, isPackable });
      if (lease === undefined) return this.#settleAlone(node);
      if (lease.state !== 'absent') {
        if (lease.state === 'ready' && this.#single.isRoot(node)) this.#options.onRootLease(lease);
        return describe(lease, arrived?.isUploaded ?? false);
      }
      if (!isPackable) return this.#settleAlone(node);
      const upload = this.#upload(node);
      if (!node.isLeaf && round === 1) {
        upload.catch((error: unknown) => this.#options.onFailure(error));
        this.#underWay.set(node.hash, upload);
        return 'under-way';
      }
      const settled = await upload;
      if (settled !== undefined && !this.#single.isRoot(node)) return settled;
    }
    throw unsettled(`${PUT_ROUNDS_MAX} packs with ${this.#supply.nameOf(node)} settled nothing`);
  }

  async #settleAlone(node: Node): Promise<SettledNode> {
    const done = await this.#singles.take();
    try {
      return await this.#single.settle(node);
    } finally {
      done();
    }
  }

  /** Leases the node once more while it waits for its children. */
  async renew(node: Node): Promise<void> {
    const leaseDurationMs = this.#single.leaseDurationOf(node);
    const lease = await this.#store.lease(node.hash, { leaseDurationMs, isPackable: false });
    if (lease === undefined) await this.#single.lease(node);
  }

  async #takeArrived({ hash }: Node): Promise<SettledNode | undefined> {
    const upload = this.#underWay.get(hash);
    this.#underWay.delete(hash);
    const settled = await upload;
    // Its children were not ready when its pack was judged, and are now.
    return settled?.lease.state === 'ready' ? settled : undefined;
  }

  /** Undefined when only another lease tells. */
  async #upload(node: Node): Promise<SettledNode | undefined> {
    let damagedCount = 0;
    for (;;) {
      const outcome = await this.#store.upload(this.#packed(node, damagedCount > 0));
      switch (outcome.kind) {
        case 'leased': {
          const { lease, uploadedBytes } = outcome;
          if (uploadedBytes !== undefined) this.#countUpload(uploadedBytes);
          return describe(lease, uploadedBytes !== undefined);
        }
        case 'rejected':
          if (outcome.rejection.code !== 'NODE_DIGEST_MISMATCH' || damagedCount === DAMAGED_UPLOADS_MAX) {
            throw this.#single.rejected(node, outcome.rejection);
          }
          damagedCount += 1;
          break;
        case 'alone':
          return this.#settleAlone(node);
        case 'unsettled':
          return undefined;
      }
    }
  }

  #packed(node: Node, isSuspect: boolean): PackedNode {
    return {
      hash: node.hash,
      make: () => this.#single.make(node, isSuspect),
      release: (bytes) => this.#supply.releaseNode?.(bytes),
    };
  }

  #countUpload(canonicalBytes: number): void {
    this.#single.countUpload(canonicalBytes);
    this.#options.progress.count({ transferredNodes: 1 });
  }
}

/** A long answer names only the first of the children that a node waits for. */
function describe(lease: SettledNode['lease'], isUploaded: boolean): SettledNode {
  const isCutShort = lease.state === 'validated_awaiting_children' && lease.childHashes.length === 1;
  return { lease, isUploaded, isCutShort };
}
