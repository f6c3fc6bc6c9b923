/** Untrusted JSON of answers → typed results. A missing or wrong field is MalformedAnswer; unknown fields are left out. */
import {
  type ErrorCode,
  type GcResult,
  type Hash,
  type Health,
  isErrorCode,
  isHeavyJson,
  type LeaseResponse,
  type NodeDescription,
  REJECTION_CODES,
  type ReadyLease,
  type Rejection,
  type RejectionCode,
  ROOT_REFS_PAGE_MAX,
  type RootRefItem,
  type RootRefPage,
  type SpaceUsage,
  type UpdateRootRefsResponse,
  type UploadInstruction,
  type ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import {
  type Fields,
  fieldOf,
  MalformedAnswer,
  malformed,
  parseBoolean,
  parseFields,
  parseHash,
  parseHashes,
  parseInteger,
  parseList,
  parseText,
} from './answer-fields.ts';
import type { CasErrorCode, RequestOperation } from './errors.ts';
import { JSON_ANSWER_BYTES_MAX, JSON_PART_BYTES_MIN, MESSAGE_CHARACTERS_MAX } from './limits.ts';

const INTEGER_MIN = Number.MIN_SAFE_INTEGER;

export function parseNodeDescription(value: unknown): NodeDescription {
  const fields = parseFields(value, 'the whole');
  const metadata = parseFields(fieldOf(fields, 'metadata'), 'metadata');
  const state = parseFields(fieldOf(fields, 'state'), 'state');
  return {
    metadata: {
      hash: parseHash(metadata, 'hash'),
      size: parseInteger(metadata, 'size'),
      contentType: parseText(metadata, 'contentType'),
      refs: parseHashes(metadata, 'refs'),
    },
    state: {
      leaseStartedAt: parseInteger(state, 'leaseStartedAt'),
      leaseExpiresAt: parseInteger(state, 'leaseExpiresAt'),
      childRefCount: parseInteger(state, 'childRefCount'),
      rootRefCount: parseInteger(state, 'rootRefCount', INTEGER_MIN),
    },
  };
}

/** `hash` is the node that was asked about: an answer about another one is malformed. */
export function parseLeaseResponse(value: unknown, hash: Hash): LeaseResponse {
  const fields = parseFields(value, 'the whole');
  if (parseHash(fields, 'hash') !== hash) throw malformed('hash', 'the one that was asked for');
  const state = parseText(fields, 'state');
  switch (state) {
    case 'ready':
      return parseReady(fields, hash);
    case 'awaiting_upload':
      return { state, hash, upload: parseUpload(fields) };
    case 'awaiting_replacement_upload':
      return { state, hash, rejection: parseRejection(fields), upload: parseUpload(fields) };
    case 'validated_awaiting_children':
      return parseWaiting(fields, hash);
    default:
      throw malformed('state', 'one of the four lease states');
  }
}

export function parseReady(fields: Fields, hash: Hash): ReadyLease {
  return {
    state: 'ready',
    hash,
    leaseStartedAt: parseInteger(fields, 'leaseStartedAt'),
    leaseExpiresAt: parseInteger(fields, 'leaseExpiresAt'),
  };
}

export function parseWaiting(fields: Fields, hash: Hash): ValidatedAwaitingChildren {
  const childHashes = parseHashes(fields, 'childHashes');
  if (childHashes.length === 0) throw malformed('childHashes', 'a list of at least one hash');
  return { state: 'validated_awaiting_children', hash, childHashes };
}

function parseUpload(fields: Fields): UploadInstruction {
  return parseInstruction(parseFields(fieldOf(fields, 'upload'), 'upload'));
}

export function parseInstruction(upload: Fields): UploadInstruction {
  const url = parseText(upload, 'url');
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) throw malformed('url', 'an http or https address');
  if (fieldOf(upload, 'method') !== 'PUT') throw malformed('method', 'PUT');
  return { method: 'PUT', url, expiresAt: parseInteger(upload, 'expiresAt'), headers: parseHeaders(upload) };
}

function parseHeaders(upload: Fields): Readonly<Record<string, string>> {
  const entries = Object.entries(parseFields(fieldOf(upload, 'headers'), 'headers'));
  for (const [name, value] of entries) {
    const isHeader = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && typeof value === 'string';
    if (!isHeader || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw malformed('headers', 'a map of HTTP headers');
  }
  return Object.fromEntries(entries) as Record<string, string>;
}

export function parseRejection(fields: Fields): Rejection {
  const rejection = parseFields(fieldOf(fields, 'rejection'), 'rejection');
  const code = parseText(rejection, 'code');
  if (!isRejectionCode(code)) throw malformed('code', 'a rejection code');
  return { code, message: parseText(rejection, 'message').slice(0, MESSAGE_CHARACTERS_MAX) };
}

function isRejectionCode(code: string): code is RejectionCode {
  return (REJECTION_CODES as readonly string[]).includes(code);
}

export function parseSpaceUsage(value: unknown): SpaceUsage {
  const fields = parseFields(value, 'the whole');
  return {
    nodeCount: parseInteger(fields, 'nodeCount'),
    readyContentBytes: parseInteger(fields, 'readyContentBytes'),
    readyStoredBytes: parseInteger(fields, 'readyStoredBytes'),
    reservedBytes: parseInteger(fields, 'reservedBytes'),
    notReadyNodeCount: parseInteger(fields, 'notReadyNodeCount'),
    leasedNodeCount: parseInteger(fields, 'leasedNodeCount'),
  };
}

export function parseGcResult(value: unknown): GcResult {
  const fields = parseFields(value, 'the whole');
  return {
    examined: parseInteger(fields, 'examined'),
    deleted: parseInteger(fields, 'deleted'),
    reclaimedContentBytes: parseInteger(fields, 'reclaimedContentBytes'),
  };
}

export function parseRootRefPage(value: unknown): RootRefPage {
  const fields = parseFields(value, 'the whole');
  const items = parseList(fields, 'items').map(parseRootRefItem);
  const isInOrder = items.every(({ hash }, index) => index === 0 || (items[index - 1]?.hash ?? '') < hash);
  if (!isInOrder || items.length > ROOT_REFS_PAGE_MAX) {
    throw malformed('items', `a list of at most ${ROOT_REFS_PAGE_MAX} balances in the order of their hashes`);
  }
  return {
    refDomain: parseText(fields, 'refDomain'),
    revision: parseInteger(fields, 'revision'),
    items,
    nextCursor: fieldOf(fields, 'nextCursor') === null ? null : parseText(fields, 'nextCursor'),
  };
}

function parseRootRefItem(value: unknown): RootRefItem {
  const item = parseFields(value, 'items');
  return { hash: parseHash(item, 'hash'), refCount: parseInteger(item, 'refCount', INTEGER_MIN) };
}

export function parseUpdateRootRefsResponse(value: unknown): UpdateRootRefsResponse {
  const fields = parseFields(value, 'the whole');
  return {
    success: parseBoolean(fields, 'success'),
    idempotent: parseBoolean(fields, 'idempotent'),
    revision: parseInteger(fields, 'revision'),
  };
}

export function parseHealth(value: unknown): Health {
  const status = fieldOf(parseFields(value, 'the whole'), 'status');
  if (status !== 'ok') throw malformed('status', 'ok');
  return { status };
}

/** This API says more than the status: it is a proxy in between that takes no larger body. */
const TOO_LARGE_ADVICE =
  ' without saying why: let any proxy in between take bodies of 65 MiB (nginx: client_max_body_size 65m)';

/** Codes for answers of proxies and overloaded servers that say nothing of their own. */
const CODES_OF_BARE_STATUSES: ReadonlyMap<number, ErrorCode> = new Map([
  [429, 'RESOURCE_EXHAUSTED'],
  [502, 'SERVICE_UNAVAILABLE'],
  [503, 'SERVICE_UNAVAILABLE'],
  [504, 'SERVICE_UNAVAILABLE'],
]);

/** Explains an answer other than success. A 404 without the API's own envelope must never be taken for the absence of a node. */
export function parseErrorAnswer(
  status: number,
  body: Uint8Array | undefined,
  operation: RequestOperation,
): { readonly code: CasErrorCode; readonly message: string; readonly storeCode?: string | undefined } {
  const envelope = findErrorEnvelope(body);
  if (envelope !== undefined && isErrorCode(envelope.error)) {
    return { code: envelope.error, message: envelope.message ?? `answered ${envelope.error} (${status})` };
  }
  // An upload target may be a store with error bodies of its own.
  const isUpload = operation === 'uploadNode' || operation === 'uploadPack';
  const storeCode = isUpload ? findStoreCode(body) : undefined;
  const said = storeCode === undefined ? status : `${status} ${storeCode}`;
  const bare = CODES_OF_BARE_STATUSES.get(status);
  if (bare !== undefined) return { code: bare, message: `answered ${said}; try again later`, storeCode };
  if (isUpload) {
    return {
      code: 'UPLOAD_REFUSED',
      message: `the upload target answered ${said}${adviseOnTarget(status, storeCode)}`,
      storeCode,
    };
  }
  const code = 'MALFORMED_RESPONSE';
  if (status === 0 || (status >= 300 && status < 400)) {
    return {
      code,
      message: 'answered with a redirect, which is not followed; put the final address into baseUrl',
    };
  }
  if (envelope !== undefined) {
    return { code, message: `answered ${status} with a code this version does not know: ${envelope.error}` };
  }
  return { code, message: `answered ${status} without this API's error body; check baseUrl and any proxy` };
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** The value of an answer of at most `bytesMax` bytes. Throws MalformedAnswer if it would fill the memory, and others if it is no JSON. */
export function parseJson(body: Uint8Array, bytesMax: number): unknown {
  const text = UTF_8.decode(body);
  if (isHeavyJson(text, bytesMax / JSON_PART_BYTES_MIN))
    throw new MalformedAnswer('the answer has more levels or parts than any of this API');
  return JSON.parse(text);
}

/** Stores that take uploads themselves name what is wrong in XML. */
const STORE_CODE = /<Code>([A-Za-z0-9.]{1,64})<\/Code>/;

function adviseOnTarget(status: number, storeCode: string | undefined): string {
  if (status === 413) return TOO_LARGE_ADVICE;
  if (status === 409 || status === 412) return ', because others upload the same bytes';
  if (storeCode === 'SignatureDoesNotMatch') {
    return ": check the server's AWS_SECRET_ACCESS_KEY, and that no proxy changes the request";
  }
  if (status !== 403) return ": check the bucket's rules, and any proxy before it";
  return ": check the rights and the end of the server's S3 credentials, the clocks of both, and any proxy before the bucket";
}

function findStoreCode(body: Uint8Array | undefined): string | undefined {
  return body === undefined ? undefined : STORE_CODE.exec(new TextDecoder().decode(body))?.[1];
}

function findErrorEnvelope(
  body: Uint8Array | undefined,
): { error: string; message: string | undefined } | undefined {
  if (body === undefined) return undefined;
  try {
    const fields = parseFields(parseJson(body, JSON_ANSWER_BYTES_MAX), 'the whole');
    const message = fieldOf(fields, 'message');
    return {
      error: parseText(fields, 'error').slice(0, MESSAGE_CHARACTERS_MAX),
      message:
        typeof message === 'string' && message !== '' ? message.slice(0, MESSAGE_CHARACTERS_MAX) : undefined,
    };
  } catch {
    return undefined;
  }
}

/** A header that is a hint: what makes no sense says nothing. */
export function parseRottenNodes(header: string | null): number | undefined {
  return header !== null && /^[1-9][0-9]{0,8}$/.test(header) ? Number(header) : undefined;
}
