/** One node of a push by itself: lease, PUT, lease, as often as it takes. */
import {
  LEASE_DURATION_MS_MAX,
  type LeaseResponse,
  type ReadyLease,
  type UploadInstruction,
  type ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import type { Client } from '../../client.ts';
import { hashCanonicalBytes } from '../../digest.ts';
import { CasError } from '../../errors.ts';
import { DAMAGED_UPLOADS_MAX, LEASE_DURATION_MS_DEFAULT, PUT_ROUNDS_MAX } from '../../limits.ts';
import type { Semaphore } from '../../semaphore.ts';
import { unsettledUpload } from '../../upload-instruction.ts';
import type { ProgressReporter } from '../jobs/progress.ts';
import { type NodeSupply, type PushNode, SourceChangedError } from './node-supply.ts';

/** The state of a node on the server, and whether bytes of ours were accepted on the way there. */
export interface SettledNode {
  readonly lease: ReadyLease | ValidatedAwaitingChildren;
  readonly isUploaded: boolean;
  /** The lease may name fewer children than are missing. */
  readonly isCutShort: boolean;
}

export interface SingleNodesOptions<Node extends PushNode> {
  readonly client: Pick<Client, 'leaseNode' | 'uploadNode'>;
  readonly supply: NodeSupply<Node>;
  /** bytes of nodes */
  readonly memory: Semaphore;
  readonly progress: ProgressReporter;
  readonly signal: AbortSignal;
  /** Lease of the root; 24 h when left out. */
  readonly leaseDurationMs: number | undefined;
  /** `measured`: the time it takes tells how busy the server is. */
  readonly send: <T>(what: string, measured: boolean, request: () => Promise<T>) => Promise<T>;
  /** How many nodes of the Space the server knows to be damaged, with every lease. */
  readonly onRot: (rottenNodes: number) => void;
  /** The root was leased. */
  readonly onRootLease: (lease: ReadyLease) => void;
}

export class SingleNodes<Node extends PushNode> {
  readonly #options: SingleNodesOptions<Node>;
  readonly #leaseDurationMs: number;
  #uploadedNodes = 0;
  #uploadedBytes = 0;

  constructor(options: SingleNodesOptions<Node>) {
    this.#options = options;
    this.#leaseDurationMs = options.leaseDurationMs ?? LEASE_DURATION_MS_MAX;
  }

  get uploadedNodes(): number {
    return this.#uploadedNodes;
  }

  /** canonical bytes */
  get uploadedBytes(): number {
    return this.#uploadedBytes;
  }

  /** Nodes below the root live by the edges of their parents. Their own lease only covers what goes wrong in between. */
  get innerLeaseMs(): number {
    return Math.min(this.#leaseDurationMs, LEASE_DURATION_MS_DEFAULT);
  }

  leaseDurationOf(node: Node): number {
    return this.isRoot(node) ? this.#leaseDurationMs : this.innerLeaseMs;
  }

  isRoot({ hash }: Node): boolean {
    return hash === this.#options.supply.root.hash;
  }

  /** Leases, and uploads when the server asks for it, until it no longer does. */
  async settle(node: Node): Promise<SettledNode> {
    let damagedCount = 0;
    let uploadedCount = 0;
    let last: UploadInstruction | undefined;
    for (let uploads = 0; uploads < PUT_ROUNDS_MAX; uploads += 1) {
      const lease = await this.lease(node);
      if (lease.state === 'ready' || lease.state === 'validated_awaiting_children') {
        return { lease, isUploaded: uploadedCount > 0, isCutShort: false };
      }
      // A rejection before our own upload is about someone else's bytes. One for the size may be ours even if our PUT broke.
      const isOurs = (code: string): boolean =>
        uploadedCount > 0 || (uploads > 0 && code === 'NODE_TOO_LARGE');
      if (lease.state === 'awaiting_replacement_upload' && isOurs(lease.rejection.code)) {
        if (lease.rejection.code !== 'NODE_DIGEST_MISMATCH' || damagedCount === DAMAGED_UPLOADS_MAX) {
          throw this.rejected(node, lease.rejection);
        }
        damagedCount += 1;
      }
      last = lease.upload;
      if (await this.#upload(node, last, damagedCount > 0)) uploadedCount += 1;
    }
    const name = this.#options.supply.nameOf(node);
    throw unsettledUpload(`push: ${PUT_ROUNDS_MAX} uploads of ${name}`, last);
  }

  async lease(node: Node): Promise<LeaseResponse> {
    const { client, signal, send, onRot, onRootLease } = this.#options;
    const leaseDurationMs = this.leaseDurationOf(node);
    const lease = await send('a lease', true, () =>
      client.leaseNode(node.hash, { leaseDurationMs }, { signal }),
    );
    onRot(lease.rottenNodes ?? 0);
    if (this.isRoot(node) && lease.state === 'ready') onRootLease(lease);
    return lease;
  }

  /** The bytes of the node as they are now. With `isSuspect` they are compared with its hash: SourceChangedError. */
  async make(node: Node, isSuspect: boolean): Promise<Uint8Array> {
    const { supply, progress } = this.#options;
    const name = supply.nameOf(node);
    progress.phase('transfer');
    progress.item(name);
    const bytes = await supply.makeNode(node).finally(progress.waitFor(`reading ${name}`));
    // The server checks every digest anyway. We compute it only to tell whether the source or the way is wrong.
    if (isSuspect && (await hashCanonicalBytes(bytes)) !== node.hash) throw new SourceChangedError(name);
    return bytes;
  }

  countUpload(canonicalBytes: number): void {
    this.#uploadedNodes += 1;
    this.#uploadedBytes += canonicalBytes;
  }

  /** Why the push cannot go on. */
  rejected(node: Node, { code, message }: { code: CasError['code']; message: string }): CasError {
    if (code === 'NODE_TOO_LARGE') return this.#tooLarge(node, { code, status: undefined, message });
    const text = `the server rejected ${this.#options.supply.nameOf(node)}: ${message}`;
    return new CasError(text, { code, requestOperation: 'leaseNode' });
  }

  /** Whether the bytes were accepted; otherwise the next lease tells what became of the instruction. */
  async #upload(node: Node, upload: UploadInstruction, isSuspect: boolean): Promise<boolean> {
    const { supply, memory } = this.#options;
    const done = await memory.take(supply.sizeOf(node));
    try {
      const bytes = await this.make(node, isSuspect);
      return await this.#send(node, upload, bytes).finally(() => supply.releaseNode?.(bytes));
    } finally {
      done();
    }
  }

  async #send(node: Node, upload: UploadInstruction, bytes: Uint8Array): Promise<boolean> {
    const { client, supply, signal, send, progress } = this.#options;
    const end = await send(`the upload of ${supply.nameOf(node)}`, false, () =>
      client.uploadNode(upload, bytes, { signal }),
    ).catch((error: unknown) => {
      const isTooLarge = error instanceof CasError && error.code === 'PAYLOAD_TOO_LARGE';
      throw isTooLarge ? this.#tooLarge(node, error) : error;
    });
    if (end === 'superseded') return false;
    this.countUpload(bytes.length);
    progress.count({ transferredNodes: 1, transferredBytes: bytes.length });
    return true;
  }

  /** Nodes of the tree format are as large as they are: only the server's limit can give way. */
  #tooLarge(node: Node, { code, status, message }: Pick<CasError, 'code' | 'status' | 'message'>): CasError {
    const text = `${this.#options.supply.nameOf(node)} needs a larger node than the server takes: raise its --max-node-bytes (${message})`;
    return new CasError(text, { code, status, requestOperation: 'uploadNode' });
  }
}

export function unsettled(what: string): CasError {
  return new CasError(`push: ${what}; try again later`, {
    code: 'UPLOAD_UNSETTLED',
    requestOperation: 'uploadNode',
  });
}
