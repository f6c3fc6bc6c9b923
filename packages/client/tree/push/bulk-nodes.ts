/** Nodes of a push by Bulk. A parent does not wait for its pack: its children are visited, and go into the same one or later ones. */
import type { Hash } from '@holdfast/protocol';
import type { Bulk } from '../../bulk/bulk.ts';
import { Delivery } from '../../bulk/delivery.ts';
import { PACKED_NODE_BYTES_MAX } from '../../bulk/packs.ts';
import type { Clock } from '../../deadline.ts';
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
  readonly #delivery: Delivery;
  readonly #singles: Semaphore;
  /** parents that are on their way while their children are visited */
  readonly #underWay = new Map<Hash, Promise<SettledNode>>();

  constructor(options: BulkNodesOptions<Node>) {
    const { bulk, single, supply, signal, clock, send, onRot, progress } = options;
    this.#options = options;
    this.#single = single;
    this.#supply = supply;
    this.#singles = new Semaphore(options.singlesMax);
    this.#delivery = new Delivery({
      bulk,
      send: (what, request) => send(what, false, request),
      signal,
      clock,
      leaseDurationMs: single.innerLeaseMs,
      onSent: (packBytes) => progress.count({ transferredBytes: packBytes }),
      onRot,
    });
  }

  /** The state of the node on the server. `under-way`: it has nothing yet of this parent, which is on its way; ask again when its children are done. */
  async settle(node: Node): Promise<SettledNode | 'under-way'> {
    const sent = await this.#underWay.get(node.hash);
    this.#underWay.delete(node.hash);
    // The children of one that is not ready were not when its pack was judged, and are now.
    if (sent?.lease.state === 'ready' && !this.#single.isRoot(node)) return sent;
    const settled = await this.#begin(node, sent === undefined && !node.isLeaf);
    if (settled === 'under-way') return settled;
    return { ...settled, isUploaded: settled.isUploaded || sent?.isUploaded === true };
  }

  /** Leases the node once more while it waits for its children. */
  async renew(node: Node): Promise<void> {
    const lease = await this.#delivery.lease(node.hash, this.#single.leaseDurationOf(node));
    if (lease === undefined) await this.#single.lease(node);
  }

  #begin(node: Node, mayBeUnderWay: boolean): Promise<SettledNode | 'under-way'> {
    return new Promise((resolve, reject) => {
      const settling = this.#deliver(node, () => {
        if (!mayBeUnderWay) return;
        settling.catch((error: unknown) => this.#options.onFailure(error));
        this.#underWay.set(node.hash, settling);
        resolve('under-way');
      });
      settling.then(resolve, reject);
    });
  }

  async #deliver(node: Node, onAbsent: () => void): Promise<SettledNode> {
    const leaseDurationMs = this.#single.leaseDurationOf(node);
    const { hash } = node;
    if (this.#supply.sizeOf(node) > PACKED_NODE_BYTES_MAX) {
      const lease = await this.#delivery.lease(hash, leaseDurationMs);
      if (lease === undefined || lease.state === 'absent') return this.#settleAlone(node);
      return this.#describe(node, lease, false);
    }
    const outcome = await this.#delivery.deliver({
      hash,
      leaseDurationMs,
      make: (isSuspect) => this.#single.make(node, isSuspect),
      release: (bytes) => this.#supply.releaseNode?.(bytes),
      onAbsent,
    });
    if (outcome.kind === 'alone') return this.#settleAlone(node);
    if (outcome.kind === 'rejected') throw this.#single.rejected(node, outcome.rejection);
    const { lease, uploadedBytes } = outcome;
    if (uploadedBytes === undefined) return this.#describe(node, lease, false);
    this.#single.countUpload(uploadedBytes);
    this.#options.progress.count({ transferredNodes: 1 });
    return this.#describe(node, await this.#leaseRoot(node, lease), true);
  }

  /** A pack gave the root the lease of the others. */
  async #leaseRoot(node: Node, packed: SettledNode['lease']): Promise<SettledNode['lease']> {
    if (!this.#single.isRoot(node)) return packed;
    const lease = await this.#delivery.lease(node.hash, this.#single.leaseDurationOf(node));
    if (lease === undefined) return packed;
    if (lease.state === 'absent') throw unsettled('the root went away after it was sent');
    return lease;
  }

  async #settleAlone(node: Node): Promise<SettledNode> {
    const done = await this.#singles.take();
    try {
      return await this.#single.settle(node);
    } finally {
      done();
    }
  }

  #describe(node: Node, lease: SettledNode['lease'], isUploaded: boolean): SettledNode {
    if (lease.state === 'ready' && this.#single.isRoot(node)) this.#options.onRootLease(lease);
    // A long answer names only the first of the children that a node waits for.
    const isCutShort = lease.state === 'validated_awaiting_children' && lease.childHashes.length === 1;
    return { lease, isUploaded, isCutShort };
  }
}
