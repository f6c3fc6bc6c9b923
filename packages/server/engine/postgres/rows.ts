/** Converts between the model's rows and PostgreSQL's: bytes for hex, integers for states. No rule lives here. */
import type { Hash, RejectionCode } from '@holdfast/protocol';
import { isCollectable } from '../../core/eligibility.ts';
import { assertInvariant } from '../../core/invariant.ts';
import type {
  ContentRow,
  DiscardRow,
  NodeRow,
  NodeRowState,
  PackCodec,
  PackPlace,
  Space,
  SpaceCounters,
  SpaceKey,
  UploadEvidence,
  UploadRow,
} from '../../core/model.ts';
import type { SpaceHoldings } from '../../core/tenancy-ports.ts';
import {
  byteaToBytes,
  byteaToHex,
  bytesToBytea,
  hexToBytea,
  type SqlRow,
  type SqlValue,
} from './wire/sql-values.ts';

const STATES: readonly NodeRowState[] = ['waiting', 'ready', 'rotten', 'claimed'];

/** One array per column, for `unnest`. */
type Columns = (string | number | null)[][];

const flag = (value: boolean): string => (value ? 't' : 'f');

export function nodeFromSql(row: SqlRow): NodeRow {
  return {
    hash: byteaToHex(row.hash),
    state: STATES[row.state as number] as NodeRowState,
    size: row.size as number,
    canonicalSize: row.canonical_size as number,
    contentType: row.content_type as string,
    refs: byteaToBytes(row.refs),
    generation: byteaToHex(row.generation),
    storage: row.packed ? 'packed' : row.inline ? 'inline' : 'object',
    storedSize: (row.stored_size as number | null) ?? (row.canonical_size as number),
    leaseStartedAt: row.lease_started_at as number,
    leaseExpiresAt: row.lease_expires_at as number,
    childRefCount: row.child_ref_count as number,
    rootRefCount: row.root_ref_count as number,
    heldDomainCount: row.held_domain_count as number,
    waitingTouchedAt: row.waiting_touched_at as number,
    claimHeldUntil: row.claim_held_until as number,
  };
}

/** A node row, and whether the counter of leases counts it. */
export interface CountedNode {
  readonly row: NodeRow;
  readonly isLeaseCounted: boolean;
}

export function countedNodeFromSql(row: SqlRow): CountedNode {
  return { row: nodeFromSql(row), isLeaseCounted: row.lease_counted as boolean };
}

export const collectableFlag = (row: NodeRow): string => flag(isCollectable(row));
export const countedFlag = (node: CountedNode): string => flag(node.isLeaseCounted);

/** In the order of NODE_COLUMNS. */
export function nodesToSql(nodes: readonly CountedNode[]): Columns {
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
    column(({ storedSize, canonicalSize }) => (storedSize === canonicalSize ? null : storedSize)),
    column(({ storage }) => flag(storage === 'packed')),
  ];
}

export function uploadFromSql(row: SqlRow): UploadRow {
  const rejectionCode = row.rejection_code as RejectionCode | null;
  return {
    hash: byteaToHex(row.hash),
    generation: byteaToHex(row.generation),
    createdAt: row.created_at as number,
    urlExpiresAt: row.url_expires_at as number,
    touchedAt: row.touched_at as number,
    rejection:
      rejectionCode === null ? undefined : { code: rejectionCode, message: row.rejection_message as string },
    evidence: evidenceFromSql(row),
  };
}

function evidenceFromSql(row: SqlRow): UploadEvidence | undefined {
  if (row.verdict === null) return undefined;
  if (row.verdict === 0) {
    return { verdict: 'bad', code: row.bad_code as RejectionCode, message: row.bad_message as string };
  }
  return {
    verdict: 'good',
    canonicalSize: row.canonical_size as number,
    size: row.size as number,
    contentType: row.content_type as string,
    refs: byteaToBytes(row.refs),
    integrity: byteaToBytes(row.integrity),
    inline: row.inline as boolean,
  };
}

/** In the order of UPLOAD_COLUMNS. */
export function uploadsToSql(rows: readonly UploadRow[]): Columns {
  const column = (
    value: (row: UploadRow) => string | number | null | undefined,
  ): (string | number | null)[] => rows.map((row) => value(row) ?? null);
  const good = ({ evidence }: UploadRow) => (evidence?.verdict === 'good' ? evidence : undefined);
  const bad = ({ evidence }: UploadRow) => (evidence?.verdict === 'bad' ? evidence : undefined);
  return [
    column(({ hash }) => hexToBytea(hash)),
    column(({ generation }) => hexToBytea(generation)),
    column(({ createdAt }) => createdAt),
    column(({ urlExpiresAt }) => urlExpiresAt),
    column(({ touchedAt }) => touchedAt),
    column(({ urlExpiresAt, touchedAt }) => Math.max(urlExpiresAt, touchedAt)),
    column((row) => good(row)?.canonicalSize),
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
  ];
}

const optionalBytea = (bytes: Uint8Array | undefined): string | undefined => bytes && bytesToBytea(bytes);

export function contentFromSql(row: SqlRow): ContentRow {
  return {
    generation: byteaToHex(row.generation),
    canonicalSize: row.canonical_size as number,
    integrity: byteaToBytes(row.integrity),
    inlineBytes: row.inline_bytes === null ? undefined : byteaToBytes(row.inline_bytes),
    packed: placeFromSql(row),
    urlExpiresAt: row.url_expires_at as number,
  };
}

/** undefined: the bytes are an object of their own */
export function placeFromSql(row: SqlRow): PackPlace | undefined {
  if (row.pack === null) return undefined;
  return {
    pack: byteaToHex(row.pack),
    offset: row.pack_offset as number,
    storedLength: row.stored_length as number,
    codec: row.codec as PackCodec,
  };
}

/** The content half of a joined row; undefined when the node's generation has none. */
export function joinedContentFromSql(row: SqlRow): ContentRow | undefined {
  if (row.content_generation === null) return undefined;
  return contentFromSql({
    generation: row.content_generation,
    canonical_size: row.content_canonical_size,
    integrity: row.content_integrity,
    inline_bytes: row.content_inline_bytes,
    url_expires_at: row.content_url_expires_at,
    pack: row.content_pack,
    pack_offset: row.content_pack_offset,
    stored_length: row.content_stored_length,
    codec: row.content_codec,
  });
}

export function contentsToSql(rows: readonly ContentRow[]): Columns {
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
  ];
}

export function discardFromSql(row: SqlRow): DiscardRow {
  return {
    generation: byteaToHex(row.generation),
    dueAt: row.due_at as number,
    urlExpiresAt: row.url_expires_at as number,
  };
}

export function discardsToSql(rows: readonly DiscardRow[]): Columns {
  return [
    rows.map(({ generation }) => hexToBytea(generation)),
    rows.map(({ dueAt }) => dueAt),
    rows.map(({ urlExpiresAt }) => urlExpiresAt),
  ];
}

export const hashesToSql = (hashes: Iterable<Hash>): SqlValue => Array.from(hashes, hexToBytea);

/** PostgreSQL writes a uuid with dashes. */
export const spaceKeyFromSql = (uuid: unknown): SpaceKey => (uuid as string).replaceAll('-', '');

export function spaceFromSql({ app_id, space_id }: SqlRow): Space {
  assertInvariant(app_id !== null, 'a Space with rows has its names');
  return { appId: app_id as string, spaceId: space_id as string };
}

export function totalsFromSql(row: SqlRow): Omit<SpaceCounters, 'leasedNodeCount'> {
  return {
    nodeCount: row.node_count as number,
    readyContentBytes: row.ready_content_bytes as number,
    readyStoredBytes: row.ready_stored_bytes as number,
    waitingBytes: row.waiting_bytes as number,
    notReadyNodeCount: row.not_ready_node_count as number,
  };
}

export function holdingsFromSql(row: SqlRow): SpaceHoldings {
  return { pendingBytes: row.pending_bytes as number, commitRows: row.commit_rows as number };
}

/** Leases that have ended are still in the counter until upkeep takes them out. */
export function countersFromSql(row: SqlRow): SpaceCounters {
  const leasedNodeCount =
    (row.leased_count as number) - (row.ended_count as number) + (row.resumed_count as number);
  return { ...totalsFromSql(row), leasedNodeCount };
}
