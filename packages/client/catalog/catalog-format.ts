/** The catalog: a node that lists snapshots, and refers to the roots of their trees (docs/catalog-format.md). Pure. */

import {
  type Hash,
  isHash,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  NODE_REFS_MAX,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { checkArray, checkBytes, checkObject, describeValue, invalidArgument } from '../arguments.ts';
import { CatalogError } from './catalog-error.ts';

/** Twice as many digits as bytes, from the runtime's source of secrets: nobody else has the same. */
export function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export const CATALOG_CONTENT_TYPE = 'application/vnd.holdfast.catalog.v1+json';
/** A node without content that refers to at most 256 roots, for a catalog of more. */
export const CATALOG_INDEX_CONTENT_TYPE = 'application/vnd.holdfast.catalog-index.v1';
const CATALOG_VERSION = 1;

/** About sixty thousand snapshots. */
const CATALOG_CONTENT_BYTES_MAX = 16 * 1024 * 1024;
/** A list of that many bytes that names only the shortest snapshots has half as many. */
const VALUES_MAX = 2_000_000;
/** A catalog refers to at most 256 index nodes of at most 256 roots each. */
const CATALOG_ROOTS_MAX = NODE_REFS_MAX * NODE_REFS_MAX;
/** UTF-16 units of `host`, `path` and `random`. */
const CATALOG_TEXT_UNITS_MAX = 32_768;
/** The size limit of a message, in UTF-8. */
const MESSAGE_BYTES_MAX = 1024;

/** A tree as it was pushed under a name at one time. Fields of other writers may stand beside these, and are kept. */
export interface Snapshot {
  /** 16 hexadecimal digits, never used again */
  readonly id: string;
  readonly name: string;
  readonly root: Hash;
  /** when it was committed, by the clock of the writer: ms since the epoch */
  readonly time: number;
  /** where it came from */
  readonly host: string;
  readonly path: string;
  /** of the files of the tree */
  readonly bytes: number;
  /** no policy forgets it */
  readonly pinned?: true;
  /** what its writer said of it, at most 1,024 bytes of UTF-8 */
  readonly message?: string;
  /** where a copy took it from */
  readonly copiedFrom?: CopiedFrom;
}

export interface CopiedFrom {
  readonly app: string;
  readonly space: string;
}

export interface Catalog {
  /** Makes each catalog another node, though its list may have been there before. */
  readonly random: string;
  /** The catalogs it took the place of. They are named, not referred to: what was forgotten can go. */
  readonly previous: readonly Hash[];
  readonly snapshots: readonly Snapshot[];
  /** fields of other writers, which are kept */
  readonly others?: OtherFields | undefined;
}

/** Fields that this version does not know, as JSON has them. */
type OtherFields = Readonly<Record<string, unknown>>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** A name that could be taken for a hash or the beginning of one. */
const LIKE_A_HASH = /^[0-9a-fA-F]{8,64}$/;
const SNAPSHOT_ID = /^[0-9a-f]{16}$/;

export function isSnapshotName(text: string): boolean {
  return typeof text === 'string' && NAME.test(text) && !LIKE_A_HASH.test(text);
}

function isSnapshotId(text: string): boolean {
  return SNAPSHOT_ID.test(text);
}

/** By time; of one time by id, so that the order is the same everywhere. */
export function compareSnapshots(a: Snapshot, b: Snapshot): number {
  return a.time - b.time || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** Every snapshot of any list once, by time. Where lists differ: pinned if either says so, else the first by its fields. */
export function mergeSnapshots(lists: readonly (readonly Snapshot[])[]): readonly Snapshot[] {
  const byId = new Map<string, Snapshot>();
  for (const snapshot of lists.flat()) {
    const other = byId.get(snapshot.id);
    byId.set(snapshot.id, other === undefined ? snapshot : mergeTwo(snapshot, other));
  }
  return [...byId.values()].sort(compareSnapshots);
}

function mergeTwo(a: Snapshot, b: Snapshot): Snapshot {
  const first = a.time < b.time || (a.time === b.time && JSON.stringify(a) <= JSON.stringify(b)) ? a : b;
  return a.pinned || b.pinned ? { ...first, pinned: true } : first;
}

/** The distinct roots in the order of the list: a new snapshot changes the end only, so that most index nodes stay. */
export function listRoots(snapshots: readonly Snapshot[]): readonly Hash[] {
  return [...new Set([...snapshots].sort(compareSnapshots).map(({ root }) => root))];
}

/** The content of a catalog: JSON without spaces, fields and snapshots in one order. Throws CatalogError TOO_LARGE. */
export function encodeCatalog(catalog: Catalog): Uint8Array {
  const call = { name: 'encodeCatalog', requestOperation: 'updateRootRefs' } as const;
  checkObject(call, 'the catalog', catalog);
  const { random, previous, snapshots, others } = catalog;
  checkArray(call, 'its snapshots', snapshots);
  const text = JSON.stringify({
    version: CATALOG_VERSION,
    random,
    previous,
    snapshots: [...snapshots].sort(compareSnapshots).map(inOrder),
    ...others,
  });
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > CATALOG_CONTENT_BYTES_MAX || listRoots(snapshots).length > CATALOG_ROOTS_MAX) {
    throw new CatalogError(
      'TOO_LARGE',
      `${snapshots.length} snapshots are more than one list holds (${CATALOG_CONTENT_BYTES_MAX} bytes, ${CATALOG_ROOTS_MAX} different trees); forget some first`,
    );
  }
  return bytes;
}

function inOrder(snapshot: Snapshot): Snapshot {
  const { id, name, root, time, host, path, bytes, pinned, message, copiedFrom, ...others } = snapshot;
  const marks = {
    ...(pinned ? { pinned } : {}),
    ...(message ? { message } : {}),
    ...(copiedFrom ? { copiedFrom } : {}),
  };
  return { id, name, root, time, host, path, bytes, ...marks, ...others };
}

/** Throws CatalogError INVALID_ARGUMENT for what no message can be. */
export function checkMessage(message: string | undefined): string | undefined {
  if (message === undefined) return undefined;
  const isText = typeof message === 'string' && message.isWellFormed();
  if (isText && new TextEncoder().encode(message).length <= MESSAGE_BYTES_MAX) return message;
  throw new CatalogError(
    'INVALID_ARGUMENT',
    `a message is text of at most ${MESSAGE_BYTES_MAX} bytes in UTF-8`,
  );
}

/**
 * Whether a node of this content type lists snapshots, in this version or another.
 */
export function isCatalogContentType(contentType: string): boolean {
  return /^application\/vnd\.holdfast\.catalog\.v[0-9]+(\+[a-z0-9]+)?$/.test(contentType);
}

/** Throws CatalogError OTHER_VERSION, or MALFORMED for what no version 1 of a catalog is. */
export function parseCatalog(contentType: string, content: Uint8Array): Catalog {
  const call = { name: 'parseCatalog', requestOperation: 'readNodes' } as const;
  if (typeof contentType !== 'string') {
    throw invalidArgument(call, `the content type must be a string; it is ${describeValue(contentType)}`);
  }
  checkBytes(call, 'the content', content);
  if (contentType !== CATALOG_CONTENT_TYPE) {
    throw isCatalogContentType(contentType)
      ? otherVersion(contentType)
      : malformed(`its content type is ${contentType}`);
  }
  const fields = asObject(parseJson(content), 'the catalog');
  const version = fields.get('version');
  if (version !== CATALOG_VERSION) {
    throw Number.isSafeInteger(version) ? otherVersion(`version ${version}`) : malformed('it has no version');
  }
  const others = findOthers(fields, ['version', 'random', 'previous', 'snapshots']);
  const snapshots = asArray(fields.get('snapshots'), 'snapshots').map(parseSnapshot);
  if (new Set(snapshots.map(({ id }) => id)).size !== snapshots.length) {
    throw malformed('two snapshots have one id');
  }
  return {
    random: asRandom(fields.get('random')),
    previous: asArray(fields.get('previous'), 'previous').map((hash) => asHash(hash, 'previous')),
    snapshots: snapshots.sort(compareSnapshots),
    ...(Object.keys(others).length === 0 ? {} : { others }),
  };
}

function parseJson(content: Uint8Array): JsonValue {
  try {
    return parseStrictJson(content, { bytesMax: CATALOG_CONTENT_BYTES_MAX, valuesMax: VALUES_MAX });
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw malformed(`its content is no JSON: ${error.message}`);
  }
}

const SNAPSHOT_FIELDS = [
  'id',
  'name',
  'root',
  'time',
  'host',
  'path',
  'bytes',
  'pinned',
  'message',
  'copiedFrom',
];

function parseSnapshot(value: JsonValue): Snapshot {
  const fields = asObject(value, 'a snapshot');
  const id = asText(fields.get('id'), 'id');
  const name = asText(fields.get('name'), 'name');
  const pinned = fields.get('pinned');
  const message = fields.get('message');
  const copiedFrom = fields.get('copiedFrom');
  if (!isSnapshotId(id)) throw malformed(`${quote(id)} is no id of a snapshot`);
  if (!isSnapshotName(name)) throw malformed(`${quote(name)} is no name`);
  if (pinned !== undefined && typeof pinned !== 'boolean')
    throw malformed('pinned is neither true nor false');
  return inOrder({
    id,
    name,
    root: asHash(fields.get('root'), 'root'),
    time: asCount(fields.get('time'), 'time'),
    host: asText(fields.get('host'), 'host'),
    path: asText(fields.get('path'), 'path'),
    bytes: asCount(fields.get('bytes'), 'bytes'),
    ...(pinned ? { pinned } : {}),
    ...(message === undefined ? {} : { message: asText(message, 'message') }),
    ...(copiedFrom === undefined ? {} : { copiedFrom: parseCopiedFrom(copiedFrom) }),
    ...findOthers(fields, SNAPSHOT_FIELDS),
  });
}

function parseCopiedFrom(value: JsonValue): CopiedFrom {
  const fields = asObject(value, 'copiedFrom');
  const app = asText(fields.get('app'), 'the app of copiedFrom');
  const space = asText(fields.get('space'), 'the space of copiedFrom');
  return { app, space, ...findOthers(fields, ['app', 'space']) };
}

/** A change keeps what it does not know. */
function findOthers(fields: JsonObject, known: readonly string[]): OtherFields {
  return Object.fromEntries(
    [...fields].filter(([name]) => !known.includes(name)).map(([name, value]) => [name, toPlain(value)]),
  );
}

function toPlain(value: JsonValue): unknown {
  if (isJsonObject(value)) return Object.fromEntries([...value].map(([name, each]) => [name, toPlain(each)]));
  return Array.isArray(value) ? value.map(toPlain) : value;
}

function asObject(value: JsonValue | undefined, what: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw malformed(`${what} is no object`);
}

function asArray(value: JsonValue | undefined, what: string): readonly JsonValue[] {
  if (Array.isArray(value)) return value as readonly JsonValue[];
  throw malformed(`${what} is no array`);
}

function asText(value: JsonValue | undefined, what: string): string {
  if (typeof value === 'string' && value.length <= CATALOG_TEXT_UNITS_MAX) return value;
  throw malformed(`${what} is no text of at most ${CATALOG_TEXT_UNITS_MAX} characters`);
}

/** Nothing compares or keeps this text, so whatever another writer wrote there is accepted. */
function asRandom(value: JsonValue | undefined): string {
  return asText(typeof value === 'number' ? String(value) : value, 'random');
}

function asHash(value: JsonValue | undefined, what: string): Hash {
  if (isHash(value)) return value;
  throw malformed(`${what} is no hash`);
}

function asCount(value: JsonValue | undefined, what: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw malformed(`${what} is no integer of 0 or more`);
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 40));
}

function malformed(reason: string): CatalogError {
  return new CatalogError('MALFORMED', `this is no catalog: ${reason}`);
}

function otherVersion(which: string): CatalogError {
  return new CatalogError(
    'OTHER_VERSION',
    `the list of snapshots is of another version (${which}) than this program knows (${CATALOG_VERSION}); use a newer program`,
  );
}
