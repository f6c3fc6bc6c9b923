/** A node as a caller gives it: checked, made canonical, hashed. */
import { encodeNode, type Hash, NODE_REFS_MAX, NodeFormatError } from '@holdfast/protocol';
import {
  type CheckedCall,
  checkHashes,
  checkObject,
  describeValue,
  invalidArgument,
  isBlob,
  isBytes,
} from './arguments.ts';
import { hashCanonicalBytes } from './digest.ts';

export interface NewNode {
  /** 1 to 1024 characters from 0x20 to 0x7e; part of the node's identity, exactly as given */
  readonly contentType: string;
  /** children in order; duplicates count; 256 at most. None when left out. */
  readonly refs?: readonly Hash[] | undefined;
  /** A string is stored as UTF-8. Held in memory, as its canonical bytes are. */
  readonly content: Uint8Array | Blob | string;
}

export interface HashedNode {
  readonly hash: Hash;
  /** canonical */
  readonly bytes: Uint8Array;
  readonly refCount: number;
}

/**
 * The hash that the node has in every Space, without a request. Rejects with CasError INVALID_ARGUMENT where the parts make no node.
 */
export async function hashNode(node: NewNode): Promise<Hash> {
  const call = { name: 'hashNode', requestOperation: 'uploadNode' } as const;
  checkNode(call, node);
  return hashCanonicalBytes(await encodeNewNode(call, node));
}

/** Throws CasError INVALID_ARGUMENT for what has the wrong type. `encodeNewNode` judges the rest. */
export function checkNode(call: CheckedCall, node: NewNode): void {
  checkObject(call, 'the node', node);
  const { contentType, refs, content } = node;
  if (typeof contentType !== 'string') {
    throw invalidArgument(call, `contentType must be a string; it is ${describeValue(contentType)}`);
  }
  if (refs !== undefined) checkRefs(call, refs);
  if (typeof content === 'string' || isBytes(content) || isBlob(content)) return;
  const found = describeValue(content);
  throw invalidArgument(call, `content must be a Uint8Array, a Blob or a string; it is ${found}`);
}

function checkRefs(call: CheckedCall, refs: unknown): void {
  if (Array.isArray(refs) && refs.length > NODE_REFS_MAX) {
    throw invalidArgument(
      call,
      `a node has at most ${NODE_REFS_MAX} refs, not ${refs.length}; put nodes between that refer to ${NODE_REFS_MAX} each`,
    );
  }
  checkHashes(call, 'refs', refs);
}

/** Bytes at hand are taken over before the first await: what the caller changes later does not count. */
export async function encodeNewNode(call: CheckedCall, node: NewNode): Promise<Uint8Array> {
  const { contentType, refs = [], content } = node;
  const bytes = isBlob(content) ? await readBlob(call, content) : toBytes(call, content);
  try {
    return encodeNode({ contentType, refs, content: bytes });
  } catch (cause) {
    if (!(cause instanceof NodeFormatError)) throw cause;
    throw invalidArgument(call, cause.message, cause);
  }
}

/** A File whose file went away or changed cannot be read. */
async function readBlob(call: CheckedCall, blob: Blob): Promise<Uint8Array> {
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch (cause) {
    throw invalidArgument(
      call,
      `content cannot be read: ${cause instanceof Error ? cause.message : 'it failed'}`,
      cause,
    );
  }
}

function toBytes(call: CheckedCall, content: Uint8Array | string): Uint8Array {
  if (typeof content !== 'string') return content;
  // TextEncoder would quietly store something else.
  if (!content.isWellFormed())
    throw invalidArgument(call, 'the text has half of a surrogate pair, which UTF-8 cannot hold');
  return new TextEncoder().encode(content);
}
