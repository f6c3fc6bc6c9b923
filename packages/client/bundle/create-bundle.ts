/** Writing nodes and all below them as a CAR version 1: children first, each node once, each verified before it counts. */

import { concatBytes, type Hash } from '@holdfast/protocol';
import { checkHashes, checkMethod, checkOptions } from '../arguments.ts';
import type { Client } from '../client.ts';
import { encodeCarHeader } from './car-header.ts';
import { CID_BYTES, encodeCid } from './cid.ts';
import { readLargeNode, withHash } from './load-node.ts';
import { encodeVarint } from './varint.ts';
import { type WalkOptions, walkChildrenFirst } from './walk-children-first.ts';

export interface CreateBundleOptions extends Omit<WalkOptions, 'skip'> {
  /** Called after each node with the totals so far. */
  readonly onNode?: ((written: { readonly nodes: number; readonly bytes: number }) => void) | undefined;
}

/**
 * The bundle of `roots` as a stream; nothing is read further than it is consumed. The same nodes give the same bytes. The
 * stream errors with BundleError or CasError, and what came before is then no whole bundle: its roots come last. Memory:
 * about 48 MiB, and 16 to 43 bytes for each node (at most about 128 MiB, at BUNDLE_NODES_MAX).
 */
export function createBundle(
  client: Client,
  roots: readonly Hash[],
  options: CreateBundleOptions = {},
): ReadableStream<Uint8Array> {
  const call = { name: 'createBundle', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'client', client, 'readContent');
  checkHashes(call, 'roots', roots);
  checkOptions(call, options);
  const chunks = writeBundle(client, [...new Set(roots)], options);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return();
      },
    },
    { highWaterMark: 0 },
  );
}

async function* writeBundle(
  client: Client,
  roots: readonly Hash[],
  options: CreateBundleOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const header = encodeCarHeader(roots);
  // Before the first byte: a root that is not there should leave nothing behind that looks like a bundle.
  for (const root of roots) {
    await client.readMetadata(root, options).catch((error: unknown) => {
      throw withHash(root, error);
    });
  }
  yield header;
  let bytes = header.length;
  let nodes = 0;
  for await (const node of walkChildrenFirst(client, roots, options)) {
    const length = CID_BYTES + node.canonicalSize;
    const prefix = concatBytes([encodeVarint(length), encodeCid(node.hash)]);
    if (node.bytes === undefined) {
      yield prefix;
      yield* readLargeNode(client, node.hash, options);
    } else yield* joinSmall(prefix, node.bytes);
    nodes += 1;
    bytes += prefix.length + node.canonicalSize;
    options.onNode?.({ nodes, bytes });
  }
}

/** A block as one chunk, or its node by itself where copying would cost more than another chunk. */
function joinSmall(prefix: Uint8Array, node: Uint8Array): Uint8Array[] {
  // A small node is written in one chunk with its prefix.
  return node.length <= 64 * 1024 ? [concatBytes([prefix, node])] : [prefix, node];
}
