/** Putting the nodes of a CAR version 1 into a Space: verified first, children before parents, ready ones not again. */

import { type Hash, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { checkMethod, checkOptions } from '../arguments.ts';
import type { Client } from '../client.ts';
import { findReady } from '../find-ready.ts';
import type { CallOptions } from '../operations.ts';
import { BundleError } from './cid.ts';
import { readBundle } from './read-bundle.ts';
import { type ImportBundleOptions, type ImportProgress, Storing } from './storing.ts';

interface ImportedRoot {
  readonly hash: Hash;
  /** the root, and with it everything below, is safe from collection until then */
  readonly leaseExpiresAt: number;
}

export interface ImportBundleResult extends ImportProgress {
  readonly roots: readonly ImportedRoot[];
}

/**
 * Reads the whole bundle and stores what the Space lacks. An import that was interrupted is taken up by running it again:
 * nodes that are ready take one request and no upload, and when all roots are ready the file is only verified. All nodes are
 * leased for 24 h, so that the parts of an unfinished import stay. Throws BundleError, CasError.
 */
export async function importBundle(
  client: Client,
  stream: ReadableStream<Uint8Array>,
  options: ImportBundleOptions = {},
): Promise<ImportBundleResult> {
  const call = { name: 'importBundle', requestOperation: 'leaseNode' } as const;
  checkMethod(call, 'client', client, 'leaseNode');
  checkOptions(call, options);
  const bundle = await readBundle(stream, options);
  try {
    const isAllReady = await areReady(client, bundle.roots, options);
    const storing = new Storing(client, bundle, options, isAllReady && options.check !== true);
    try {
      for await (const node of bundle.nodes) await storing.begin(node);
    } catch (error) {
      // Nodes that are on their way arrive: the next try then need not send them again.
      await storing.end().catch(() => undefined);
      throw error;
    }
    const progress = await storing.end();
    const roots: ImportedRoot[] = [];
    for (const root of bundle.roots) {
      roots.push({ hash: root, leaseExpiresAt: await settle(client, root, storing, options) });
    }
    return { roots, ...progress };
  } finally {
    await bundle.nodes.return();
  }
}

/** Whether the Space has all of them ready; they are then leased too. */
async function areReady(client: Client, hashes: readonly Hash[], options: CallOptions): Promise<boolean> {
  for (const hash of hashes) {
    // Ask without a lease first: a lease of a missing root would open an upload, and the root comes last in the file.
    if ((await findReady(client, hash, options)) === undefined) return false;
    if ((await lease(client, hash, options)).state !== 'ready') return false;
  }
  return true;
}

function lease(client: Client, hash: Hash, { signal }: CallOptions): ReturnType<Client['leaseNode']> {
  return client.leaseNode(hash, { leaseDurationMs: LEASE_DURATION_MS_MAX }, { signal });
}

/** Leases `root`, first what below it waits. Returns when its lease expires. Throws BundleError for a node in neither bundle nor Space. */
async function settle(client: Client, root: Hash, storing: Storing, options: CallOptions): Promise<number> {
  if (!storing.roots.has(root) && (await findReady(client, root, options)) === undefined) {
    throw new BundleError(
      `the bundle does not hold its root ${root}, nor does the Space; it is cut off or made wrongly: make it again`,
    );
  }
  const stack: Hash[] = [root];
  for (let hash = stack.at(-1); hash !== undefined; hash = stack.at(-1)) {
    const answer = await lease(client, hash, options);
    switch (answer.state) {
      case 'ready':
        stack.pop();
        if (hash === root) return answer.leaseExpiresAt;
        break;
      case 'validated_awaiting_children':
        stack.push(...answer.childHashes.toReversed());
        break;
      default:
        throw new BundleError(
          `the bundle lacks node ${hash}, which is below its root ${root}, and so does the Space; make it again`,
        );
    }
  }
  throw new TypeError('the root is the last to leave the stack');
}
