/** Requests of the interface, untrusted to typed. Every refusal is an ApiError whose message names the field and the rule. */

import { type Hash, isHash } from './hash.ts';
import { hasAtMostCodePoints } from './ids.ts';
import {
  GC_NODES_DEFAULT,
  GC_NODES_MAX,
  REQUEST_ID_CHARACTERS_MAX,
  ROOT_REF_CHANGES_MAX,
  ROOT_REF_DELTA_MAX,
  ROOT_REFS_PAGE_DEFAULT,
  ROOT_REFS_PAGE_MAX,
} from './limits.ts';
import { invalid, parseBody, readPositiveInteger } from './request-body.ts';
import { isJsonObject, type JsonValue, quoted, SAFE_DIGITS } from './strict-json.ts';

export interface LeaseRequest {
  /** as asked, > 0; the operation clamps it */
  readonly leaseDurationMs: number;
}

export interface GcRequest {
  /** 1 to GC_NODES_MAX */
  readonly maxNodes: number;
}

export interface UpdateRootRefsRequest {
  readonly requestId: string;
  /** 1 to 1000, in hash order, each hash once */
  readonly changes: readonly RootRefChange[];
}

export interface ListRootRefsQuery {
  readonly limit: number;
  readonly cursor?: string;
}

export type QueryParameters = Iterable<readonly [string, string]>;

const encoder = new TextEncoder();
const LEASE_PREFIX = encoder.encode('{"leaseDurationMs":');

const PAGE_LIMIT = /^[1-9][0-9]{0,2}$/;

/** Body of leaseNode. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseLeaseRequest(bytes: Uint8Array): LeaseRequest {
  const plain = findPlainLeaseDuration(bytes);
  if (plain !== undefined) return { leaseDurationMs: plain };
  const body = parseBody(bytes, ['leaseDurationMs']);
  return { leaseDurationMs: readPositiveInteger(body.get('leaseDurationMs'), 'leaseDurationMs') };
}

/** Body of runGc; empty means the default. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseGcRequest(bytes: Uint8Array): GcRequest {
  if (bytes.length === 0) return { maxNodes: GC_NODES_DEFAULT };
  const body = parseBody(bytes, ['maxNodes']);
  if (!body.has('maxNodes')) return { maxNodes: GC_NODES_DEFAULT };
  return { maxNodes: Math.min(readPositiveInteger(body.get('maxNodes'), 'maxNodes'), GC_NODES_MAX) };
}

/** Body of updateRootRefs. Throws ApiError INVALID_REQUEST, PAYLOAD_TOO_LARGE. */
export function parseUpdateRootRefsRequest(bytes: Uint8Array): UpdateRootRefsRequest {
  const body = parseBody(bytes, ['requestId', 'changes']);
  return { requestId: readRequestId(body.get('requestId')), changes: readChanges(body.get('changes')) };
}

/** Query of listRootRefs. Throws ApiError INVALID_REQUEST, also for unknown or repeated parameters. */
export function parseListRootRefsQuery(query: QueryParameters): ListRootRefsQuery {
  let limit: number | undefined;
  let cursor: string | undefined;
  for (const [name, value] of query) {
    if (name === 'limit') {
      if (limit !== undefined) throw invalid('query parameter limit occurs twice; give it once');
      limit = readLimit(value);
    } else if (name === 'cursor') {
      if (cursor !== undefined) throw invalid('query parameter cursor occurs twice; give it once');
      if (value === '') throw invalid('query parameter cursor is empty; leave it out for the first page');
      cursor = value;
    } else {
      throw invalid(`query parameter ${quoted(name)} is not known; this route takes limit and cursor`);
    }
  }
  return { limit: limit ?? ROOT_REFS_PAGE_DEFAULT, ...(cursor === undefined ? {} : { cursor }) };
}

/** Every other Space route takes no query parameter at all. Throws ApiError INVALID_REQUEST. */
export function parseNoQuery(query: QueryParameters): void {
  for (const [name] of query) {
    throw invalid(`query parameter ${quoted(name)} is not known; this route takes none`);
  }
}

/** The usual body, exactly `{"leaseDurationMs":N}`, in 0.2 µs instead of 3. `undefined`: the general parser must judge. */
function findPlainLeaseDuration(bytes: Uint8Array): number | undefined {
  const prefixLength = LEASE_PREFIX.length;
  const end = bytes.length - 1;
  // Longer bodies are odd enough for the general parser.
  if (end <= prefixLength || end >= 64 || bytes[end] !== 0x7d /* } */) return undefined;
  for (let index = 0; index < prefixLength; index++) {
    if (bytes[index] !== LEASE_PREFIX[index]) return undefined;
  }
  let at = prefixLength;
  while (bytes[at] === 0x20) at++; // spaces
  if (end - at > SAFE_DIGITS || bytes[at] === 0x30) return undefined; // a leading 0
  let value = 0;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte < 0x30 || byte > 0x39) return undefined; // no digit
    value = value * 10 + byte - 0x30;
  }
  return value > 0 ? value : undefined;
}

function readRequestId(value: JsonValue | undefined): string {
  const rule = `it must be a string of 1 to ${REQUEST_ID_CHARACTERS_MAX} characters`;
  if (value === undefined) throw invalid(`requestId is missing; ${rule}`);
  if (typeof value !== 'string' || value === '' || !hasAtMostCodePoints(value, REQUEST_ID_CHARACTERS_MAX)) {
    throw invalid(`requestId is not valid; ${rule}`);
  }
  return value;
}

function readChanges(value: JsonValue | undefined): readonly RootRefChange[] {
  const rule = `it must be an object of 1 to ${ROOT_REF_CHANGES_MAX} hashes, each with a delta`;
  if (value === undefined) throw invalid(`changes is missing; ${rule}`);
  if (!isJsonObject(value)) throw invalid(`changes is not an object; ${rule}`);
  if (value.size < 1 || value.size > ROOT_REF_CHANGES_MAX) {
    throw invalid(`changes has ${value.size} entries; ${rule}`);
  }
  const changes: RootRefChange[] = [];
  // Strings sort several times faster natively than records by a comparator.
  for (const hash of [...value.keys()].sort()) {
    const delta = value.get(hash);
    if (!isHash(hash)) {
      throw invalid(
        `changes has the key ${quoted(hash)}; every key must be 64 lowercase hexadecimal characters`,
      );
    }
    if (typeof delta !== 'number' || !Number.isSafeInteger(delta) || Math.abs(delta) > ROOT_REF_DELTA_MAX) {
      throw invalid(
        `changes.${hash} must be an integer from -${ROOT_REF_DELTA_MAX} to ${ROOT_REF_DELTA_MAX}`,
      );
    }
    changes.push({ hash, delta });
  }
  return changes;
}

function readLimit(value: string): number {
  const limit = PAGE_LIMIT.test(value) ? Number(value) : 0;
  if (limit < 1 || limit > ROOT_REFS_PAGE_MAX) {
    throw invalid(`query parameter limit must be an integer from 1 to ${ROOT_REFS_PAGE_MAX}`);
  }
  return limit;
}

interface RootRefChange {
  readonly hash: Hash;
  /** safe integer; 0 is allowed */
  readonly delta: number;
}

/** One text per map: entries in hash order, deltas in plain decimal, whatever the request wrote. Its SHA-256 identifies the payload. */
export function canonicalRootRefPayload(changes: readonly RootRefChange[]): string {
  const sorted = isSorted(changes) ? changes : changes.toSorted(byHash);
  let text = '{';
  for (const { hash, delta } of sorted) {
    text += `${text === '{' ? '' : ','}"${hash}":${delta}`;
  }
  return `${text}}`;
}

function byHash(left: RootRefChange, right: RootRefChange): number {
  if (left.hash === right.hash) return 0;
  return left.hash < right.hash ? -1 : 1;
}

function isSorted(changes: readonly RootRefChange[]): boolean {
  for (let index = 1; index < changes.length; index++) {
    if ((changes[index - 1] as RootRefChange).hash > (changes[index] as RootRefChange).hash) return false;
  }
  return true;
}
