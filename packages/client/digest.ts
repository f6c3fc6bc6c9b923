/** SHA-256 of bytes that are in memory. */
import { bytesToHash, concatBytes, type Hash } from '@holdfast/protocol';
import { createSha256 } from './sha256.ts';

/** The SHA-256 of both pieces, one after the other. A synchronous digest of the runtime makes work on many nodes much faster. */
export type NodeDigest = (header: Uint8Array, content: Uint8Array) => Hash | Promise<Hash>;

/** By the runtime where it can (many times faster); pages without a secure context have no `crypto.subtle`. */
export async function hashCanonicalBytes(bytes: Uint8Array): Promise<Hash> {
  const subtle: SubtleCrypto | undefined = globalThis.crypto?.subtle;
  if (subtle !== undefined) {
    return bytesToHash(new Uint8Array(await subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>)));
  }
  const sha256 = createSha256();
  sha256.update(bytes);
  return bytesToHash(sha256.digest());
}

/** By `digest` where a node is small, else by the runtime on another thread. */
export function digestBySize(digest: NodeDigest | undefined): NodeDigest {
  return (header, content) =>
    // Another thread costs more than it takes off this one.
    digest !== undefined && header.length + content.length <= 64 * 1024
      ? digest(header, content)
      : digestNode(header, content);
}

/** `hashCanonicalBytes` of both pieces, one after the other. */
export async function digestNode(header: Uint8Array, content: Uint8Array): Promise<Hash> {
  return hashCanonicalBytes(content.length === 0 ? header : concatBytes([header, content]));
}
