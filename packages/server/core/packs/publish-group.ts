/** Publishes the records of a pack that is being judged, a group of them in each transaction (core/packs/README.md). */
import { type Hash, refsToHashes } from '@holdfast/protocol';
import { closeContent, closeContentOf, type ReplacementRules, urlExpiryOf } from '../contents.ts';
import { findChildren } from '../edges.ts';
import { recordGeneration } from '../generation.ts';
import { assertInvariant } from '../invariant.ts';
import { mendNode, settleMended } from '../lease/mend-node.ts';
import {
  CONTRADICTION,
  contradicts,
  NEVER_LEASED,
  type NewContent,
  type Publication,
  publishNode,
  readyRow,
  restoreNode,
} from '../lease/publication.ts';
import type { ContentRow, Generation, NodeRow, UploadRow } from '../model.ts';
import { type LeaseWindow, renewLease } from '../node-row.ts';
import type { PackId, PackRejection } from '../pack-model.ts';
import type { JudgedRecord } from '../pack-ports.ts';
import type { PublishedRow, SpaceTransaction } from '../ports.ts';
import { NOTHING_STORED, type Stored } from '../quotas.ts';
import { type FoundNode, findNodeOrDamage, findNodesOrDamage } from '../read/find-nodes.ts';
import type { UploadKind } from '../upload-ports.ts';
import { distinct, leaseRow } from './pack-decision.ts';

const NO_HASHES: readonly Hash[] = [];

export interface PackGroup extends ReplacementRules {
  readonly id: PackId;
  readonly generation: Generation;
  /** how many records are published when this group is next */
  readonly from: number;
  readonly records: readonly JudgedRecord[];
  readonly isLast: boolean;
  readonly durationMs: number;
}

export type RecordOutcome =
  | (Publication & { readonly heals?: true })
  | { readonly kind: 'rejected'; readonly hash: Hash; readonly rejection: PackRejection };

export type GroupOutcome =
  | { readonly kind: 'published'; readonly outcomes: readonly RecordOutcome[] }
  /** all records are ready, with this lease */
  | ({ readonly kind: 'leased' } & LeaseWindow)
  /** another lease has published these records */
  | { readonly kind: 'passed' }
  | { readonly kind: 'gone' };

/** Publishes one group of a pack that is being judged, and judges it with the last. */
export async function publishGroup(tx: SpaceTransaction, group: PackGroup): Promise<GroupOutcome> {
  const { id, generation, from, records, isLast } = group;
  const hashes = records.map(({ hash }) => hash);
  const children = records.flatMap(({ refs }) => refsToHashes(refs));
  // Uploads, nodes, then the pack: leases and collections take rows in this order too.
  const all = distinct(hashes, children);
  const [uploads, found, loose] = await Promise.all([
    tx.packs.findUploads(hashes),
    findNodesOrDamage(tx, all),
    tx.findLooseEdges(all),
  ]);
  const pack = await tx.packs.findPack(id);
  if (pack === undefined || pack.generation !== generation) return { kind: 'gone' };
  if (pack.state === 'judged' || pack.publishedCount > from) return { kind: 'passed' };
  assertInvariant(pack.state === 'judging' && pack.publishedCount === from, 'records are published in order');
  const plain = findPlain(records, { uploads, found, loose });
  const stored = { bytes: 0, nodes: 0 };
  const lease = await publishPlain(tx, plain, group, stored);
  const isAllPlain = plain.counts.size === records.length;
  const outcomes: RecordOutcome[] = [];
  for (const [index, record] of isAllPlain ? [] : records.entries()) {
    const { hash } = record;
    if (plain.counts.has(hash)) outcomes.push({ kind: 'ready', hash, ...lease });
    else outcomes.push(await publishRecord(tx, record, uploads[index], group, stored));
  }
  const conflicts = outcomes.flatMap((outcome) => (outcome.kind === 'rejected' ? [outcome.rejection] : []));
  if (conflicts.length > 0) await addRejections(tx, generation, conflicts);
  await tx.update('pack', pack, {
    ...pack,
    state: isLast ? 'judged' : 'judging',
    publishedCount: from + records.length,
    reserved: isLast ? NOTHING_STORED : lessOf(pack.reserved, stored),
    touchedAt: tx.now,
  });
  return isAllPlain ? { kind: 'leased', ...lease } : { kind: 'published', outcomes };
}

interface GroupRows {
  /** aligned with the records */
  readonly uploads: readonly (UploadRow | undefined)[];
  /** of the records, then of their other children */
  readonly found: readonly FoundNode[];
  readonly loose: readonly number[];
}

/** Records of which nothing was known, with children that are all ready: a first push brings hardly any others. */
interface PlainRecords {
  /** how often others of them refer to each */
  readonly counts: ReadonlyMap<Hash, number>;
  /** how often they refer to rows that were there */
  readonly edges: ReadonlyMap<NodeRow, number>;
}

/** Children come before their parents. */
function findPlain(records: readonly JudgedRecord[], { uploads, found, loose }: GroupRows): PlainRecords {
  const ready = new Map<Hash, NodeRow>();
  for (const row of found) if (typeof row === 'object' && row.state === 'ready') ready.set(row.hash, row);
  const counts = new Map<Hash, number>();
  const edges = new Map<NodeRow, number>();
  for (const [index, { hash, refs }] of records.entries()) {
    if (uploads[index] !== undefined || found[index] !== undefined || loose[index] !== 0) continue;
    const children = refs.length === 0 ? NO_HASHES : refsToHashes(refs);
    if (!children.every((child) => counts.has(child) || ready.has(child))) continue;
    for (const child of children) {
      const row = ready.get(child);
      if (row === undefined) counts.set(child, (counts.get(child) ?? 0) + 1);
      else edges.set(row, (edges.get(row) ?? 0) + 1);
    }
    counts.set(hash, 0);
  }
  return { counts, edges };
}

/** Publishes them all at once, with one lease, and adds them to `stored`. */
async function publishPlain(
  tx: SpaceTransaction,
  { counts, edges }: PlainRecords,
  { generation: pack, records, durationMs }: PackGroup,
  stored: { bytes: number; nodes: number },
): Promise<LeaseWindow> {
  const lease = renewLease(NEVER_LEASED, tx.now, durationMs);
  const rows: PublishedRow[] = [];
  for (const record of records) {
    const count = counts.get(record.hash);
    if (count === undefined) continue;
    const generation = recordGeneration(pack, record.index);
    const node = readyRow(contentOf(record, generation), lease, count);
    rows.push({ node, content: contentRowOf(record, generation) });
    stored.bytes += record.place.storedLength;
  }
  stored.nodes += rows.length;
  if (rows.length > 0) await tx.insert('published', rows);
  for (const [row, count] of edges) {
    const changing = tx.update('node', row, { ...row, childRefCount: row.childRefCount + count });
    if (changing !== undefined) await changing;
  }
  return lease;
}

async function publishRecord(
  tx: SpaceTransaction,
  record: JudgedRecord,
  upload: UploadRow | undefined,
  group: PackGroup,
  stored: { bytes: number; nodes: number },
): Promise<RecordOutcome> {
  const { generation: pack, durationMs, uploads } = group;
  const { hash, index, place } = record;
  const generation = recordGeneration(pack, index);
  const content = contentOf(record, generation);
  let node = await findNodeOrDamage(tx, hash);
  let isMended = false;
  if (node === 'damaged') {
    const mended = await mendNode(tx, content);
    node = mended?.row;
    isMended = mended?.isExact === false;
  }
  if (!isMended && (node?.state === 'ready' || node?.state === 'waiting')) {
    const leased = await leaseRow(tx, hash, node, { durationMs, leasedUntil: 0 });
    assertInvariant(leased.kind !== 'absent', 'a row that is there is leased');
    return leased;
  }
  if (node !== undefined && contradicts(node, content))
    return { kind: 'rejected', hash, rejection: { index, ...CONTRADICTION } };
  if (upload !== undefined) await endUpload(tx, upload, uploads);
  const { canonicalSize } = record;
  await tx.insert('content', contentRowOf(record, generation));
  if (node !== undefined && isMended) return { ...(await settleMended(tx, node, durationMs)), heals: true };
  if (node !== undefined) {
    await closeContentOf(tx, node, group);
    const lease = await restoreNode(tx, node, content, durationMs);
    if (node.state === 'claimed') stored.bytes += place.storedLength;
    return { kind: 'ready', hash, ...lease, ...(node.state === 'rotten' ? { heals: true as const } : {}) };
  }
  const published = await publishNode(tx, content, await findChildren(tx, [record.refs]), durationMs);
  stored.bytes += published.kind === 'ready' ? place.storedLength : canonicalSize;
  stored.nodes += 1;
  return published;
}

function contentRowOf({ canonicalSize, integrity, place }: JudgedRecord, generation: Generation): ContentRow {
  return { generation, canonicalSize, integrity, inlineBytes: undefined, packed: place, urlExpiresAt: 0 };
}

function contentOf(record: JudgedRecord, generation: Generation): NewContent {
  const { hash, size, canonicalSize, contentType, refs, place } = record;
  const storedSize = place.storedLength;
  return { hash, size, canonicalSize, contentType, refs, generation, storage: 'packed', storedSize };
}

/** The v1 upload of a hash that is published: its slot is free, and a later PUT finds it finished. */
async function endUpload(tx: SpaceTransaction, upload: UploadRow, uploads: UploadKind): Promise<void> {
  await tx.delete('upload', upload);
  const { evidence, generation } = upload;
  if (evidence?.verdict === 'bad') return;
  const isKept = evidence !== undefined || uploads === 'direct';
  if (!isKept) return;
  const storage = evidence?.inline ? 'inline' : 'object';
  await closeContent(tx, { generation, storage, urlExpiresAt: urlExpiryOf(uploads, upload) });
}

async function addRejections(
  tx: SpaceTransaction,
  generation: Generation,
  more: readonly PackRejection[],
): Promise<void> {
  const verdicts = await tx.packs.findVerdicts(generation);
  assertInvariant(verdicts !== undefined, 'a pack that is being judged has verdicts');
  const rejections = [...verdicts.rejections, ...more].toSorted((left, right) => left.index - right.index);
  await tx.packs.setVerdicts(generation, { ...verdicts, rejections });
}

function lessOf(left: Stored, right: Stored): Stored {
  return { bytes: Math.max(0, left.bytes - right.bytes), nodes: Math.max(0, left.nodes - right.nodes) };
}
