/** Storing many small nodes: which of them the server lacks is asked in batches, and those travel in packs. */
import type { BulkLeaseResult, Hash } from '@holdfast/protocol';
import type { Clock } from '../deadline.ts';
import type { Bulk } from './bulk.ts';
import { type AskedLease, LeaseBatches } from './lease-batches.ts';
import type { PackOutcome } from './pack-deliveries.ts';
import { type PackedNode, PackUploads } from './pack-uploads.ts';
import type { SendRequest } from './send-request.ts';

/**
 * Up to here a node travels in a pack. Every chunk of a file does (at most 4 MiB, and its header), so that a file is read once, and
 * some ten chunks cost the server one sync of its disk. Larger nodes of other makers go by themselves: a pack of one saves nothing.
 * Canonical bytes.
 */
export const PACKED_NODE_BYTES_MAX = 5 * 1024 * 1024;

export interface BulkStoreOptions {
  readonly bulk: Bulk;
  readonly send: SendRequest;
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  /** The lease of every node that travels in a pack. */
  readonly packLeaseDurationMs: number;
  readonly onSent: (packBytes: number) => void;
  readonly onRot?: ((rottenNodes: number) => void) | undefined;
  /** Whether more nodes come by themselves, so that a pack with room waits for them. Never when left out. */
  readonly isMoreComing?: (() => boolean) | undefined;
}

export class BulkStore {
  readonly #leases: LeaseBatches;
  readonly #packs: PackUploads;
  readonly #isMoreComing: () => boolean;
  #isCheckSoon = false;

  constructor(options: BulkStoreOptions) {
    this.#isMoreComing = options.isMoreComing ?? (() => false);
    const { bulk, send, signal, clock, packLeaseDurationMs, onSent, onRot = () => undefined } = options;
    const onIdle = (): void => this.sendSoon();
    this.#packs = new PackUploads({
      bulk,
      send,
      signal,
      clock,
      leaseDurationMs: packLeaseDurationMs,
      onSent,
      onIdle,
    });
    this.#leases = new LeaseBatches({
      bulk,
      send,
      signal,
      wantsPack: () => this.#packs.wantsPack,
      onPack: (pack) => this.#packs.takeInstruction(pack),
      onRot,
      isMoreComing: this.#isMoreComing,
      onIdle,
    });
  }

  /** The server's answer about the node; undefined when it does not offer Bulk. */
  lease(hash: Hash, asked: AskedLease): Promise<BulkLeaseResult | undefined> {
    return this.#leases.lease(hash, asked);
  }

  upload(node: PackedNode): Promise<PackOutcome> {
    return this.#packs.add(node);
  }

  /** When nothing more comes for the pack that is being made, it goes as it is. Decided after this turn: others may ask until then. */
  sendSoon(): void {
    if (this.#isCheckSoon) return;
    this.#isCheckSoon = true;
    setTimeout(() => {
      this.#isCheckSoon = false;
      if (this.#isMoreComing()) return;
      if (this.#leases.isIdle) this.#packs.flush();
      else this.#leases.flush();
    }, 0);
  }
}
