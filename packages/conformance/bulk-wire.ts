/** The answers of Bulk as docs/bulk.md draws them, read field by field. */
import type { Answer } from './answer.ts';
import {
  expectEqual,
  expectHash,
  expectInteger,
  expectKeys,
  expectStatus,
  expectString,
  expectThat,
  type JsonRecord,
  readJson,
} from './expect.ts';
import { type Rejection, readChildHashes, readRejection, readUpload, type Upload } from './wire.ts';

type BulkResult =
  | {
      readonly state: 'ready';
      readonly hash: string;
      readonly leaseStartedAt: number;
      readonly leaseExpiresAt: number;
    }
  | {
      readonly state: 'validated_awaiting_children';
      readonly hash: string;
      readonly childHashes: readonly string[];
    }
  | { readonly state: 'absent'; readonly hash: string };

type PackResult =
  | BulkResult
  | { readonly state: 'rejected'; readonly hash: string; readonly rejection: Rejection };

export interface PackUpload extends Upload {
  readonly id: string;
  readonly bytesMax: number;
  readonly recordsMax: number;
}

export interface BulkLease {
  readonly results: readonly BulkResult[];
  readonly pack?: PackUpload;
}

export interface PackLease {
  readonly results: readonly PackResult[];
  readonly broken?: { readonly byte: number; readonly message: string };
}

const RESULT_FIELDS: Readonly<Record<PackResult['state'], readonly string[]>> = {
  ready: ['leaseStartedAt', 'leaseExpiresAt'],
  validated_awaiting_children: ['childHashes'],
  absent: [],
  rejected: ['rejection'],
};

function readResult(value: unknown, answer: Answer): PackResult {
  const state = String((value as JsonRecord | null)?.state) as PackResult['state'];
  const fields = RESULT_FIELDS[state];
  expectThat(fields !== undefined, 'state of a result: one of docs/bulk.md', state, answer);
  const body = expectKeys(value, ['state', 'hash', ...fields], [], `a result that is ${state}`, answer);
  const hash = expectHash(body.hash, 'results[].hash', answer);
  switch (state) {
    case 'ready': {
      const leaseStartedAt = expectInteger(body.leaseStartedAt, 'leaseStartedAt', 0, answer);
      const leaseExpiresAt = expectInteger(body.leaseExpiresAt, 'leaseExpiresAt', leaseStartedAt, answer);
      return { state, hash, leaseStartedAt, leaseExpiresAt };
    }
    case 'validated_awaiting_children':
      return { state, hash, childHashes: readChildHashes(body.childHashes, answer) };
    case 'rejected':
      return { state, hash, rejection: readRejection(body.rejection, answer) };
    default:
      return { state, hash };
  }
}

function readResults(value: unknown, answer: Answer): PackResult[] {
  expectThat(Array.isArray(value), 'results: an array', value, answer);
  return value.map((each) => readResult(each, answer));
}

/** An answer of `leases` for these hashes. */
export function readBulkLease(answer: Answer, hashes: readonly string[]): BulkLease {
  expectStatus(answer, 200);
  const body = expectKeys(readJson(answer), ['results'], ['pack'], 'the answer of leases', answer);
  const results = readResults(body.results, answer) as BulkResult[];
  expectEqual(
    results.map(({ hash }) => hash),
    hashes,
    'one result for each hash, in order',
    answer,
  );
  for (const { state } of results) {
    expectThat((state as string) !== 'rejected', 'a state that leases has', state, answer);
  }
  if (body.pack === undefined) return { results };
  const fields = ['id', 'bytesMax', 'recordsMax'];
  const more = expectKeys(
    body.pack,
    fields,
    Object.keys(body.pack as object),
    'the instruction of the pack',
    answer,
  );
  const { id: _, bytesMax, recordsMax, ...upload } = more;
  return {
    results,
    pack: {
      ...readUpload(upload, answer),
      id: expectString(more.id, 'pack.id', answer),
      bytesMax: expectInteger(bytesMax, 'pack.bytesMax', 1, answer),
      recordsMax: expectInteger(recordsMax, 'pack.recordsMax', 1, answer),
    },
  };
}

export function readPackLease(answer: Answer): PackLease {
  expectStatus(answer, 200);
  const body = expectKeys(readJson(answer), ['results'], ['broken'], 'the lease of a pack', answer);
  const results = readResults(body.results, answer);
  if (!('broken' in body)) return { results };
  const broken = expectKeys(body.broken, ['byte', 'message'], [], 'broken', answer);
  const byte = expectInteger(broken.byte, 'broken.byte', 0, answer);
  return { results, broken: { byte, message: expectString(broken.message, 'broken.message', answer) } };
}
