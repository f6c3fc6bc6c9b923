/** The bodies of success as docs/api.md draws them, read field by field: a missing or extra field is a broken rule. */
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

export interface Upload {
  readonly url: string;
  readonly expiresAt: number;
  readonly headers: Readonly<Record<string, string>>;
}

export type Lease =
  | { readonly state: 'ready'; readonly leaseStartedAt: number; readonly leaseExpiresAt: number }
  | { readonly state: 'awaiting_upload'; readonly upload: Upload }
  | { readonly state: 'awaiting_replacement_upload'; readonly rejection: Rejection; readonly upload: Upload }
  | { readonly state: 'validated_awaiting_children'; readonly childHashes: readonly string[] };

export interface Rejection {
  readonly code: string;
  readonly message: string;
}

export interface Description {
  readonly metadata: {
    readonly hash: string;
    readonly size: number;
    readonly contentType: string;
    readonly refs: readonly string[];
  };
  readonly state: {
    readonly leaseStartedAt: number;
    readonly leaseExpiresAt: number;
    readonly childRefCount: number;
    readonly rootRefCount: number;
  };
}

const USAGE_FIELDS = [
  'nodeCount',
  'readyContentBytes',
  'readyStoredBytes',
  'reservedBytes',
  'notReadyNodeCount',
  'leasedNodeCount',
] as const;
export type Usage = Readonly<Record<(typeof USAGE_FIELDS)[number], number>>;

export interface GcPass {
  readonly examined: number;
  readonly deleted: number;
  readonly reclaimedContentBytes: number;
}

export interface RootRefPage {
  readonly refDomain: string;
  readonly revision: number;
  readonly items: readonly { readonly hash: string; readonly refCount: number }[];
  readonly nextCursor: string | null;
}

export interface Commit {
  readonly success: boolean;
  readonly idempotent: boolean;
  readonly revision: number;
}

export function readUpload(value: unknown, answer: Answer): Upload {
  const upload = expectKeys(value, ['method', 'url', 'expiresAt', 'headers'], [], 'upload', answer);
  expectEqual(upload.method, 'PUT', 'upload.method', answer);
  const url = expectString(upload.url, 'upload.url', answer);
  expectThat(URL.canParse(url) && /^https?:/.test(url), 'upload.url: an absolute http(s) URI', url, answer);
  const headers = expectKeys(
    upload.headers,
    ['content-type', 'if-none-match'],
    Object.keys(upload.headers ?? {}),
    'upload.headers',
    answer,
  );
  for (const [name, text] of Object.entries(headers)) expectString(text, `upload.headers.${name}`, answer);
  return {
    url,
    expiresAt: expectInteger(upload.expiresAt, 'upload.expiresAt', 1, answer),
    headers: headers as Readonly<Record<string, string>>,
  };
}

const REJECTION_CODES = ['NODE_TOO_LARGE', 'NODE_DIGEST_MISMATCH', 'INVALID_CANONICAL_NODE', 'NODE_CONFLICT'];

export function readRejection(value: unknown, answer: Answer): Rejection {
  const rejection = expectKeys(value, ['code', 'message'], [], 'rejection', answer);
  const code = expectString(rejection.code, 'rejection.code', answer);
  expectThat(REJECTION_CODES.includes(code), 'rejection.code: one of the four', code, answer);
  return { code, message: expectString(rejection.message, 'rejection.message', answer) };
}

export function readChildHashes(value: unknown, answer: Answer): string[] {
  expectThat(
    Array.isArray(value) && value.length >= 1 && value.length <= 256,
    'childHashes: 1 to 256',
    value,
    answer,
  );
  const hashes = value.map((hash) => expectHash(hash, 'childHashes[]', answer));
  expectThat(new Set(hashes).size === hashes.length, 'childHashes: distinct', hashes, answer);
  return hashes;
}

/** The body of a 200: an object with exactly these fields. */
function readBody(answer: Answer, fields: readonly string[], what: string): JsonRecord {
  expectStatus(answer, 200);
  return expectKeys(readJson(answer), fields, [], what, answer);
}

function expectIntegers(body: JsonRecord, fields: readonly string[], minimum: number, answer: Answer): void {
  for (const field of fields) expectInteger(body[field], field, minimum, answer);
}

const LEASE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  ready: ['leaseStartedAt', 'leaseExpiresAt'],
  awaiting_upload: ['upload'],
  awaiting_replacement_upload: ['rejection', 'upload'],
  validated_awaiting_children: ['childHashes'],
};

/** Exactly one of the four answers of leaseNode. */
export function readLease(answer: Answer, hash: string): Lease {
  expectStatus(answer, 200);
  const state = String((readJson(answer) as JsonRecord | null)?.state) as Lease['state'];
  const body = readBody(answer, ['state', 'hash', ...(LEASE_FIELDS[state] ?? [])], `the ${state} lease`);
  expectEqual(body.hash, hash, 'hash', answer);
  switch (state) {
    case 'ready': {
      const leaseStartedAt = expectInteger(body.leaseStartedAt, 'leaseStartedAt', 0, answer);
      const leaseExpiresAt = expectInteger(body.leaseExpiresAt, 'leaseExpiresAt', leaseStartedAt, answer);
      return { state, leaseStartedAt, leaseExpiresAt };
    }
    case 'awaiting_upload':
      return { state, upload: readUpload(body.upload, answer) };
    case 'awaiting_replacement_upload':
      return {
        state,
        rejection: readRejection(body.rejection, answer),
        upload: readUpload(body.upload, answer),
      };
    default:
      expectEqual(state, 'validated_awaiting_children', 'state (one of the four)', answer);
      return { state, childHashes: readChildHashes(body.childHashes, answer) };
  }
}

export function readDescription(answer: Answer, hash: string): Description {
  const body = readBody(answer, ['metadata', 'state'], 'the node description');
  const metadata = expectKeys(body.metadata, ['hash', 'size', 'contentType', 'refs'], [], 'metadata', answer);
  const counts = ['leaseStartedAt', 'leaseExpiresAt', 'childRefCount'];
  const state = expectKeys(body.state, [...counts, 'rootRefCount'], [], 'state', answer);
  expectEqual(metadata.hash, hash, 'metadata.hash', answer);
  expectInteger(metadata.size, 'metadata.size', 0, answer);
  expectString(metadata.contentType, 'metadata.contentType', answer);
  expectThat(Array.isArray(metadata.refs), 'metadata.refs: an array', metadata.refs, answer);
  for (const ref of metadata.refs) expectHash(ref, 'metadata.refs[]', answer);
  expectIntegers(state, counts, 0, answer);
  expectInteger(state.rootRefCount, 'rootRefCount', -Number.MAX_SAFE_INTEGER, answer);
  return body as unknown as Description;
}

export function readUsage(answer: Answer): Usage {
  const body = readBody(answer, USAGE_FIELDS, 'usage');
  expectIntegers(body, USAGE_FIELDS, 0, answer);
  return body as Usage;
}

export function readGcPass(answer: Answer): GcPass {
  const fields = ['examined', 'deleted', 'reclaimedContentBytes'];
  const body = readBody(answer, fields, 'the gc result');
  expectIntegers(body, fields, 0, answer);
  return body as unknown as GcPass;
}

export function readRootRefPage(answer: Answer): RootRefPage {
  const body = readBody(answer, ['refDomain', 'revision', 'items', 'nextCursor'], 'the root-ref page');
  expectString(body.refDomain, 'refDomain', answer);
  expectInteger(body.revision, 'revision', 0, answer);
  if (body.nextCursor !== null) expectString(body.nextCursor, 'nextCursor', answer);
  expectThat(Array.isArray(body.items), 'items: an array', body.items, answer);
  for (const item of body.items) {
    const fields = expectKeys(item, ['hash', 'refCount'], [], 'items[]', answer);
    expectHash(fields.hash, 'items[].hash', answer);
    expectInteger(fields.refCount, 'items[].refCount', -Number.MAX_SAFE_INTEGER, answer);
  }
  return body as unknown as RootRefPage;
}

export function readCommit(answer: Answer): Commit {
  const body = readBody(answer, ['success', 'idempotent', 'revision'], 'the commit answer');
  expectThat(typeof body.success === 'boolean', 'success: a boolean', body.success, answer);
  expectThat(typeof body.idempotent === 'boolean', 'idempotent: a boolean', body.idempotent, answer);
  expectInteger(body.revision, 'revision', 0, answer);
  return body as unknown as Commit;
}
