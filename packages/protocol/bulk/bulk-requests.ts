/** Requests of Bulk, untrusted to typed. `leasePack` has the body of `leaseNode`: see `parseLeaseRequest`. */
import { type Hash, isHash } from '../hash.ts';
import { BULK_CODECS, BULK_HASHES_MAX, type BulkCodec } from '../limits.ts';
import { invalid, parseBody, readPositiveInteger } from '../request-body.ts';
import { type JsonValue, quoted } from '../strict-json.ts';

export interface BulkLeaseRequest {
  /** as asked, > 0; the operation clamps it */
  readonly leaseDurationMs: number;
  /** 1 to BULK_HASHES_MAX, each once, in the order of the request */
  readonly hashes: readonly Hash[];
  /** whether the caller wants to upload absent nodes */
  readonly pack: boolean;
}

export interface BulkReadRequest {
  /** 1 to BULK_HASHES_MAX, each once, in the order of the request */
  readonly hashes: readonly Hash[];
  /** codecs the caller can unpack beside plain bytes, each once */
  readonly codecs: readonly BulkCodec[];
}

/** Body of leaseNodes. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseBulkLeaseRequest(bytes: Uint8Array): BulkLeaseRequest {
  const body = parseBody(bytes, ['leaseDurationMs', 'hashes', 'pack']);
  return {
    leaseDurationMs: readPositiveInteger(body.get('leaseDurationMs'), 'leaseDurationMs'),
    hashes: readHashes(body.get('hashes')),
    pack: readFlag(body.get('pack'), 'pack'),
  };
}

/** Body of readNodes. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseBulkReadRequest(bytes: Uint8Array): BulkReadRequest {
  const body = parseBody(bytes, ['hashes', 'codecs']);
  return { hashes: readHashes(body.get('hashes')), codecs: readCodecs(body.get('codecs')) };
}

function readHashes(value: JsonValue | undefined): readonly Hash[] {
  const rule = `it must be an array of 1 to ${BULK_HASHES_MAX} hashes, each once`;
  if (value === undefined) throw invalid(`hashes is missing; ${rule}`);
  if (!Array.isArray(value)) throw invalid(`hashes is not an array; ${rule}`);
  if (value.length < 1 || value.length > BULK_HASHES_MAX) {
    throw invalid(`hashes has ${value.length} entries; ${rule}`);
  }
  const seen = new Set<Hash>();
  for (const [index, hash] of value.entries()) {
    if (!isHash(hash)) throw invalid(`hashes[${index}] must be 64 lowercase hexadecimal characters`);
    if (seen.has(hash)) throw invalid(`hashes[${index}] stands in the array before; give each hash once`);
    seen.add(hash);
  }
  return [...seen];
}

function readFlag(value: JsonValue | undefined, field: string): boolean {
  if (value === undefined) return false;
  if (typeof value !== 'boolean') throw invalid(`${field} must be true or false`);
  return value;
}

function readCodecs(value: JsonValue | undefined): readonly BulkCodec[] {
  if (value === undefined) return [];
  const rule = `it must be an array of codecs this server knows (${BULK_CODECS.join(', ')}), each once`;
  if (!Array.isArray(value)) throw invalid(`codecs is not an array; ${rule}`);
  const codecs: BulkCodec[] = [];
  for (const entry of value) {
    const codec = BULK_CODECS.find((known) => known === entry);
    if (codec === undefined) {
      throw invalid(
        typeof entry === 'string' ? `codec ${quoted(entry)} is not known; ${rule}` : `codecs: ${rule}`,
      );
    }
    if (codecs.includes(codec)) throw invalid(`codec ${codec} occurs twice; ${rule}`);
    codecs.push(codec);
  }
  return codecs;
}
