/** Sends the nodes of an edit: small ones together, large ones at once. A parent judged before its children is leased once more. */
import { encodeNodeHeader, type Hash } from '@holdfast/protocol';
import type { Client } from '../../client.ts';
import { digestBySize, type NodeDigest } from '../../digest.ts';
import type { NewNode } from '../../new-node.ts';
import type { CallOptions } from '../../operations.ts';
import type { PutResult } from '../../put-node.ts';
import { Semaphore } from '../../semaphore.ts';
import type { NodeSink } from '../build/builders.ts';
import type { TreeNode } from '../format/tree-format.ts';

export type NodePutter = Pick<Client, 'putNode' | 'leaseNode'> & Partial<Pick<Client, 'bulk'>>;

export interface SentNodes {
  readonly last: PutResult | undefined;
  /** nodes of which something below is not there */
  readonly unready: readonly PutResult[];
}

export interface NodeSenderOptions extends CallOptions {
  /** of what is sent before the end */
  readonly leaseDurationMs: number;
}

export class NodeSender implements NodeSink {
  readonly digest: NodeDigest;
  readonly #client: NodePutter;
  readonly #options: NodeSenderOptions;
  readonly #memory = new Semaphore(8 * 1024 * 1024);
  readonly #held = new Map<Hash, NewNode>();
  #heldBytes = 0;
  readonly #sent = new Set<Hash>();
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;
  /** without `last` of `finish` */
  sentNodes = 0;
  /** canonical */
  sentBytes = 0;

  constructor(client: NodePutter, options: NodeSenderOptions) {
    this.digest = digestBySize(client.bulk?.digest);
    this.#client = client;
    this.#options = options;
  }

  /** Looks at the content no longer than until it returns or settles. */
  emit({ hash, contentType, refs, content }: TreeNode): void | Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#held.has(hash) || this.#sent.has(hash)) return undefined;
    const node = { contentType, refs: [...refs], content };
    // A small edit is one request for leases and one pack.
    if (this.#heldBytes + content.length > 1024 * 1024) return this.#sendEarly(hash, node);
    this.#heldBytes += content.length;
    this.#held.set(hash, { ...node, content: new Uint8Array(content) });
    return undefined;
  }

  async #sendEarly(hash: Hash, node: NewNode & { readonly content: Uint8Array }): Promise<void> {
    const { leaseDurationMs, signal } = this.#options;
    const release = await this.#memory.take(node.content.length, signal);
    this.#sent.add(hash);
    // A parent of a child that is held is leased with it at the end.
    const work = this.#put(hash, node, leaseDurationMs)
      .then((result) => {
        if (result.state !== 'ready') this.#held.set(hash, { ...node, content: node.content });
      })
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#running.delete(work);
        release();
      });
    this.#running.add(work);
  }

  /** How many nodes are held. `forgetSince` drops those that came later: another attempt makes others. */
  get heldCount(): number {
    return this.#held.size;
  }

  forgetSince(heldCount: number): void {
    for (const hash of [...this.#held.keys()].slice(heldCount)) this.#held.delete(hash);
  }

  /** Sends what is held and `last`, and waits for all. Held nodes stay so: the next call leases them again. */
  async finish(leaseDurationMs: number, last?: NewNode & { readonly hash: Hash }): Promise<SentNodes> {
    await Promise.all(this.#running);
    if (this.#failure !== undefined) throw this.#failure.error;
    const nodes = [...this.#held, ...(last === undefined ? [] : [[last.hash, last] as const])];
    const isCounted = (hash: Hash): boolean => hash !== last?.hash;
    const results = await Promise.all(
      nodes.map(([hash, node]) => this.#put(hash, node, leaseDurationMs, isCounted(hash))),
    );
    const waiting = results.filter(({ state }) => state !== 'ready').map(({ hash }) => hash);
    const leased = await this.#leaseAgain(waiting, leaseDurationMs);
    const settled = results.map((result) => leased.get(result.hash) ?? result);
    return { last: last && settled.at(-1), unready: settled.filter(({ state }) => state !== 'ready') };
  }

  async #put(hash: Hash, node: NewNode, leaseDurationMs: number, isCounted = true): Promise<PutResult> {
    const { contentType, refs = [], content } = node;
    const result = await this.#client.putNode(node, { leaseDurationMs, signal: this.#options.signal });
    if (result.uploaded && isCounted) {
      const size = (content as Uint8Array).length;
      this.sentNodes += 1;
      this.sentBytes += encodeNodeHeader({ contentType, refs, size }).length + size;
    }
    this.#sent.add(hash);
    return result;
  }

  /** Again while some become ready: a child whose answer came late stands behind its parent here. */
  async #leaseAgain(hashes: readonly Hash[], leaseDurationMs: number): Promise<ReadonlyMap<Hash, PutResult>> {
    const leased = new Map<Hash, PutResult>();
    let waiting = hashes;
    for (let before = waiting.length + 1; waiting.length < before; ) {
      before = waiting.length;
      for (const hash of waiting) {
        const lease = await this.#client.leaseNode(hash, { leaseDurationMs }, this.#options);
        if (lease.state === 'ready' || lease.state === 'validated_awaiting_children')
          leased.set(hash, { ...lease, uploaded: false });
      }
      waiting = waiting.filter((hash) => leased.get(hash)?.state !== 'ready');
    }
    return leased;
  }
}
