/** Files that come to a door: small ones in memory, others stored on the way. Either is what an edit sets. */
import {
  CHUNK_BYTES_MIN,
  type Client,
  createNodeSource,
  editTree,
  FILE_CONTENT_TYPE,
  type Hash,
  hashNode,
  openTree,
  Semaphore,
  type TreeItem,
} from '@holdfast/client/internal';
import { LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import { toStream } from './received-body.ts';

export type ReceivedValue = { readonly bytes: Uint8Array } | { readonly node: TreeItem };

const PATH = 'file';

/** What is not small waits for others, so that memory stays bounded. `length`: undefined where nobody knows. */
export function isSmall(length: number | string | undefined): boolean {
  return Number(length) <= CHUNK_BYTES_MIN;
}

/** Until the whole body is here, and for its commit. No longer than needed, because what is evicted soon is then freed soon. */
export function findLeaseMs(length = Number.POSITIVE_INFINITY): number {
  // A body of less than 32 bytes a millisecond may lose to a collection what it has stored.
  return Math.min(LEASE_DURATION_MS_MAX, LEASE_DURATION_MS_MIN + Math.ceil(length / 32));
}

export class ReceivedValues {
  readonly #client: Client;
  // One file is stored at a time. Each is on its way with some MiB, of which two took 190 MiB and more.
  readonly #large = new Semaphore(1);

  constructor(client: Client) {
    this.#client = client;
  }

  async take(
    chunks: AsyncGenerator<Uint8Array, void, undefined>,
    length: number | undefined,
  ): Promise<ReceivedValue> {
    if (length !== undefined && isSmall(length)) return { bytes: await readWhole(chunks, length) };
    const release = await this.#large.take();
    const leaseDurationMs = findLeaseMs(length);
    const edits = [{ op: 'set', path: PATH, bytes: toStream(chunks) } as const];
    const { root } = await editTree(this.#client, undefined, edits, { leaseDurationMs }).finally(release);
    const tree = openTree(createNodeSource(this.#client));
    return { node: await tree.resolvePath(root, [new TextEncoder().encode(PATH)]) };
  }
}

/** Each piece is copied as it comes, so that no body is in memory twice. */
async function readWhole(
  chunks: AsyncGenerator<Uint8Array, void, undefined>,
  length: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes.subarray(0, at);
}

/** Of the file that it becomes. */
export async function hashValue(value: ReceivedValue): Promise<Hash> {
  return 'node' in value
    ? value.node.hash
    : hashNode({ contentType: FILE_CONTENT_TYPE, content: value.bytes });
}

/** In memory until the commit. */
export function weighValue(value: ReceivedValue): number {
  return 'node' in value ? 0 : value.bytes.length;
}
