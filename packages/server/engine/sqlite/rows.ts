/** Converts between the model's rows and SQLite's: bytes for hex, integers for states. No rule lives here. */
import type { Hash, RejectionCode } from '@holdfast/protocol';
import { isCollectable } from '../../core/eligibility.ts';
import type {
  ContentRow,
  DiscardRow,
  Generation,
  NodeRow,
  NodeRowState,
  NodeStorage,
  PackPlace,
  UploadEvidence,
  UploadRow,
} from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { DatabaseDamaged } from './database.ts';
import type { SqlRow } from './statements.ts';

const STATES: readonly NodeRowState[] = ['waiting', 'ready', 'rotten', 'claimed'];
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

export function bytesToHex(bytes: Uint8Array): string {
  return bytes.toHex();
}

const NODE_NUMBERS = [
  ...['size', 'canonical_size', 'stored_size', 'lease_started_at', 'lease_expires_at', 'child_ref_count'],
  ...['root_ref_count', 'held_domain_count', 'waiting_touched_at', 'claim_held_until'],
];

/** The table accepts no values of another type, but a flipped bit can change the type of a stored value. */
function isSoundNode(row: SqlRow): boolean {
  for (const name of NODE_NUMBERS) if (typeof row[name] !== 'number') return false;
  const { refs, generation, content_type } = row;
  return refs instanceof Uint8Array && generation instanceof Uint8Array && typeof content_type === 'string';
}

/** `hash` saves a conversion if the caller knows it. */
export function nodeFromSql(row: SqlRow, hash?: Hash): NodeRow {
  const state = STATES[row.state as number];
  const storage = STORAGES[row.storage as number];
  if (state === undefined || storage === undefined || !isSoundNode(row)) {
    throw new StoreUnavailable(
      'the row of a node is damaged: check the disk and restore a backup of the folder',
      {
        cause: new DatabaseDamaged('a node has a value that is none of its column'),
      },
    );
  }
  return {
    hash: hash ?? bytesToHex(row.hash as Uint8Array),
    state,
    size: row.size as number,
    canonicalSize: row.canonical_size as number,
    contentType: row.content_type as string,
    refs: row.refs as Uint8Array,
    generation: bytesToHex(row.generation as Uint8Array),
    storage,
    storedSize: row.stored_size as number,
    leaseStartedAt: row.lease_started_at as number,
    leaseExpiresAt: row.lease_expires_at as number,
    childRefCount: row.child_ref_count as number,
    rootRefCount: row.root_ref_count as number,
    heldDomainCount: row.held_domain_count as number,
    waitingTouchedAt: row.waiting_touched_at as number,
    claimHeldUntil: row.claim_held_until as number,
  };
}

export function collectableCode(row: NodeRow): number {
  return isCollectable(row) ? 1 : 0;
}

export function contentFromSql(row: SqlRow, generation?: Generation): ContentRow {
  return {
    generation: generation ?? bytesToHex(row.generation as Uint8Array),
    canonicalSize: row.canonical_size as number,
    integrity: row.integrity as Uint8Array,
    inlineBytes: (row.inline_bytes as Uint8Array | null) ?? undefined,
    packed: placeFromSql(row),
    urlExpiresAt: row.url_expires_at as number,
  };
}

/** Without a pack, or if the place is damaged, the content is looked for as an object: a damaged place is found lost. */
export function placeFromSql(row: SqlRow): PackPlace | undefined {
  const { pack, pack_offset: offset, stored_length: storedLength, codec, canonical_size: size } = row;
  if (!(pack instanceof Uint8Array)) return undefined;
  const isSound =
    typeof offset === 'number' && typeof storedLength === 'number' && (codec === 0 || codec === 1);
  if (!isSound || storedLength > Number(size ?? row.content_canonical_size)) return undefined;
  return { pack: bytesToHex(pack), offset, storedLength, codec };
}

/** The content half of a joined row; undefined when the node's generation has none in this Space. */
export function joinedContentFromSql(row: SqlRow, space: number): ContentRow | undefined {
  if (row.content_generation === null || row.content_space !== space) return undefined;
  return {
    generation: bytesToHex(row.content_generation as Uint8Array),
    canonicalSize: row.content_canonical_size as number,
    integrity: row.integrity as Uint8Array,
    inlineBytes: (row.inline_bytes as Uint8Array | null) ?? undefined,
    packed: placeFromSql(row),
    urlExpiresAt: row.url_expires_at as number,
  };
}

export function discardFromSql(row: SqlRow): DiscardRow {
  return {
    generation: bytesToHex(row.generation as Uint8Array),
    dueAt: row.due_at as number,
    urlExpiresAt: row.url_expires_at as number,
  };
}

export function uploadFromSql(row: SqlRow, hash?: Hash): UploadRow {
  const rejectionCode = row.rejection_code as RejectionCode | null;
  return {
    hash: hash ?? bytesToHex(row.hash as Uint8Array),
    generation: bytesToHex(row.generation as Uint8Array),
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
    return {
      verdict: 'bad',
      code: row.bad_code as RejectionCode,
      message: row.bad_message as string,
    };
  }
  return {
    verdict: 'good',
    canonicalSize: row.canonical_size as number,
    size: row.size as number,
    contentType: row.content_type as string,
    refs: row.refs as Uint8Array,
    integrity: row.integrity as Uint8Array,
    inline: row.inline === 1,
  };
}

export function verdictCode(evidence: UploadEvidence | undefined): number | null {
  if (evidence === undefined) return null;
  return evidence.verdict === 'good' ? 1 : 0;
}

/** Values for the columns rejection_code … inline, in the table's order. */
export function uploadVerdictToSql(row: UploadRow): (string | number | Uint8Array | null)[] {
  const { rejection, evidence } = row;
  const bad = evidence?.verdict === 'bad' ? evidence : undefined;
  const good = evidence?.verdict === 'good' ? evidence : undefined;
  return [
    rejection?.code ?? null,
    rejection?.message ?? null,
    verdictCode(evidence),
    bad?.code ?? null,
    bad?.message ?? null,
    good?.canonicalSize ?? null,
    good?.size ?? null,
    good?.contentType ?? null,
    good?.refs ?? null,
    good?.integrity ?? null,
    good === undefined ? null : Number(good.inline),
  ];
}
