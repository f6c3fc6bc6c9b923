/** Calls of `getNode` that are made while others are under way: their nodes are read together. */

import type { Hash } from '@holdfast/protocol';
import { abortable } from '../deadline.ts';
import { CasError, isConnectionBreak, VerificationError } from '../errors.ts';
import type { VerifiedNode } from '../verified-read.ts';
import type { Bulk } from './bulk.ts';
import { ReadBatches } from './read-batches.ts';
import type { BulkNode } from './read-nodes.ts';

const STATUSES_OF_ALL: ReadonlySet<number> = new Set([
  401, // the capability is over
  403, // it does not permit this
]);

/** Whether every node would fail with this by itself too: no connection, token or permission, or a server that asks all to wait. */
export function isSharedFailure(error: unknown): boolean {
  if (!(error instanceof CasError)) return true;
  if (isConnectionBreak(error) || error.code === 'TOKEN_UNAVAILABLE') return true;
  const { status } = error;
  return status !== undefined && (STATUSES_OF_ALL.has(status) || error.retryAfterMs !== undefined);
}

export class JoinedReads {
  readonly #bulk: Bulk;
  #group: { readonly batches: ReadBatches; readonly ending: AbortController; waiters: number } | undefined;

  constructor(bulk: Bulk) {
    this.#bulk = bulk;
  }

  /** Undefined where the node has to be read by itself. Rejects with CasError, or the reason of the signal. */
  async read(hash: Hash, signal: AbortSignal | undefined): Promise<VerifiedNode | undefined> {
    if (!this.#bulk.isOffered) return undefined;
    this.#group ??= this.#makeGroup();
    const group = this.#group;
    group.waiters += 1;
    try {
      const node = await abortable(group.batches.read(hash), signal);
      return node && toVerified(node);
    } catch (error) {
      if (signal?.aborted || isSharedFailure(error) || error instanceof VerificationError) throw error;
      return undefined;
    } finally {
      group.waiters -= 1;
      if (group.waiters === 0) {
        // Nobody waits: what is still on its way is given up.
        group.ending.abort(new Error('every call that waited for this was given up'));
        if (this.#group === group) this.#group = undefined;
      }
    }
  }

  #makeGroup() {
    const ending = new AbortController();
    const batches = new ReadBatches({
      bulk: this.#bulk,
      // The client sends each request as often as its policy says.
      send: (_what, request) => request(),
      signal: ending.signal,
      onNode: () => undefined,
    });
    return { batches, ending, waiters: 0 };
  }
}

/** A copy where the content is a view of an answer, which would stay in memory with it. */
export function toVerified({ hash, contentType, refs, content }: BulkNode): VerifiedNode {
  const isView = content.length !== content.buffer.byteLength;
  const metadata = { hash, size: content.length, contentType, refs };
  return { metadata, content: isView ? new Uint8Array(content) : content };
}
