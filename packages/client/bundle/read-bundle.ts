/** Reading a CAR version 1 block by block, each verified against its CID and parsed as a canonical node. */

import {
  decodeNode,
  type Hash,
  NODE_BYTES_MAX_DEFAULT,
  NodeFormatError,
  refsToHashes,
} from '@holdfast/protocol';
import { checkMethod } from '../arguments.ts';
import { hashCanonicalBytes } from '../digest.ts';
import { CAR_HEADER_BYTES_MAX, parseCarHeader } from './car-header.ts';
import { BundleError, CID_BYTES, parseCid } from './cid.ts';
import { VarintParser } from './varint.ts';

/** A node of a bundle, verified: `bytes` hash to `hash` and are a canonical node. */
export interface BundleNode {
  readonly hash: Hash;
  readonly contentType: string;
  /** ordered, duplicates kept */
  readonly refs: readonly Hash[];
  /** a view of `bytes` */
  readonly content: Uint8Array;
  /** the canonical bytes */
  readonly bytes: Uint8Array;
}

export interface BundleReader {
  readonly roots: readonly Hash[];
  /** The nodes in the order of the file; reads no further than it is asked. Throws BundleError. */
  readonly nodes: AsyncGenerator<BundleNode, void, undefined>;
  position(): number;
}

export interface ReadBundleOptions {
  /** the largest canonical node that is taken into memory, bytes; 64 MiB when left out */
  readonly nodeBytesMax?: number | undefined;
}

/** Reads the header. Memory from then on: one node and one chunk. Throws BundleError, and what the stream throws. */
export async function readBundle(
  stream: ReadableStream<Uint8Array>,
  options: ReadBundleOptions = {},
): Promise<BundleReader> {
  const call = { name: 'readBundle', requestOperation: 'leaseNode' } as const;
  checkMethod(call, 'the bundle', stream, 'getReader');
  const source = new ByteSource(stream);
  try {
    const roots = parseCarHeader(await readHeader(source));
    const nodes = readNodes(source, options.nodeBytesMax ?? NODE_BYTES_MAX_DEFAULT);
    return { roots, nodes, position: () => source.position };
  } catch (error) {
    await source.cancel();
    throw error;
  }
}

async function readHeader(source: ByteSource): Promise<Uint8Array> {
  const length = await readLength(source, 'the header');
  if (length === undefined) throw new BundleError('the file is empty; make the bundle again');
  if (length > CAR_HEADER_BYTES_MAX) {
    throw new BundleError(
      `the file begins with a header of ${length} bytes, more than any bundle has; check that it is a CAR`,
    );
  }
  return (await source.findBytes(length)) ?? fail(cutOff('its header', source));
}

async function* readNodes(
  source: ByteSource,
  nodeBytesMax: number,
): AsyncGenerator<BundleNode, void, undefined> {
  try {
    for (let number = 1; ; number += 1) {
      const where = `block ${number} (byte ${source.position})`;
      const length = await readLength(source, where);
      if (length === undefined) return;
      if (length <= CID_BYTES) {
        // Shorter than any CID we know of; its own bytes may still tell what it is.
        parseCid((await source.findBytes(length)) ?? fail(cutOff(where, source)), where);
        throw new BundleError(`${where}: it has no bytes; make the bundle again`);
      }
      const cid = (await source.findBytes(CID_BYTES)) ?? fail(cutOff(where, source));
      const hash = parseCid(cid, where);
      const size = length - CID_BYTES;
      if (size > nodeBytesMax) {
        throw new BundleError(
          `${where}: it says ${size} bytes, nodes have at most ${nodeBytesMax}; raise the limit if your server takes more`,
        );
      }
      const bytes = (await source.findBytes(size)) ?? fail(cutOff(where, source));
      yield await verifyNode(hash, bytes, where);
    }
  } finally {
    await source.cancel();
  }
}

async function verifyNode(hash: Hash, bytes: Uint8Array, where: string): Promise<BundleNode> {
  const actual = await hashCanonicalBytes(bytes);
  if (actual !== hash) {
    throw new BundleError(
      `${where}: its bytes hash to ${actual}, not to ${hash} as its CID says; the file is damaged, copy it again`,
    );
  }
  try {
    const { contentType, refs, content } = decodeNode(bytes);
    return { hash, contentType, refs: refsToHashes(refs), content, bytes };
  } catch (error) {
    if (!(error instanceof NodeFormatError)) throw error;
    throw new BundleError(
      `${where}: ${hash} is no canonical node (${error.message}); only bundles of this API can be imported`,
    );
  }
}

/** The length before the header or a block; undefined when the file ends just there. */
async function readLength(source: ByteSource, where: string): Promise<number | undefined> {
  const parser = new VarintParser();
  for (;;) {
    const byte = await source.findByte();
    if (byte === undefined && parser.byteCount === 0) return undefined;
    if (byte === undefined) throw cutOff(where, source);
    let length: number | undefined;
    try {
      length = parser.push(byte);
    } catch (error) {
      const reason = error instanceof RangeError ? error.message : String(error);
      throw new BundleError(`${where}: ${reason}; the file is damaged or no CAR, make or copy it again`);
    }
    if (length !== undefined) return length;
  }
}

function cutOff(where: string, source: ByteSource): BundleError {
  return new BundleError(
    `the bundle is cut off after ${source.position} bytes, inside ${where}; make or copy it again`,
  );
}

function fail(error: Error): never {
  throw error;
}

/** Exact reads over a stream of chunks of any size. It holds one chunk and the bytes of the present read. */
class ByteSource {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #chunk: Uint8Array = new Uint8Array(0);
  #offset = 0;
  #position = 0;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position;
  }

  async findByte(): Promise<number | undefined> {
    if (!(await this.#fill())) return undefined;
    this.#position += 1;
    const byte = this.#chunk[this.#offset];
    this.#offset += 1;
    return byte;
  }

  /** The next `length` bytes in memory of their own; undefined when the stream ends before. The caller bounds `length`. */
  async findBytes(length: number): Promise<Uint8Array | undefined> {
    const bytes = new Uint8Array(length);
    let taken = 0;
    while (taken < length) {
      if (!(await this.#fill())) return undefined;
      const end = Math.min(this.#chunk.length, this.#offset + length - taken);
      bytes.set(this.#chunk.subarray(this.#offset, end), taken);
      taken += end - this.#offset;
      this.#position += end - this.#offset;
      this.#offset = end;
    }
    return bytes;
  }

  /** Gives up the rest. */
  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }

  /** Makes sure that a byte is at hand; false at the end. */
  async #fill(): Promise<boolean> {
    while (this.#offset >= this.#chunk.length) {
      const { done, value } = await this.#reader.read();
      if (done) return false;
      this.#chunk = value;
      this.#offset = 0;
    }
    return true;
  }
}
