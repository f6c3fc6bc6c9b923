/** Overlapping calls of `putNode`: their nodes are leased and sent together. What the server refuses here is put by itself. */
import type { Hash, ReadyLease, ValidatedAwaitingChildren } from '@holdfast/protocol';
import { abortable, type Clock } from '../deadline.ts';
import type { HashedNode } from '../new-node.ts';
import type { PutResult } from '../put-node.ts';
import type { Bulk } from './bulk.ts';
import { Delivery } from './delivery.ts';
import { isSharedFailure } from './joined-reads.ts';
import { PACKED_NODE_BYTES_MAX } from './packs.ts';

export interface JoinedPutsOptions {
  readonly bulk: Bulk;
  readonly clock: Clock;
  /** Whether calls are being prepared: a request with room waits for those, which takes no longer than hashing. */
  readonly isMoreComing: () => boolean;
}

/** Without a result the node has to be put by itself. */
export interface JoinedPut {
  readonly result: PutResult | undefined;
  /** whether bytes of this call were accepted */
  readonly uploaded: boolean;
}

const BY_ITSELF: JoinedPut = { result: undefined, uploaded: false };

interface Joined {
  readonly node: HashedNode;
  /** calls that wait for it */
  waiters: number;
  outcome: Promise<JoinedPut>;
}

export class JoinedPuts {
  readonly #options: JoinedPutsOptions;
  /** by their lease duration: a pack has one */
  readonly #groups = new Map<number, Group>();

  constructor(options: JoinedPutsOptions) {
    this.#options = options;
  }

  /** Rejects with CasError, or the reason of the signal. */
  async put(
    node: HashedNode,
    {
      leaseDurationMs,
      signal,
    }: { readonly leaseDurationMs: number; readonly signal: AbortSignal | undefined },
  ): Promise<JoinedPut> {
    if (!this.#options.bulk.isOffered || node.bytes.length > PACKED_NODE_BYTES_MAX) return BY_ITSELF;
    let group = this.#groups.get(leaseDurationMs);
    if (group === undefined) {
      group = new Group(this.#options, leaseDurationMs);
      this.#groups.set(leaseDurationMs, group);
    }
    try {
      return await group.put(node, signal);
    } finally {
      if (group.isIdle) {
        group.end();
        if (this.#groups.get(leaseDurationMs) === group) this.#groups.delete(leaseDurationMs);
      }
    }
  }

  /** To be called when nothing more is being prepared. */
  sendSoon(): void {
    for (const group of this.#groups.values()) group.sendSoon();
  }
}

/** Nodes of one lease duration. It lives while a call waits for it. */
class Group {
  readonly #delivery: Delivery;
  readonly #ending = new AbortController();
  readonly #joined = new Map<Hash, Joined>();
  #waiters = 0;

  constructor({ bulk, clock, isMoreComing }: JoinedPutsOptions, leaseDurationMs: number) {
    this.#delivery = new Delivery({
      bulk,
      // The client sends each request as often as its policy says.
      send: (_what, request) => request(),
      signal: this.#ending.signal,
      clock,
      leaseDurationMs,
      isMoreComing,
    });
  }

  get isIdle(): boolean {
    return this.#waiters === 0;
  }

  /** Nobody waits: what is still on its way is given up. */
  end(): void {
    this.#ending.abort(new Error('every call that waited for this was given up'));
  }

  sendSoon(): void {
    this.#delivery.sendSoon();
  }

  async put(node: HashedNode, signal: AbortSignal | undefined): Promise<JoinedPut> {
    const twin = this.#joined.get(node.hash);
    const joined = twin ?? this.#begin(node);
    joined.waiters += 1;
    this.#waiters += 1;
    try {
      const put = await abortable(joined.outcome, signal);
      if (twin === undefined) return put;
      // The bytes were those of the call that came first.
      return { result: put.result && { ...put.result, uploaded: false }, uploaded: false };
    } finally {
      joined.waiters -= 1;
      this.#waiters -= 1;
    }
  }

  #begin(node: HashedNode): Joined {
    const joined: Joined = { node, waiters: 0, outcome: Promise.resolve(BY_ITSELF) };
    this.#joined.set(node.hash, joined);
    joined.outcome = this.#settle(joined).finally(() => this.#forget(joined));
    // A call that was given up does not hear of it.
    joined.outcome.catch(() => undefined);
    return joined;
  }

  #forget(joined: Joined): void {
    const { hash } = joined.node;
    if (this.#joined.get(hash) === joined) this.#joined.delete(hash);
  }

  async #settle(joined: Joined): Promise<JoinedPut> {
    const { hash, bytes, refCount } = joined.node;
    try {
      const make = async (): Promise<Uint8Array> => {
        if (joined.waiters > 0) return bytes;
        // A later put of the node begins anew.
        this.#forget(joined);
        throw new Error('every call that waited for this node was given up');
      };
      const outcome = await this.#delivery.deliver({ hash, make });
      if (outcome.kind !== 'leased') return BY_ITSELF;
      return describe(outcome.lease, outcome.uploadedBytes !== undefined, refCount);
    } catch (error) {
      if (isSharedFailure(error)) throw error;
      return BY_ITSELF;
    }
  }
}

function describe(
  lease: ReadyLease | ValidatedAwaitingChildren,
  uploaded: boolean,
  refCount: number,
): JoinedPut {
  // A long answer names only the first of the children that a node waits for.
  const isCutShort =
    lease.state === 'validated_awaiting_children' && lease.childHashes.length === 1 && refCount > 1;
  return { result: isCutShort ? undefined : { ...lease, uploaded }, uploaded };
}
