/** Verified reads that take one request for a node without children: the answer with its content says all, and the hash proves it. */
import { encodeNodeHeader, type Hash, NodeFormatError } from '@holdfast/protocol';
import type { Client } from './client.ts';
import type { ContentMemory, NodeContent } from './content.ts';
import { digestNode, type NodeDigest } from './digest.ts';
import { isConnectionBreak, VerificationError } from './errors.ts';
import type { CallOptions } from './operations.ts';
import { checkDigest } from './verified-read.ts';

export interface LeafFirstNode {
  readonly contentType: string;
  readonly refs: readonly Hash[];
  readonly content: Uint8Array;
  /** the canonical bytes before the content */
  readonly header: Uint8Array;
}

export interface LeafFirstOptions extends CallOptions {
  /** WebCrypto, or the built-in SHA-256, when left out. */
  readonly digest?: NodeDigest | undefined;
  /** The node will have refs: the metadata is asked for beside the content, not after it. */
  readonly expectsRefs?: boolean | undefined;
  /** Gives memory for the content, and takes back the pieces of the body once they are copied. */
  readonly memory?: ContentMemory | undefined;
}

type ReadingClient = Pick<Client, 'readContent' | 'readMetadata' | 'getNode'>;

/** The node, verified; undefined, unread, when its content has more than `contentBytesMax` bytes. Throws CasError, VerificationError. */
export async function findNodeUpTo(
  client: ReadingClient,
  hash: Hash,
  contentBytesMax: number,
  options: LeafFirstOptions = {},
): Promise<LeafFirstNode | undefined> {
  const { digest = digestNode, signal } = options;
  const describing = options.expectsRefs === true ? client.readMetadata(hash, { signal }) : undefined;
  // The metadata is awaited below. If the content fails first, its error is the one that is thrown.
  describing?.catch(() => undefined);
  const answer = await client.readContent(hash, { signal });
  const { contentType, size } = answer;
  if (size > contentBytesMax) {
    await answer.body.cancel();
    return undefined;
  }
  const content = await findBytes(answer, options.memory);
  if (content === undefined) {
    // The connection broke: the SDK's whole read takes it up again.
    const node = await client.getNode(hash, { signal });
    return { ...node.metadata, content: node.content, header: encodeNodeHeader(node.metadata) };
  }
  if (describing === undefined) {
    const leaf = encodeHeader(hash, { contentType, refs: [], size });
    if ((await digest(leaf, content)) === hash) return { contentType, refs: [], content, header: leaf };
  }
  const { metadata } = await (describing ?? client.readMetadata(hash, { signal }));
  const header = encodeHeader(hash, { contentType: metadata.contentType, refs: metadata.refs, size });
  checkDigest(await digest(header, content), hash);
  return { contentType: metadata.contentType, refs: metadata.refs, content, header };
}

function encodeHeader(hash: Hash, node: Parameters<typeof encodeNodeHeader>[0]): Uint8Array {
  try {
    return encodeNodeHeader(node);
  } catch (error) {
    if (!(error instanceof NodeFormatError)) throw error;
    throw new VerificationError(`${hash}: no node can be what came: ${error.message}`, 'readContent');
  }
}

/** Undefined when the connection broke. */
async function findBytes(
  content: NodeContent,
  memory: ContentMemory | undefined,
): Promise<Uint8Array | undefined> {
  try {
    return await content.bytes(memory);
  } catch (error) {
    if (isConnectionBreak(error)) return undefined;
    throw error;
  }
}
