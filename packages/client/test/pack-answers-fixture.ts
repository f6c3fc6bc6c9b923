/** Nodes, and the answers of a server that sends them in packs. */
import { encodeNode, encodeRecord, type Hash, PACK_MEDIA_TYPE, PackBuilder } from '@holdfast/protocol';
import type { BulkNode } from '../bulk/read-nodes.ts';
import { ZSTD } from './fake-bulk-fixture.ts';
import { breakingBody, sha256Hex } from './fake-space-fixture.ts';

export const NODES = Array.from({ length: 6 }, (_, index) => {
  const content = Buffer.from(`node ${index} `.repeat(20 * (index + 1)));
  const refs = Array(index).fill('ab'.repeat(32)) as Hash[];
  const canonical = encodeNode({ contentType: `text/${index}`, refs, content });
  return { hash: sha256Hex(canonical), contentType: `text/${index}`, refs, content, canonical };
});
export const HASHES = NODES.map(({ hash }) => hash);

export function packOf(indexes: readonly number[], compressed = false): Uint8Array {
  const builder = new PackBuilder();
  for (const index of indexes) {
    const { hash, canonical } = NODES[index] as (typeof NODES)[number];
    builder.add(encodeRecord(hash, canonical, compressed ? ZSTD.compress : undefined));
  }
  return builder.toBytes();
}

export function answer(...chunks: readonly Uint8Array[]): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  return new Response(body, { headers: { 'content-type': PACK_MEDIA_TYPE } });
}

export function brokenAnswer(...chunks: readonly Uint8Array[]): Response {
  return new Response(breakingBody(...chunks), { headers: { 'content-type': PACK_MEDIA_TYPE } });
}

export const plain = ({ storedBytes: _bytes, memory: _memory, ...node }: BulkNode) => ({
  ...node,
  content: Buffer.from(node.content),
});
export const withoutCanonical = ({ canonical: _, ...node }: (typeof NODES)[number]) => node;

export const indexesOf = (nodes: readonly BulkNode[]): number[] =>
  nodes.map(({ hash }) => HASHES.indexOf(hash));
