/** Bulk in front of a Space in memory: enough of the rules for the client. */
import { createHash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import {
  bytesToHash,
  createUnzstd,
  encodeRecord,
  type Hash,
  judgeRecord,
  PACK_MEDIA_TYPE,
  PACK_RECORDS_MAX,
  PackBuilder,
  type PackLeaseResult,
  PackReader,
} from '@holdfast/protocol';
import type { Zstd } from '../bulk/bulk.ts';
import { failure, json } from './fake-answers-fixture.ts';

export const ZSTD: Zstd = {
  compress: (bytes) => zstdCompressSync(bytes),
  unzstd: createUnzstd({
    decompressBounded: (frame, maxOutputLength) => zstdDecompressSync(frame, { maxOutputLength }),
  }),
};

/** What Bulk needs of the Space. */
interface Store {
  /** canonical bytes of ready nodes */
  readonly nodes: ReadonlyMap<Hash, Uint8Array>;
  now(): number;
  /** The answer of a lease for a node that is ready or waits; undefined for any other. */
  find(hash: Hash): PackLeaseResult | undefined;
  publish(hash: Hash, canonical: Uint8Array): void;
}

interface FakePack {
  readonly id: string;
  readonly hashes: string;
  expiresAt: number;
  bytes: Uint8Array | undefined;
  judged: Map<Hash, PackLeaseResult | undefined> | undefined;
  broken: unknown;
}

export class FakeBulk {
  readonly packs = new Map<string, FakePack>();
  /** the most records in one answer of `reads` */
  recordsPerAnswer = PACK_RECORDS_MAX;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  answer(kind: string, path: string, body: Uint8Array): Response {
    if (kind === 'pack-upload') return this.#receive(path.split('/').at(-1) ?? '', body);
    const ask = JSON.parse(new TextDecoder().decode(body)) as {
      hashes: Hash[];
      pack?: boolean;
      codecs?: string[];
    };
    if (kind === 'leases') return this.#lease(ask.hashes, ask.pack === true);
    if (kind === 'reads') return this.#read(ask.hashes, ask.codecs?.includes('zstd') === true);
    return this.#leasePack(path.split('/').at(-2) ?? '');
  }

  #lease(hashes: readonly Hash[], wantsPack: boolean): Response {
    const results = hashes.map((hash) => this.#store.find(hash) ?? { state: 'absent' as const, hash });
    const isAnyAbsent = results.some(({ state }) => state === 'absent');
    return json({ results, ...(wantsPack && isAnyAbsent ? { pack: this.#open(hashes) } : {}) });
  }

  #open(asked: readonly Hash[]): unknown {
    const hashes = asked.join();
    const standing = [...this.packs.values()].find(
      (pack) => pack.hashes === hashes && pack.bytes === undefined,
    );
    const id = createHash('md5').update(`pack ${this.packs.size}`).digest('hex');
    const pack = standing ?? {
      id,
      hashes,
      expiresAt: 0,
      bytes: undefined,
      judged: undefined,
      broken: undefined,
    };
    pack.expiresAt = this.#store.now() + 300_000;
    this.packs.set(pack.id, pack);
    return {
      id: pack.id,
      method: 'PUT',
      url: `http://store.test/packs/${pack.id}`,
      expiresAt: pack.expiresAt,
      headers: { 'content-type': PACK_MEDIA_TYPE, 'if-none-match': '*' },
      bytesMax: 64 * 1024 * 1024,
      recordsMax: PACK_RECORDS_MAX,
    };
  }

  #receive(id: string, body: Uint8Array): Response {
    const pack = this.packs.get(id);
    if (pack === undefined || pack.expiresAt < this.#store.now()) return failure(403, 'FORBIDDEN');
    if (pack.bytes !== undefined) return failure(412, 'CONFLICT');
    pack.bytes = body;
    return new Response(null, { status: 200 });
  }

  #leasePack(id: string): Response {
    const pack = this.packs.get(id);
    if (pack === undefined) return failure(404, 'NOT_FOUND');
    if (pack.bytes === undefined) return failure(409, 'CONFLICT');
    if (pack.judged === undefined) this.#judge(pack, pack.bytes);
    const results = [...(pack.judged ?? [])].map(
      ([hash, rejected]) => rejected ?? this.#store.find(hash) ?? { state: 'absent', hash },
    );
    return json({ results, ...(pack.broken === undefined ? {} : { broken: pack.broken }) });
  }

  #judge(pack: FakePack, bytes: Uint8Array): void {
    const reader = new PackReader(bytes.length);
    pack.judged = new Map();
    const sha256 = (canonical: Uint8Array): Hash =>
      bytesToHash(createHash('sha256').update(canonical).digest());
    for (const record of reader.push(bytes)) {
      const { hash } = record;
      const judge = { nodeBytesMax: 64 * 1024 * 1024, unzstd: ZSTD.unzstd, sha256 };
      const { node, rejection } = judgeRecord(record, judge);
      if (node !== undefined) this.#store.publish(hash, node.canonical.slice());
      pack.judged.set(hash, rejection && { state: 'rejected', hash, rejection });
    }
    reader.end();
    pack.broken = reader.fault;
  }

  #read(hashes: readonly Hash[], isPacked: boolean): Response {
    const builder = new PackBuilder({ bytesMax: 64 * 1024 * 1024, recordsMax: this.recordsPerAnswer });
    for (const hash of hashes) {
      const bytes = this.#store.nodes.get(hash);
      if (bytes === undefined) continue;
      if (!builder.add(encodeRecord(hash, bytes, isPacked ? ZSTD.compress : undefined))) break;
    }
    return new Response(builder.toBytes() as Uint8Array<ArrayBuffer>, {
      headers: { 'content-type': PACK_MEDIA_TYPE },
    });
  }
}
