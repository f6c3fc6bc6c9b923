/** Converts between the model's rows and SQLite's: bytes for hex, integers for states. No rule lives here. */
import type { Hash } from '@holdfast/protocol';
import type {
  ContentRow,
  Generation,
  NodeRow,
  NodeRowState,
  NodeStorage,
  UploadEvidence,
  UploadRow,
} from '../../core/model.ts';
import { isCollectable } from '../../core/node-row.ts';
import { contentSum, discardSum, isSum, nodeSum, uploadSum } from '../../core/rows/row-sums.ts';
import { RowDamaged } from '../../core/store-failure.ts';
import { hasNoOtherPlace, isUploadWhole, NODE_STATES, rowCodecs, standingNode } from '../rows/codecs.ts';
import type { SqlRow } from './statements.ts';

const STATE_CODES: Readonly<Record<NodeRowState, number>> = { waiting: 0, ready: 1, rotten: 2, claimed: 3 };

export function stateCode(state: NodeRowState): number {
  return STATE_CODES[state];
}

const STORAGES: readonly NodeStorage[] = ['object', 'inline', 'packed'];
const STORAGE_CODES: Readonly<Record<NodeStorage, number>> = { object: 0, inline: 1, packed: 2 };

export function storageCode(storage: NodeStorage): number {
  return STORAGE_CODES[storage];
}

/** The column of a node's stored size: most nodes are stored as they are, and need none. */
export function storedSizeToSql({ storedSize, canonicalSize }: NodeRow): number | null {
  return storedSize === canonicalSize ? null : storedSize;
}

export function hexToBytes(hex: string): Uint8Array {
  return Uint8Array.fromHex(hex);
}

/** A value that is no bytes any more has a text that no bytes have, so the sum of its row is another. */
export function bytesToHex(bytes: Uint8Array): string {
  return bytes instanceof Uint8Array ? bytes.toHex() : `not bytes: ${String(bytes)}`;
}

const NODE_NUMBERS = [
  ...[
    'space',
    'size',
    'canonical_size',
    'stored_size',
    'lease_started_at',
    'lease_expires_at',
    'child_ref_count',
  ],
  ...['root_ref_count', 'held_domain_count', 'waiting_touched_at', 'claim_held_until'],
];

/** The table accepts no values of another type, but a flipped bit can change the type of a stored value. */
function isSoundNode(row: SqlRow): boolean {
  for (const name of NODE_NUMBERS) if (!Number.isInteger(row[name])) return false;
  const { refs, generation, content_type } = row;
  return refs instanceof Uint8Array && generation instanceof Uint8Array && typeof content_type === 'string';
}

/** `hash` saves a conversion if the caller knows it. @throws StoreUnavailable, as damage, if the row is not as it was written */
export function nodeFromSql(row: SqlRow, hash?: Hash): NodeRow {
  const node = decodeNode(row, hash);
  if (node !== undefined && isSum(row.row_sum, nodeSum(row.space as number, node))) return node;
  throw damagedRow('node', bytesToHex(row.hash as Uint8Array));
}

/** In the order of `insertNode`. Flat, because first pushes do little else. */
export function nodeToSql(space: number, row: NodeRow): (string | number | Uint8Array | null)[] {
  return [
    space,
    hexToBytes(row.hash),
    stateCode(row.state),
    row.size,
    row.canonicalSize,
    row.contentType,
    row.refs,
    hexToBytes(row.generation),
    storageCode(row.storage),
    row.leaseStartedAt,
    row.leaseExpiresAt,
    row.childRefCount,
    row.rootRefCount,
    row.heldDomainCount,
    row.waitingTouchedAt,
    row.claimHeldUntil,
    collectableCode(row),
    storedSizeToSql(row),
    nodeSum(space, row),
  ];
}

/** For walks, which leave a damaged row where it is. */
export function soundNodes(row: SqlRow): readonly NodeRow[] {
  return isNodeSound(row) ? [nodeFromSql(row)] : [];
}

/** Whether the row is as it was written. */
export function isNodeSound(row: SqlRow): boolean {
  const node = decodeNode(row);
  return node !== undefined && isSum(row.row_sum, nodeSum(row.space as number, node));
}

/** The error for a row whose values do not match its sum, or whose column has an impossible value. Requests that need the row fail. */
export function damagedRow(kind: string, key: string): RowDamaged {
  const message = `the row of ${kind} ${key} is damaged: run check --repair, check the disk, or restore a backup`;
  return new RowDamaged(message);
}

const codecs = rowCodecs({
  hexOf: (value) => bytesToHex(value as Uint8Array),
  bytesOf: (value) => value as Uint8Array,
  isTrue: (value) => value === 1,
  // A text may hold anything, so a copy reads it as bytes.
  requestIdOf: ({ request_id: text, request_bytes: bytes }) =>
    bytes instanceof Uint8Array ? Buffer.from(bytes).toString() : (text as string),
});
export const { discard: discardFromSql, upload: decodeUpload, pack: decodePackIn } = codecs;
export const { verdicts: verdictsIn, balance: balanceFromSql, history: historyFromSql } = codecs;
export const { commit: commitFromSql, inspectedPack: inspectedPackFromSql } = codecs;

/** Without a look at the sum. Undefined: it has values that no row has. */
export function decodeNode(row: SqlRow, hash?: Hash): NodeRow | undefined {
  const storage = STORAGES[row.storage as number];
  if (NODE_STATES[row.state as number] === undefined || storage === undefined) return undefined;
  return isSoundNode(row) ? codecs.node(row, storage, hash) : undefined;
}

/** The row as stored, damaged or not. */
export function unprovenNode(row: SqlRow, hash: Hash): NodeRow {
  const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array(0));
  const texts = {
    content_type: String(row.content_type),
    refs: bytes(row.refs),
    generation: bytes(row.generation),
  };
  const isNumber = (name: string): boolean => typeof row[name] === 'number';
  const numbers = NODE_NUMBERS.filter((name) => !isNumber(name)).map((name) => [name, 0]);
  const storage = (isNumber('storage') && STORAGES[row.storage as number]) || 'object';
  const state = isNumber('state') ? row.state : -1;
  return standingNode(
    codecs.node({ ...row, ...texts, state, ...Object.fromEntries(numbers) }, storage, hash),
  );
}

export function collectableCode(row: NodeRow): number {
  return isCollectable(row) ? 1 : 0;
}

/** @throws StoreUnavailable, as damage */
export function contentFromSql(row: SqlRow, generation?: Generation): ContentRow {
  const content = decodeContent(row, generation);
  if (content !== undefined && hasContentSum(row, content)) return content;
  throw damagedRow('content', bytesToHex(row.generation as Uint8Array));
}

/** undefined: the row is not as it was written */
export function findSoundContent(row: SqlRow): ContentRow | undefined {
  const content = decodeContent(row);
  return content !== undefined && hasContentSum(row, content) ? content : undefined;
}

function hasContentSum(row: SqlRow, content: ContentRow): boolean {
  return isSum(row.row_sum, contentSum(row.space as number, content));
}

/** Without a look at the sum. Undefined: it has values that no row has. */
export function decodeContent(row: SqlRow, generation?: Generation): ContentRow | undefined {
  const { pack, pack_offset: offset, stored_length: storedLength, codec } = row;
  const isPlace =
    pack instanceof Uint8Array
      ? typeof offset === 'number' && typeof storedLength === 'number' && (codec === 0 || codec === 1)
      : row.pack === null && hasNoOtherPlace(row);
  const isWhole =
    isPlace &&
    typeof row.canonical_size === 'number' &&
    typeof row.url_expires_at === 'number' &&
    row.integrity instanceof Uint8Array;
  if (!isWhole) return undefined;
  const content = codecs.content(row, generation);
  // No sum covers inline bytes. If their length is not that of the record, they are damage, and are dropped.
  return content.inlineBytes === undefined || isInline(content)
    ? content
    : { ...content, inlineBytes: undefined };
}

const isInline = ({ packed, inlineBytes, canonicalSize }: ContentRow): boolean =>
  packed === undefined && inlineBytes?.length === canonicalSize;

/** The content half of a joined row; undefined when the node's generation has none in this Space. */
export function joinedContentFromSql(row: SqlRow, space: number): ContentRow | undefined {
  if (row.content_generation === null || row.content_space !== space) return undefined;
  return contentFromSql({
    ...row,
    generation: row.content_generation,
    space: row.content_space,
    canonical_size: row.content_canonical_size,
    row_sum: row.content_row_sum,
  });
}

/** Whether the row is as it was written. */
export function isDiscardSound(row: SqlRow): boolean {
  return isSum(row.row_sum, discardSum(row.space as number, discardFromSql(row)));
}

/** @throws StoreUnavailable, as damage */
export function uploadFromSql(row: SqlRow, hash?: Hash): UploadRow {
  const upload = decodeUpload(row, hash);
  if (hasUploadSum(row, upload)) return upload;
  throw damagedRow('the upload of', bytesToHex(row.hash as Uint8Array));
}

/** Whether the row is as it was written. */
export function isUploadSound(row: SqlRow): boolean {
  return hasUploadSum(row, decodeUpload(row));
}

function hasUploadSum(row: SqlRow, upload: UploadRow): boolean {
  return isUploadWhole(row) && isSum(row.row_sum, uploadSum(row.space as number, upload));
}

export function verdictCode(evidence: UploadEvidence | undefined): number | null {
  if (evidence === undefined) return null;
  return evidence.verdict === 'good' ? 1 : 0;
}

/** In the order of `insertUpload`. */
export function uploadToSql(space: number, row: UploadRow): (string | number | Uint8Array | null)[] {
  const { hash, generation, createdAt, urlExpiresAt, touchedAt } = row;
  const keys = [space, hexToBytes(hash), hexToBytes(generation)];
  return [...keys, createdAt, urlExpiresAt, touchedAt, ...uploadVerdictToSql(row), uploadSum(space, row)];
}

/** In the order of `insertContent`: bytes that are in no pack. */
export function contentToSql(space: number, row: ContentRow): (string | number | Uint8Array | null)[] {
  const { generation, canonicalSize, integrity, inlineBytes = null, urlExpiresAt } = row;
  const sum = contentSum(space, row);
  return [hexToBytes(generation), space, canonicalSize, integrity, inlineBytes, urlExpiresAt, sum];
}

/** Values for the columns rejection_code … inline, in the table's order. */
export function uploadVerdictToSql(row: UploadRow): (string | number | Uint8Array | null)[] {
  const { rejection, evidence, seenBytes } = row;
  const bad = evidence?.verdict === 'bad' ? evidence : undefined;
  const good = evidence?.verdict === 'good' ? evidence : undefined;
  return [
    rejection?.code ?? null,
    rejection?.message ?? null,
    verdictCode(evidence),
    bad?.code ?? null,
    bad?.message ?? null,
    good?.canonicalSize ?? (evidence === undefined ? seenBytes : undefined) ?? null,
    good?.size ?? null,
    good?.contentType ?? null,
    good?.refs ?? null,
    good?.integrity ?? null,
    good === undefined ? null : Number(good.inline),
  ];
}
