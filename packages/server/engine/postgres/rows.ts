/** Converts between the model's rows and PostgreSQL's: bytes for hex, integers for states. No rule lives here. */
import { type Hash, NODE_FIXED_HEADER_BYTES } from '@holdfast/protocol';
import type { ContentRow, DiscardRow, NodeRow, SpaceKey, UploadRow } from '../../core/model.ts';
import { isCollectable } from '../../core/node-row.ts';
import { judgedValues } from '../../core/rows/row-sums.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import {
  hasNoOtherPlace,
  isUploadWhole,
  rowCodecs,
  NODE_STATES as STATES,
  standingNode as standing,
} from '../rows/codecs.ts';
import { RowDamaged } from './damage.ts';
import { contentSum, type NodeSums, nodeSums, placeSum, sumOf } from './row-sums.ts';
import {
  byteaToBytes,
  byteaToHex,
  byteaToText,
  bytesToBytea,
  hexToBytea,
  type SqlRow,
  type SqlValue,
} from './wire/wire-messages.ts';

const codecs = rowCodecs({
  hexOf: byteaToHex,
  bytesOf: byteaToBytes,
  isTrue: (value) => value === true,
  requestIdOf: (row) => byteaToText(row.request_id),
});
export const { balance: unprovenBalance, history: unprovenHistory, commit: unprovenCommit } = codecs;
export const { place: placeFromSql, pack: unprovenPackIn, verdicts: unprovenVerdicts } = codecs;
export const { inspectedPack: inspectedPackFromSql } = codecs;
const { content: readContent, upload: unprovenUpload, discard: unprovenDiscard } = codecs;

/** One array per column, for `unnest`. */
type Columns = (string | number | null)[][];

const flag = (value: boolean): string => (value ? 't' : 'f');

/** @throws RowDamaged */
export function nodeFromSql(space: SpaceKey, row: SqlRow): NodeRow {
  return countedNodeFromSql(space, row).row;
}

export const unprovenNode = (row: SqlRow): NodeRow =>
  codecs.node(row, row.packed ? 'packed' : row.inline ? 'inline' : 'object');

export interface CountedNode {
  readonly row: NodeRow;
  readonly isLeaseCounted: boolean;
  /** as it was read and proven; undefined: not known */
  readonly fixedSum?: number | undefined;
}

/** A row as stored, proven or not. */
export interface ReadNode extends CountedNode {
  /** its values fit its sum; a row without one is believed */
  readonly isProven: boolean;
  /** so do those that no lease and no count changes: its hash, its refs and where its bytes are */
  readonly isFixedProven: boolean;
}

export function readNode(space: SpaceKey, found: SqlRow): ReadNode {
  const row = unprovenNode(found);
  const isLeaseCounted = found.lease_counted as boolean;
  if (found.row_sum === null) {
    const isProven = found.fixed_sum === null && isWholeNode(row);
    return { row, isLeaseCounted, isProven, isFixedProven: isProven };
  }
  const sums = sumsOfNode(space, found, row);
  const isFixedProven = found.fixed_sum === sums.fixed;
  const isProven = isFixedProven && found.row_sum === sums.row;
  return { row, isLeaseCounted, isProven, isFixedProven, fixedSum: isProven ? sums.fixed : undefined };
}

/** A row that is older than sums must not contradict itself. */
export const isWholeNode = ({ canonicalSize, size, contentType, refs }: NodeRow): boolean =>
  canonicalSize === NODE_FIXED_HEADER_BYTES + Buffer.byteLength(contentType) + refs.length + size;

/** The sums that a row with these values has. */
export function sumsOfNode(space: SpaceKey, found: SqlRow, row = unprovenNode(found)): NodeSums {
  return nodeSums(space, row, {
    state: found.state as number,
    isInline: found.inline as boolean,
    isPacked: found.packed as boolean,
    storedSize: found.stored_size as number | null,
    isCollectable: found.collectable as boolean,
    isLeaseCounted: found.lease_counted as boolean,
  });
}

/** @throws RowDamaged */
export function countedNodeFromSql(space: SpaceKey, found: SqlRow): CountedNode {
  const node = readNode(space, found);
  if (!node.isProven) throw new RowDamaged('nodes', `node ${node.row.hash}`);
  return node;
}

/** The row as stored, damaged or not. */
export const standingNode = (found: SqlRow): NodeRow => standing(unprovenNode(found));

export const collectableFlag = (row: NodeRow): string => flag(isCollectable(row));
export const countedFlag = (node: CountedNode): string => flag(node.isLeaseCounted);

const storedSizeOf = ({ storedSize, canonicalSize }: NodeRow): number | null =>
  storedSize === canonicalSize ? null : storedSize;

/** Two columns: `fixed_sum` and `row_sum`. */
export function nodeSumsToSql(space: SpaceKey, nodes: readonly CountedNode[]): [number[], number[]] {
  const sums = nodes.map(({ row, isLeaseCounted, fixedSum }) => {
    const columns = {
      state: STATES.indexOf(row.state),
      isInline: row.storage === 'inline',
      isPacked: row.storage === 'packed',
      storedSize: storedSizeOf(row),
      isCollectable: isCollectable(row),
      isLeaseCounted,
    };
    return nodeSums(space, row, columns, fixedSum);
  });
  return [sums.map(({ fixed }) => fixed), sums.map(({ row }) => row)];
}

/** In the order of NODE_COLUMNS. */
export function nodesToSql(space: SpaceKey, nodes: readonly CountedNode[]): Columns {
  const column = (value: (node: NodeRow) => string | number | null): (string | number | null)[] =>
    nodes.map(({ row }) => value(row));
  return [
    column(({ hash }) => hexToBytea(hash)),
    column(({ generation }) => hexToBytea(generation)),
    column(({ size }) => size),
    column(({ canonicalSize }) => canonicalSize),
    column(({ leaseStartedAt }) => leaseStartedAt),
    column(({ leaseExpiresAt }) => leaseExpiresAt),
    column(({ childRefCount }) => childRefCount),
    column(({ rootRefCount }) => rootRefCount),
    column(({ waitingTouchedAt }) => waitingTouchedAt),
    column(({ claimHeldUntil }) => claimHeldUntil),
    column(({ heldDomainCount }) => heldDomainCount),
    column(({ state }) => STATES.indexOf(state)),
    column(({ storage }) => flag(storage === 'inline')),
    column(collectableFlag),
    nodes.map(countedFlag),
    column(({ contentType }) => contentType),
    column(({ refs }) => bytesToBytea(refs)),
    column(storedSizeOf),
    column(({ storage }) => flag(storage === 'packed')),
    ...nodeSumsToSql(space, nodes),
  ];
}

/** @throws RowDamaged */
export function uploadFromSql(space: SpaceKey, row: SqlRow): UploadRow {
  const upload = findProvenUpload(space, row);
  if (upload === undefined) throw new RowDamaged('uploads', `the upload of node ${byteaToHex(row.hash)}`);
  return upload;
}

/** undefined: the row is damaged */
export function findProvenUpload(space: SpaceKey, row: SqlRow): UploadRow | undefined {
  const isProven = row.row_sum === null || (isUploadWhole(row) && row.row_sum === sumOfUpload(space, row));
  return isProven ? unprovenUpload(row) : undefined;
}

export const sumOfUpload = (space: SpaceKey, row: SqlRow): number =>
  uploadSum(space, unprovenUpload(row), row.active_at as number);

function uploadSum(space: SpaceKey, row: UploadRow, activeAt: number): number {
  const { hash, generation, createdAt, urlExpiresAt, touchedAt } = row;
  const fixed = ['uploads', space, hash, generation, createdAt, urlExpiresAt, touchedAt, activeAt];
  return sumOf(...fixed, ...judgedValues(row));
}

const activeUntil = ({ urlExpiresAt, touchedAt }: UploadRow): number => Math.max(urlExpiresAt, touchedAt);

/** In the order of UPLOAD_COLUMNS. */
export function uploadsToSql(space: SpaceKey, rows: readonly UploadRow[]): Columns {
  const column = (value: (row: UploadRow) => string | number | null | undefined) =>
    rows.map((row) => value(row) ?? null);
  const good = ({ evidence }: UploadRow) => (evidence?.verdict === 'good' ? evidence : undefined);
  const bad = ({ evidence }: UploadRow) => (evidence?.verdict === 'bad' ? evidence : undefined);
  return [
    column(({ hash }) => hexToBytea(hash)),
    column(({ generation }) => hexToBytea(generation)),
    column(({ createdAt }) => createdAt),
    column(({ urlExpiresAt }) => urlExpiresAt),
    column(({ touchedAt }) => touchedAt),
    column(activeUntil),
    column((row) => (row.evidence === undefined ? row.seenBytes : good(row)?.canonicalSize)),
    column((row) => good(row)?.size),
    column(({ evidence }) => evidence && (evidence.verdict === 'good' ? 1 : 0)),
    column((row) => good(row) && flag(good(row)?.inline ?? false)),
    column(({ rejection }) => rejection?.code),
    column(({ rejection }) => rejection?.message),
    column((row) => bad(row)?.code),
    column((row) => bad(row)?.message),
    column((row) => good(row)?.contentType),
    column((row) => optionalBytea(good(row)?.refs)),
    column((row) => optionalBytea(good(row)?.integrity)),
    column((row) => uploadSum(space, row, activeUntil(row))),
  ];
}

const optionalBytea = (bytes: Uint8Array | undefined): string | undefined => bytes && bytesToBytea(bytes);

/** @throws RowDamaged unless it names an object of its own: then only how long a URL can write that is unsure */
export function contentFromSql(space: SpaceKey, row: SqlRow, now: number): ContentRow {
  const content = readContent(row);
  if (isContentProven(space, row, content)) return content;
  if (content.packed !== undefined || content.inlineBytes !== undefined)
    throw new RowDamaged('contents', `the content ${content.generation}`);
  // No URL of an upload is good for more than 7 days (docs/operations.md).
  return { ...content, urlExpiresAt: now + 8 * 86_400_000 };
}

/** undefined: the row is damaged */
export function findProvenContent(space: SpaceKey, row: SqlRow): ContentRow | undefined {
  const content = readContent(row);
  return isContentProven(space, row, content) ? content : undefined;
}

/** `row` may have no inline bytes. */
export function isContentProven(space: SpaceKey, row: SqlRow, content: ContentRow): boolean {
  const { row_sum: sum, place_sum: place } = row;
  if (sum === null) return place === null;
  return hasNoOtherPlace(row) && sum === contentSum(space, content) && place === placeSum(space, content);
}

export function sumsOfContent(
  space: SpaceKey,
  row: SqlRow,
): { readonly row: number; readonly place: number } {
  const content = readContent(row);
  return { row: contentSum(space, content), place: placeSum(space, content) };
}

export type FoundNode = { readonly node: NodeRow; readonly content: ContentRow | undefined };

/** The sizes say the same thing twice. @throws StoreUnavailable if they differ: a row that is older than sums may be wrong */
export function foundNodeFromSql(space: SpaceKey, row: SqlRow): FoundNode {
  const found = { node: nodeFromSql(space, row), content: joinedContentFromSql(space, row) };
  if (found.content === undefined || found.content.canonicalSize === found.node.canonicalSize) return found;
  const message =
    'the row of a node contradicts the record of its bytes: holdfast check --repair makes it anew';
  throw new StoreUnavailable(message, { isDamage: true });
}

/** The content half of a joined row. A damaged record proves no byte, so it is none: the next upload heals the node. */
export function joinedContentFromSql(space: SpaceKey, row: SqlRow): ContentRow | undefined {
  if (row.content_generation === null) return undefined;
  return findProvenContent(space, {
    generation: row.content_generation,
    canonical_size: row.content_canonical_size,
    integrity: row.content_integrity,
    inline_bytes: row.content_inline_bytes,
    url_expires_at: row.content_url_expires_at,
    pack: row.content_pack,
    pack_offset: row.content_pack_offset,
    stored_length: row.content_stored_length,
    codec: row.content_codec,
    row_sum: row.content_row_sum,
    place_sum: row.content_place_sum,
  });
}

export function contentsToSql(space: SpaceKey, rows: readonly ContentRow[]): Columns {
  return [
    rows.map(({ generation }) => hexToBytea(generation)),
    rows.map(({ canonicalSize }) => canonicalSize),
    rows.map(({ urlExpiresAt }) => urlExpiresAt),
    rows.map(({ integrity }) => bytesToBytea(integrity)),
    rows.map(({ inlineBytes }) => optionalBytea(inlineBytes) ?? null),
    rows.map(({ packed }) => packed?.pack ?? null).map((pack) => pack && hexToBytea(pack)),
    rows.map(({ packed }) => packed?.offset ?? null),
    rows.map(({ packed }) => packed?.storedLength ?? null),
    rows.map(({ packed }) => packed?.codec ?? null),
    rows.map((row) => contentSum(space, row)),
    rows.map((row) => placeSum(space, row)),
  ];
}

/** undefined: the row is damaged, and nothing is deleted on its word */
export function findDiscardInSql(space: SpaceKey, row: SqlRow): DiscardRow | undefined {
  return row.row_sum === null || row.row_sum === sumOfDiscard(space, row) ? unprovenDiscard(row) : undefined;
}

export const sumOfDiscard = (space: SpaceKey, row: SqlRow): number => discardSum(space, unprovenDiscard(row));

const discardSum = (space: SpaceKey, { generation, dueAt, urlExpiresAt }: DiscardRow): number =>
  sumOf('discards', space, generation, dueAt, urlExpiresAt);

export function discardsToSql(space: SpaceKey, rows: readonly DiscardRow[]): Columns {
  return [
    rows.map(({ generation }) => hexToBytea(generation)),
    rows.map(({ dueAt }) => dueAt),
    rows.map(({ urlExpiresAt }) => urlExpiresAt),
    rows.map((row) => discardSum(space, row)),
  ];
}

/** @throws RowDamaged */
export function looseEdgeFromSql(
  space: SpaceKey,
  row: SqlRow,
): { readonly hash: Hash; readonly count: number } {
  const [hash, count] = [byteaToHex(row.hash), row.count as number];
  if (row.row_sum !== null && row.row_sum !== sumOfLooseEdge(space, hash, count))
    throw new RowDamaged('loose_edges', `node ${hash}`);
  return { hash, count };
}

export const sumOfLooseEdge = (space: SpaceKey, hash: Hash, count: number): number =>
  sumOf('loose_edges', space, hash, count);

/** Hashes, counts and sums. */
export function looseEdgesToSql(
  space: SpaceKey,
  edges: readonly { readonly hash: Hash; readonly count: number }[],
): SqlValue[] {
  return [
    edges.map(({ hash }) => hexToBytea(hash)),
    edges.map(({ count }) => count),
    edges.map(({ hash, count }) => sumOfLooseEdge(space, hash, count)),
  ];
}

export const hashesToSql = (hashes: Iterable<Hash>): SqlValue => Array.from(hashes, hexToBytea);
