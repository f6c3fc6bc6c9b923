/** Nodes and all below them from one Space to another. Leaves out whole subtrees that the other has: a ready node has all below it. */
import {
  BULK_HASHES_MAX,
  concatBytes,
  decodeNode,
  HASH_TABLE_MAX,
  type Hash,
  HashTable,
  LEASE_DURATION_MS_MAX,
  MIB_BYTES,
  NODE_BYTES_MAX_DEFAULT,
  refsToHashes,
} from '@holdfast/protocol';
import { isBulkUnavailable } from '../bulk/send-request.ts';
import type { Client } from '../client.ts';
import { findReady } from '../find-ready.ts';
import { mapInOrder } from '../map-in-order.ts';
import type { CallOptions } from '../operations.ts';
import { BundleError } from './cid.ts';
import { type LoadedNode, type LoadOptions, readLargeNode } from './load-node.ts';
import type { BundleNode } from './read-bundle.ts';
import { type ImportProgress, Storing } from './storing.ts';
import { walkChildrenFirst } from './walk-children-first.ts';

/** Reading failed; `cause` says why. Any other error is one of the target. */
export class CopySourceError extends Error {
  override readonly name = 'CopySourceError';
}

export interface CopyOptions extends LoadOptions {
  /** Called after each node with the totals so far. */
  readonly onNode?: ((progress: ImportProgress) => void) | undefined;
  /** Takes the canonical bytes of a node that nobody looks at any more. */
  readonly release?: ((bytes: Uint8Array) => void) | undefined;
}

/** Stores what `target` lacks of `root`, children first, leased for 24 h; called again it goes on. Throws CopySourceError, CasError. */
export async function copyNodes(
  source: Client,
  target: Client,
  root: Hash,
  options: CopyOptions = {},
): Promise<ImportProgress> {
  const there = new TargetNodes(target, options);
  // Room for one pack that is sent and one that is filled: beside the source's answers, more makes a process of over 200 MiB.
  const storingOptions = { memoryBytesMax: 16 * MIB_BYTES, ...options };
  const storing = new Storing(target, { roots: [root], position: () => 0 }, storingOptions, false);
  const walk = walkChildrenFirst(source, [root], { ...options, skip: there.findReady });
  const readNext = async (): Promise<BundleNode | undefined> => {
    try {
      const { done, value } = await walk.next();
      return done === true ? undefined : await toWhole(source, value, options);
    } catch (error) {
      if (error === there.failure || options.signal?.aborted) throw error;
      throw new CopySourceError('the source cannot be read', { cause: error });
    }
  };
  try {
    for (let node = await readNext(); node !== undefined; node = await readNext()) await storing.begin(node);
  } catch (error) {
    // Nodes that are on their way arrive: the next try then need not send them again.
    await storing.end().catch(() => undefined);
    throw error;
  }
  return storing.end();
}

async function toWhole(
  source: Client,
  { hash, bytes: held, canonicalSize }: LoadedNode,
  { signal }: CallOptions,
): Promise<BundleNode> {
  if (canonicalSize > NODE_BYTES_MAX_DEFAULT) {
    throw new BundleError(`${hash}: it has ${canonicalSize} bytes, more than ${NODE_BYTES_MAX_DEFAULT}`);
  }
  const pieces: Uint8Array[] = [];
  // Node 20 has no Array.fromAsync.
  if (held === undefined)
    for await (const piece of readLargeNode(source, hash, { signal })) pieces.push(piece);
  const bytes = held ?? concatBytes(pieces);
  const { contentType, refs, content } = decodeNode(bytes);
  return { hash, contentType, refs: refsToHashes(refs), content, bytes };
}

/** Knows what the target has. Asks about each node once, by its lease. */
class TargetNodes {
  /** what asking failed with */
  failure: unknown;
  readonly #client: Client;
  readonly #options: CallOptions;
  readonly #asked = new HashTable();

  constructor(client: Client, { signal }: CallOptions) {
    this.#client = client;
    this.#options = { signal };
  }

  findReady = async (hashes: readonly Hash[], upcoming: () => readonly Hash[]): Promise<readonly Hash[]> => {
    const isNew = (hash: Hash): boolean => !this.#asked.has(hash);
    if (!hashes.some(isNew)) return [];
    const asking = [...new Set([...hashes, ...upcoming()])].filter(isNew).slice(0, BULK_HASHES_MAX);
    for (const hash of asking) if (this.#asked.size < HASH_TABLE_MAX) this.#asked.add(hash);
    try {
      return (await this.#findInBulk(asking)) ?? (await this.#findSingly(asking));
    } catch (error) {
      this.failure = error;
      throw error;
    }
  };

  async #findInBulk(hashes: readonly Hash[]): Promise<readonly Hash[] | undefined> {
    if (!this.#client.bulk.isOffered) return undefined;
    try {
      const lease = { leaseDurationMs: LEASE_DURATION_MS_MAX };
      const { results } = await this.#client.bulk.leaseNodes(hashes, lease, this.#options);
      return results.filter(({ state }) => state === 'ready').map(({ hash }) => hash);
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  /** Asks without a lease first: a lease of a node that is missing would open an upload. */
  async #findSingly(hashes: readonly Hash[]): Promise<readonly Hash[]> {
    const ready: Hash[] = [];
    const answers = mapInOrder(hashes, 8, async (hash) => {
      if ((await findReady(this.#client, hash, this.#options)) === undefined) return undefined;
      const lease = { leaseDurationMs: LEASE_DURATION_MS_MAX };
      const { state } = await this.#client.leaseNode(hash, lease, this.#options);
      return state === 'ready' ? hash : undefined;
    });
    for await (const hash of answers) if (hash !== undefined) ready.push(hash);
    return ready;
  }
}
