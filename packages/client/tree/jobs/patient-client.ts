/** A client that sends its requests again with the patience of a long job, and always tells what it waits for. */

import { type Hash, NODE_BYTES_MAX_DEFAULT } from '@holdfast/protocol';
import { checkMethod, checkObject } from '../../arguments.ts';
import type { Bulk } from '../../bulk/bulk.ts';
import type { BulkNode } from '../../bulk/read-nodes.ts';
import { describeReading, type SendRequest } from '../../bulk/send-request.ts';
import type { Client } from '../../client.ts';
import { type Clock, systemClock } from '../../deadline.ts';
import { getNodes } from '../../get-calls.ts';
import type { CallOptions } from '../../operations.ts';
import { putNodes } from '../../put-calls.ts';
import { RETRY_POLICY_DEFAULT } from '../../retry.ts';
import { rootRefPages } from '../../root-ref-pages.ts';
import { ROT_EVIDENCE_MIN, readUnlessRotten } from '../../rotten-node.ts';
import { createSha256, type Sha256 } from '../../sha256.ts';
import { openNode } from '../../verified-read.ts';
import { PatientRequests } from './patient-requests.ts';
import type { ProgressReporter } from './progress.ts';
import { watchStream } from './watch-stream.ts';

export interface PatientClientOptions {
  /** Hears what the client waits for. Requests are not counted, because only the client knows how many one call sends. */
  readonly progress: ProgressReporter;
  /** How long no request may succeed before a call fails, ms; 5 minutes when left out. */
  readonly patienceMs?: number | undefined;
  /** Tries of one request, at most; as many as patience allows when left out. */
  readonly attemptsMax?: number | undefined;
  /** As the client has it, for `openNode`. */
  readonly createSha256?: (() => Sha256) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The reads, leases, uploads and root refs of `client`, for jobs such as bundles. Make the client with `retry: { attemptsMax: 1 }`: trying
 * again is done here. Content that is lost or damaged on the server rejects with RottenNodeError, soon; else as `client`.
 */
export function createPatientClient(client: Client, options: PatientClientOptions): Client {
  const call = { name: 'createPatientClient', requestOperation: 'createClient' } as const;
  checkMethod(call, 'client', client, 'leaseNode');
  checkObject(call, 'the options', options);
  const { progress, signal } = options;
  const clock = options.clock ?? systemClock;
  const requests = new PatientRequests({
    ...options,
    progress: { ...progress, count: () => undefined },
  });
  const send = <T>(what: string, request: () => Promise<T>): Promise<T> =>
    requests.send(what, false, request);
  const read = <T>(hash: Hash, request: () => Promise<T>): Promise<T> => {
    const rot = { client, clock, signal, evidenceMin: ROT_EVIDENCE_MIN };
    return send(`reading ${hash}`, () => readUnlessRotten(hash, request, rot));
  };
  const settings = {
    retry: RETRY_POLICY_DEFAULT,
    createSha256: options.createSha256 ?? createSha256,
    contentBytesMax: NODE_BYTES_MAX_DEFAULT,
  };
  const patient: Client = {
    ...client,
    bulk: createPatientBulk(client.bulk, send),
    readMetadata: (hash, call) => send(`a question for ${hash}`, () => client.readMetadata(hash, call)),
    leaseNode: (hash, lease, call) => send(`a lease of ${hash}`, () => client.leaseNode(hash, lease, call)),
    readContent: async (hash, call) => {
      const content = await read(hash, () => client.readContent(hash, call));
      const waits = { coming: `no further bytes yet of ${hash}`, item: hash };
      const bytes: typeof content.bytes = (memory) =>
        content.bytes(memory).finally(progress.waitFor(waits.coming));
      return { ...content, body: watchStream(content.body, progress, waits), bytes };
    },
    getNode: (hash, call) => read(hash, () => client.getNode(hash, call)),
    getNodes: (hashes, call) => getNodes(patient, hashes, call),
    putNode: (node, call) => send('storing a node', () => client.putNode(node, call)),
    putNodes: (nodes, call) => putNodes(patient.putNode, nodes, call),
    listRootRefs: (page, call) => send('a list of root refs', () => client.listRootRefs(page, call)),
    rootRefs: (call) => rootRefPages(patient, call),
    updateRootRefs: (commit, call) =>
      send('a commit of root refs', () => client.updateRootRefs(commit, call)),
    uploadNode: (upload, bytes, call) => send('an upload', () => client.uploadNode(upload, bytes, call)),
    // Opens its content anew where it broke, by the requests above.
    openNode: (hash, call) => openNode(patient, settings, hash, call),
  };
  return patient;
}

/** `bulk`, every request of it sent by `send`. */
function createPatientBulk(bulk: Bulk, send: SendRequest): Bulk {
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
