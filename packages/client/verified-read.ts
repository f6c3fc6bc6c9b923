/** Reads that prove what they return: metadata and content are put together again and must hash to the name asked for. */
import {
  bytesToHash,
  encodeNodeHeader,
  type Hash,
  type NodeDescription,
  NodeFormatError,
  type NodeMetadata,
  type NodeState,
} from '@holdfast/protocol';
import type { NodeContent } from './content.ts';
import { hashCanonicalBytes } from './digest.ts';
import { CasError, isConnectionBreak, VerificationError } from './errors.ts';
import type { CallOptions, Operations } from './operations.ts';
import type { RetryPolicy } from './retry.ts';
import type { Sha256 } from './sha256.ts';

/** A node whose bytes were verified against its hash. */
export interface VerifiedNode {
  readonly metadata: NodeMetadata;
  /** The server's word: no hash covers it. Absent where the node came in one request with others; `readMetadata` tells it. */
  readonly state?: NodeState;
  readonly content: Uint8Array;
}

/** As VerifiedNode, with the content still to come. */
export interface OpenNode {
  readonly metadata: NodeMetadata;
  readonly state: NodeState;
  /**
   * The content. Chunks arrive before the whole is verified, but the last one only after: a stream that ends well was
   * verified, one that does not match errors with VerificationError before its end. Cancel it to stop early.
   */
  readonly body: ReadableStream<Uint8Array>;
}

export interface ReadSettings {
  readonly retry: RetryPolicy;
  readonly createSha256: () => Sha256;
  /** the largest content `getNode` takes into memory, bytes */
  readonly contentBytesMax: number;
}

/** The whole node in memory. Throws VerificationError, RESPONSE_TOO_LARGE, and what reading throws. */
export async function getNode(
  operations: Operations,
  settings: ReadSettings,
  hash: Hash,
  options: CallOptions = {},
): Promise<VerifiedNode> {
  const { metadata, state, header } = await describeNode(operations, hash, options);
  if (metadata.size > settings.contentBytesMax) {
    throw new CasError(
      `getNode: the content has ${metadata.size} bytes, the limit is ${settings.contentBytesMax}; stream it by openNode`,
      { code: 'RESPONSE_TOO_LARGE', requestOperation: 'readContent' },
    );
  }
  const canonical = new Uint8Array(header.length + metadata.size);
  canonical.set(header);
  let offset = header.length;
  const source = new ContentSource(operations, settings.retry, metadata, options);
  for (let chunk = await source.next(); chunk !== undefined; chunk = await source.next()) {
    canonical.set(chunk, offset);
    offset += chunk.length;
  }
  checkDigest(await hashCanonicalBytes(canonical), hash);
  return { metadata, state, content: canonical.subarray(header.length) };
}

/** Opens the node as a verified stream. Memory: two chunks, whatever the size. */
export async function openNode(
  operations: Operations,
  settings: ReadSettings,
  hash: Hash,
  options: CallOptions = {},
): Promise<OpenNode> {
  const { metadata, state, header } = await describeNode(operations, hash, options);
  const sha256 = settings.createSha256();
  sha256.update(header);
  const source = new ContentSource(operations, settings.retry, metadata, options);
  // The newest chunk waits here until the next one, or the verified end, has come.
  let held: Uint8Array | undefined;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const chunk = await source.next();
          const previous = held;
          held = chunk;
          if (chunk === undefined) {
            checkDigest(bytesToHash(sha256.digest()), hash);
            if (previous !== undefined) controller.enqueue(previous);
            controller.close();
            return;
          }
          sha256.update(chunk);
          if (previous !== undefined) return controller.enqueue(previous);
        }
      },
      cancel: () => source.cancel(),
    },
    { highWaterMark: 0 },
  );
  return { metadata, state, body };
}

async function describeNode(
  operations: Operations,
  hash: Hash,
  options: CallOptions,
): Promise<NodeDescription & { readonly header: Uint8Array }> {
  const description = await operations.readMetadata(hash, options);
  const { metadata } = description;
  if (metadata.hash !== hash)
    throw new VerificationError(`${hash}: the server described another node`, 'readMetadata');
  try {
    return { ...description, header: encodeNodeHeader(metadata) };
  } catch (error) {
    if (!(error instanceof NodeFormatError)) throw error;
    throw new VerificationError(
      `${hash}: no node can have the metadata that came: ${error.message}`,
      'readMetadata',
    );
  }
}

/** Throws VerificationError unless what came is what was asked for. */
export function checkDigest(actual: Hash, expected: Hash): void {
  if (actual === expected) return;
  const message = `${expected}: what came hashes to ${actual}; do not use it, and have the node put again`;
  throw new VerificationError(message, 'readContent');
}

/**
 * The bytes of one node's content. A connection that breaks is taken up again where it broke: content never changes, and
 * the hash over all of it is checked in the end.
 */
class ContentSource {
  readonly #operations: Operations;
  readonly #retry: RetryPolicy;
  readonly #metadata: NodeMetadata;
  readonly #options: CallOptions;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #received = 0;
  /** Breaks in a row that brought too little to count as progress. */
  #breaks = 0;
  /** Bytes since the last break. */
  #broughtBytes = 0;

  constructor(operations: Operations, retry: RetryPolicy, metadata: NodeMetadata, options: CallOptions) {
    this.#operations = operations;
    this.#retry = retry;
    this.#metadata = metadata;
    this.#options = options;
  }

  /** The next chunk, never empty; undefined after exactly `size` bytes. */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#received === this.#metadata.size && this.#reader === undefined && this.#received > 0)
        return undefined;
      this.#reader ??= await this.#open();
      try {
        const { done, value } = await this.#reader.read();
        if (done) return undefined;
        if (value.length === 0) continue;
        this.#received += value.length;
        this.#broughtBytes += value.length;
        return value;
      } catch (error) {
        this.#reader = undefined;
        // A server that sends a byte and breaks off would keep its reader forever: a break after less than this is an attempt.
        const enough = Math.min(64 * 1024, this.#metadata.size / 16);
        this.#breaks = this.#broughtBytes > 0 && this.#broughtBytes >= enough ? 1 : this.#breaks + 1;
        this.#broughtBytes = 0;
        if (!isConnectionBreak(error) || this.#breaks >= this.#retry.attemptsMax) throw error;
      }
    }
  }

  async cancel(): Promise<void> {
    await this.#reader?.cancel();
  }

  async #open(): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const { hash, size } = this.#metadata;
    const range = this.#received === 0 ? undefined : { first: this.#received };
    const content: NodeContent = await this.#operations.readContent(hash, { ...this.#options, range });
    if (content.size !== size) {
      await content.body.cancel();
      const message = `${hash}: the metadata says ${size} bytes, the content has ${content.size}; do not use it`;
      throw new VerificationError(message, 'readContent');
    }
    return content.body.getReader();
  }
}
