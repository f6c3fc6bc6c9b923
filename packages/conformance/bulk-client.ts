/** Bulk of one Space as an outside client sees it. */
import type { Answer } from './answer.ts';
import {
  type BulkLease,
  type PackLease,
  type PackUpload,
  readBulkLease,
  readPackLease,
} from './bulk-wire.ts';
import { expectEqual, expectHeader, expectStatus, expectThat } from './expect.ts';
import type { SampleNode } from './node-bytes.ts';
import {
  decodePack,
  encodePack,
  PACK_MEDIA_TYPE,
  PACKED_NODE_BYTES_MAX,
  plainRecord,
  type ReadRecord,
  type RecordSketch,
} from './pack-bytes.ts';
import type { CallOptions, SpaceClient } from './space-client.ts';
import type { Lease } from './wire.ts';

export const BULK_OPERATIONS = {
  leaseNodes: { path: 'leases', authority: 'cas:nodes:lease' },
  leasePack: { path: 'packs/{id}/lease', authority: 'cas:nodes:lease' },
  readNodes: { path: 'reads', authority: 'cas:nodes:read' },
} as const;
export type BulkOperationName = keyof typeof BULK_OPERATIONS;
export const BULK_OPERATION_NAMES = Object.keys(BULK_OPERATIONS) as BulkOperationName[];

const LEASE_MS = 60_000;
const NO_PACK = '0'.repeat(32);

export class BulkClient {
  readonly space: SpaceClient;

  constructor(space: SpaceClient) {
    this.space = space;
  }

  path(operation: BulkOperationName, id = NO_PACK): string {
    const [, v1, ...rest] = this.space.path('getUsage').split('/');
    const space = ['bulk', v1, ...rest.slice(0, 4)].join('/');
    return `/${space}/${BULK_OPERATIONS[operation].path.replace('{id}', id)}`;
  }

  call(operation: BulkOperationName, options: CallOptions & { readonly id?: string } = {}): Promise<Answer> {
    const { id, query, method = 'POST', ...rest } = options;
    return this.space.request(
      method,
      this.path(operation, id) + (query === undefined ? '' : `?${query}`),
      rest,
    );
  }

  async leases(hashes: readonly string[], pack = false, leaseDurationMs = LEASE_MS): Promise<BulkLease> {
    const json = { leaseDurationMs, hashes, ...(pack && { pack }) };
    return readBulkLease(await this.call('leaseNodes', { json }), hashes);
  }

  /** A pack for what is absent of these. */
  async open(hashes: readonly string[], leaseDurationMs = LEASE_MS): Promise<PackUpload> {
    const { pack } = await this.leases(hashes, true, leaseDurationMs);
    expectThat(pack !== undefined, 'the instruction of a pack where a hash is absent', 'none');
    return pack;
  }

  /** A pack for this node alone, with these records or bytes in it. */
  async uploaded(
    node: Pick<SampleNode, 'hash'>,
    pack: readonly RecordSketch[] | Uint8Array,
  ): Promise<PackUpload> {
    const opened = await this.open([node.hash]);
    await this.put(opened, pack instanceof Uint8Array ? pack : encodePack(pack));
    return opened;
  }

  async put(pack: PackUpload, bytes: Uint8Array): Promise<void> {
    expectStatus(await this.space.put(pack, bytes), 200, 'the PUT of a pack as instructed');
  }

  async leasePack(id: string, leaseDurationMs = LEASE_MS): Promise<PackLease> {
    return readPackLease(await this.call('leasePack', { id, json: { leaseDurationMs } }));
  }

  /** Opens, uploads and leases a pack of these nodes, or of these records. */
  async send(
    nodes: readonly Pick<SampleNode, 'hash' | 'bytes'>[],
    records: readonly RecordSketch[] = nodes.map(plainRecord),
    leaseDurationMs = LEASE_MS,
  ): Promise<PackLease> {
    const pack = await this.open(
      nodes.map(({ hash }) => hash),
      leaseDurationMs,
    );
    await this.put(pack, encodePack(records));
    return this.leasePack(pack.id, leaseDurationMs);
  }

  /** Sends nodes that must all become ready. */
  async publish(nodes: readonly SampleNode[], records?: readonly RecordSketch[]): Promise<void> {
    const { results } = await this.send(nodes, records);
    expectEqual(
      results.map(({ state }) => state),
      nodes.map(() => 'ready'),
      'states of the records',
    );
  }

  async reads(hashes: readonly string[], codecs?: readonly string[]): Promise<ReadRecord[]> {
    const answer = await this.call('readNodes', { json: { hashes, ...(codecs && { codecs }) } });
    expectStatus(answer, 200);
    expectHeader(answer, 'content-type', PACK_MEDIA_TYPE);
    return decodePack(answer.bytes);
  }
}

/** Uploads a node in a pack of its own, and tells what came of it as a lease of the node does. */
export async function uploadInPack(client: SpaceClient, node: SampleNode, leaseMs: number): Promise<Lease> {
  if (node.bytes.length > PACKED_NODE_BYTES_MAX) return client.uploadAlone(node, leaseMs);
  const bulk = new BulkClient(client);
  const { results, pack } = await bulk.leases([node.hash], true, leaseMs);
  const [found] = results;
  if (pack === undefined)
    return found?.state === 'absent' ? client.leased(node.hash, leaseMs) : (found as Lease);
  await bulk.put(pack, encodePack([plainRecord(node)]));
  const [judged] = (await bulk.leasePack(pack.id, leaseMs)).results;
  if (judged?.state === 'ready' || judged?.state === 'validated_awaiting_children') return judged;
  return client.leased(node.hash, leaseMs);
}
