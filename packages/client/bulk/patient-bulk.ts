/** The requests of Bulk with the patience of a long job. */
import type { Hash } from '@holdfast/protocol';
import type { CallOptions } from '../operations.ts';
import type { Bulk } from './bulk.ts';
import type { BulkNode } from './read-nodes.ts';
import { describeReading, type SendRequest } from './send-request.ts';

/** `bulk`, every request of it sent by `send`. */
export function createPatientBulk(bulk: Bulk, send: SendRequest): Bulk {
  return {
    zstd: bulk.zstd,
    get isOffered() {
      return bulk.isOffered;
    },
    leaseNodes: (hashes, lease, call) =>
      send(`leases of ${hashes.length} nodes`, () => bulk.leaseNodes(hashes, lease, call)),
    uploadPack: (pack, bytes, call) => send('the upload of a pack', () => bulk.uploadPack(pack, bytes, call)),
    leasePack: (id, lease, call) => send('the lease of a pack', () => bulk.leasePack(id, lease, call)),
    readNodes: (hashes, call) => readPatiently(bulk, send, hashes, call),
  };
}

/** An answer that breaks is asked for anew, after the last node that came. */
async function* readPatiently(
  bulk: Bulk,
  send: SendRequest,
  hashes: readonly Hash[],
  call: CallOptions | undefined,
): AsyncGenerator<BulkNode, void, undefined> {
  let rest = hashes;
  let nodes: AsyncGenerator<BulkNode, void, undefined> | undefined;
  const readNext = async (): Promise<BulkNode | undefined> => {
    nodes ??= bulk.readNodes(rest, call);
    try {
      const { done, value } = await nodes.next();
      return done === true ? undefined : value;
    } catch (error) {
      nodes = undefined;
      throw error;
    }
  };
  try {
    while (rest.length > 0) {
      const node = await send(describeReading(rest), readNext);
      if (node === undefined) return;
      rest = rest.slice(rest.indexOf(node.hash) + 1);
      yield node;
    }
  } finally {
    await nodes?.return();
  }
}
