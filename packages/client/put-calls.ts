/** `putNode` and `putNodes`: single calls that overlap travel together where the server has Bulk. */
import { type CheckedCall, checkIterable, checkLeaseDuration, checkOptions, isBlob } from './arguments.ts';
import type { Bulk } from './bulk/bulk.ts';
import { JoinedPuts } from './bulk/joined-puts.ts';
import { abortable, type Clock } from './deadline.ts';
import { digestBySize, type NodeDigest } from './digest.ts';
import { LEASE_DURATION_MS_DEFAULT, PUT_BYTES_IN_MEMORY_MAX } from './limits.ts';
import { checkNode, encodeNewNode, type HashedNode, type NewNode } from './new-node.ts';
import type { PutOptions, PutResult } from './put-node.ts';
import { Semaphore } from './semaphore.ts';

const PUT_NODE: CheckedCall = { name: 'putNode', requestOperation: 'uploadNode' };
const NO_BYTES = new Uint8Array();
const PUT_NODES: CheckedCall = { name: 'putNodes', requestOperation: 'uploadNode' };

export type PutSingly = (
  node: HashedNode,
  options: PutOptions & { readonly leaseDurationMs: number },
) => Promise<PutResult>;

export class PutCalls {
  readonly #putSingly: PutSingly;
  readonly #joined: JoinedPuts;
  readonly #digest: NodeDigest;
  /** contents of Blobs, which are in no memory before */
  readonly #blobs = new Semaphore(PUT_BYTES_IN_MEMORY_MAX);
  // Overlapping calls of `putNode` put 32 nodes at a time by themselves, where they cannot travel together.
  readonly #singles = new Semaphore(32);
  #active = 0;
  #hashing = 0;

  constructor(putSingly: PutSingly, bulk: Bulk, clock: Clock) {
    this.#putSingly = putSingly;
    this.#digest = digestBySize(bulk.digest);
    this.#joined = new JoinedPuts({ bulk, clock, isMoreComing: () => this.#hashing > 0 });
  }

  async put(node: NewNode, options: PutOptions = {}): Promise<PutResult> {
    checkNode(PUT_NODE, node);
    const checked = checkPutOptions(PUT_NODE, options);
    const { signal } = checked;
    signal?.throwIfAborted();
    this.#active += 1;
    let release: (() => void) | undefined;
    try {
      if (isBlob(node.content)) release = await this.#blobs.take(node.content.size, signal);
      const hashed = await this.#hash(node, signal);
      // A call that overlaps with no other takes the three requests that it takes in packs too.
      const joined = this.#active > 1 ? await this.#joined.put(hashed, checked) : undefined;
      if (joined?.result !== undefined) return joined.result;
      const single = await this.#putAlone(hashed, checked);
      return joined?.uploaded ? { ...single, uploaded: true } : single;
    } finally {
      release?.();
      this.#active -= 1;
    }
  }

  async #hash(node: NewNode, signal: AbortSignal | undefined): Promise<HashedNode> {
    const bytes = await abortable(encodeNewNode(PUT_NODE, node), signal);
    this.#hashing += 1;
    try {
      return { hash: await this.#digest(bytes, NO_BYTES), bytes, refCount: node.refs?.length ?? 0 };
    } finally {
      this.#hashing -= 1;
      if (this.#hashing === 0) this.#joined.sendSoon();
    }
  }

  async #putAlone(
    node: HashedNode,
    options: PutOptions & { readonly leaseDurationMs: number },
  ): Promise<PutResult> {
    const done = await this.#singles.take(1, options.signal);
    try {
      return await this.#putSingly(node, options);
    } finally {
      done();
    }
  }
}

/**
 * Puts every node by `put`, many at once, in bounded memory. All are tried; then it rejects with the first failure, in their order.
 */
export async function putNodes(
  put: (node: NewNode, options: PutOptions) => Promise<PutResult>,
  nodes: Iterable<NewNode> | AsyncIterable<NewNode>,
  options: PutOptions = {},
): Promise<readonly PutResult[]> {
  checkIterable(PUT_NODES, 'nodes', nodes);
  const { signal } = checkPutOptions(PUT_NODES, options);
  const memory = new Semaphore(PUT_BYTES_IN_MEMORY_MAX);
  // The nodes of a request for leases, and as many in packs meanwhile.
  const calls = new Semaphore(8_192);
  const results: (PutResult | undefined)[] = [];
  const failures = new Map<number, unknown>();
  const running = new Set<Promise<void>>();
  let count = 0;
  for await (const node of nodes) {
    const index = count;
    count += 1;
    try {
      checkNode({ ...PUT_NODES, name: `putNodes, node ${index}` }, node);
    } catch (error) {
      failures.set(index, error);
      continue;
    }
    const releases = [await calls.take(1, signal), await memory.take(sizeOf(node), signal)];
    const work = put(node, options)
      .then(
        (result) => {
          results[index] = result;
        },
        (error: unknown) => {
          failures.set(index, error);
        },
      )
      .finally(() => {
        running.delete(work);
        for (const release of releases) release();
      });
    running.add(work);
  }
  await Promise.all(running);
  signal?.throwIfAborted();
  if (failures.size > 0) throw failures.get(Math.min(...failures.keys()));
  return results as PutResult[];
}

function checkPutOptions<Options extends PutOptions>(call: CheckedCall, options: Options) {
  checkOptions(call, options);
  const { leaseDurationMs = LEASE_DURATION_MS_DEFAULT, signal } = options;
  checkLeaseDuration(call, leaseDurationMs);
  return { leaseDurationMs, signal };
}

/** Bytes in memory, about. */
function sizeOf({ content }: NewNode): number {
  if (typeof content === 'string') return content.length;
  return isBlob(content) ? 0 : content.byteLength;
}
