/** Decides about packs, each function inside one transaction (core/packs/README.md). None of them does I/O. */
import { ApiError, type Hash, refsToHashes } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import { createPackGeneration } from '../generation.ts';
import { moveLease } from '../lease/lease-decision.ts';
import { type Publication, settleWaiting } from '../lease/publication.ts';
import { tooManyUploads, type UploadRules, urlExpiryFrom } from '../lease/upload-rules.ts';
import type { Generation } from '../model.ts';
import type { PackId, PackRow, PackVerdicts } from '../pack-model.ts';
import type { JudgedRecord } from '../pack-ports.ts';
import type { SpaceTransaction } from '../ports.ts';
import {
  judgeQuotas,
  NOTHING_STORED,
  noRoom,
  type QuotaInput,
  type QuotaRefusal,
  type Stored,
} from '../quotas.ts';
import { type FoundNode, findNodeOrDamage, findNodesOrDamage, stateOf } from '../read/find-nodes.ts';
import type { UploadKind } from '../upload-ports.ts';

export type RowOutcome = Publication | { readonly kind: 'absent'; readonly hash: Hash };

export interface RowsLease {
  /** children before parents */
  readonly hashes: readonly Hash[];
  /** what the rows are expected to refer to: read with them at once */
  readonly children: readonly Hash[];
  readonly durationMs: number;
  /** ms; ready rows are leased until then at least; 0: as long as `durationMs` says */
  readonly leasedUntil: number;
}

/** Leases what is ready, settles what waits; a damaged row counts as absent. Aligned with `hashes`. */
export async function leaseRows(tx: SpaceTransaction, lease: RowsLease): Promise<RowOutcome[]> {
  await findNodesOrDamage(tx, distinct(lease.hashes, lease.children));
  const outcomes: RowOutcome[] = [];
  for (const hash of lease.hashes) {
    outcomes.push(await leaseRow(tx, hash, await findNodeOrDamage(tx, hash), lease));
  }
  return outcomes;
}

export async function leaseRow(
  tx: SpaceTransaction,
  hash: Hash,
  found: FoundNode,
  { durationMs, leasedUntil }: Pick<RowsLease, 'durationMs' | 'leasedUntil'>,
): Promise<RowOutcome> {
  const leaseMs = Math.max(durationMs, leasedUntil - tx.now);
  const node = found === 'damaged' ? undefined : found;
  if (node?.state === 'waiting') return settleWaiting(tx, node, leaseMs);
  if (node?.state !== 'ready') return { kind: 'absent', hash };
  const { leaseStartedAt, leaseExpiresAt } = await moveLease(tx, node, leaseMs);
  return { kind: 'ready', hash, leaseStartedAt, leaseExpiresAt };
}

export interface PackWanted {
  readonly id: PackId;
  /** random digits for its generation */
  readonly fresh: string;
  readonly asked: Uint8Array;
  readonly rules: UploadRules;
  /** Look first whether something has come for an earlier pack: a store that takes PUTs itself alone knows. */
  readonly asksStore?: boolean;
  /** what the store has said of an earlier pack */
  readonly seen?: { readonly generation: Generation; readonly isFilled: boolean } | undefined;
}

export type PackOpening =
  | { readonly kind: 'pack'; readonly pack: PackRow }
  /** Nothing was changed: look for the object of this generation, then ask again. */
  | { readonly kind: 'look'; readonly generation: Generation };

/** The pack that was opened for the same hashes, if nothing has come for it, else a new one. Throws CAS_UPLOAD_LIMIT. */
export async function openPack(tx: SpaceTransaction, wanted: PackWanted): Promise<PackOpening> {
  const { rules, asked, id, fresh, seen } = wanted;
  const earlier = await tx.packs.findOpenPack(asked);
  if (earlier !== undefined && earlier.bytes === undefined && earlier.urlExpiresAt > tx.now) {
    const { generation } = earlier;
    const isSeen = seen?.generation === generation;
    if (wanted.asksStore && !isSeen) return { kind: 'look', generation };
    if (!isSeen || !seen.isFilled) {
      const urlExpiresAt = urlExpiryFrom(rules, tx.now, earlier.urlExpiresAt);
      const pack: PackRow = { ...earlier, touchedAt: tx.now, urlExpiresAt };
      await tx.update('pack', earlier, pack);
      return { kind: 'pack', pack };
    }
  }
  const { activeUploadsMax } = rules;
  if (rules.isDiskFull) throw noRoom();
  if ((await tx.countActiveUploads(activeUploadsMax)) >= activeUploadsMax)
    throw tooManyUploads(activeUploadsMax);
  const pack: PackRow = {
    id,
    generation: createPackGeneration(tx.now, fresh),
    state: 'open',
    createdAt: tx.now,
    urlExpiresAt: urlExpiryFrom(rules, tx.now),
    touchedAt: tx.now,
    asked,
    bytes: undefined,
    publishedCount: 0,
    reserved: NOTHING_STORED,
    isDiscarded: false,
  };
  await tx.insert('pack', pack);
  return { kind: 'pack', pack };
}

export interface ReceivedPack {
  readonly id: PackId;
  readonly generation: Generation;
  /** undefined: it is longer than a pack may be, and nothing of it was kept */
  readonly bytes: number | undefined;
  /** why it is judged already, if it is too long */
  readonly broken: PackVerdicts['broken'];
}

/** The finishing transaction of a PUT to our own target. Resolves false if the pack is finished, judged or gone. */
export async function finishPack(
  tx: SpaceTransaction,
  { id, generation, bytes, broken }: ReceivedPack,
): Promise<boolean> {
  const pack = await tx.packs.findPack(id);
  if (pack?.generation === generation && pack.state === 'open' && pack.bytes === undefined) {
    if (bytes !== undefined) {
      await tx.update('pack', pack, { ...pack, bytes });
      return true;
    }
    await tx.packs.setVerdicts(generation, { hashes: new Uint8Array(0), rejections: [], broken });
    // Its lease judges it: until then it counts as an upload.
    await tx.update('pack', pack, { ...pack, bytes: 0, isDiscarded: true });
    return true;
  }
  // The object that was sealed belongs to the pack if that has an object, and is a stray otherwise.
  const isOwned = pack?.generation === generation && pack.bytes !== undefined && !pack.isDiscarded;
  if (bytes !== undefined && !isOwned) {
    await tx.insert('discard', { generation, dueAt: tx.now, urlExpiresAt: 0 });
  }
  return false;
}

export interface PackBeginning {
  readonly id: PackId;
  readonly generation: Generation;
  /** of the object */
  readonly bytes: number;
  readonly verdicts: PackVerdicts;
  /** there are good ones, so something is to be published */
  readonly hasRecords: boolean;
  /** the good ones, children before parents; none are needed without quotas */
  readonly records: readonly Pick<JudgedRecord, 'hash' | 'canonicalSize' | 'refs' | 'place'>[];
  readonly quotas: QuotaInput | undefined;
  readonly uploads: UploadKind;
}

export type PackDecision =
  /** publication goes on behind so many records; `isBegun`: an earlier lease has begun, and its verdicts are kept */
  | { readonly kind: 'judging'; readonly publishedCount: number; readonly isBegun: boolean }
  /** it was judged meanwhile, or nothing is to be published */
  | { readonly kind: 'judged' }
  | { readonly kind: 'gone' }
  | QuotaRefusal;

/** Keeps the verdicts and room for all new records together. A pack that a full quota refuses is gone. */
export async function beginPack(tx: SpaceTransaction, beginning: PackBeginning): Promise<PackDecision> {
  const { id, generation, bytes, verdicts, hasRecords, records, quotas, uploads } = beginning;
  // What is stored is asked for after all rows: nobody who waits for it holds a row that this transaction needs.
  const more = quotas === undefined ? NOTHING_STORED : await countNew(tx, records);
  const pack = await tx.packs.findPack(id);
  if (pack === undefined || pack.generation !== generation) return { kind: 'gone' };
  if (pack.state === 'judged') return { kind: 'judged' };
  const { publishedCount } = pack;
  if (pack.state === 'judging') return { kind: 'judging', publishedCount, isBegun: true };
  const refusal = await judgeQuotas(quotas, more, () => tx.lockStored());
  if (refusal !== undefined) {
    if (refusal.kind === 'full') {
      if (!pack.isDiscarded) await discardPack(tx, pack, uploads);
      await tx.delete('pack', pack);
    }
    return refusal;
  }
  await tx.packs.setVerdicts(generation, verdicts);
  const begun: PackRow = { ...pack, bytes, touchedAt: tx.now };
  if (hasRecords) {
    await tx.update('pack', pack, { ...begun, state: 'judging', reserved: more });
    return { kind: 'judging', publishedCount: 0, isBegun: false };
  }
  if (!pack.isDiscarded) await discardPack(tx, pack, uploads);
  await tx.update('pack', pack, { ...begun, state: 'judged', isDiscarded: true });
  return { kind: 'judged' };
}

function discardPack(tx: SpaceTransaction, pack: PackRow, uploads: UploadKind): Awaitable<void> {
  const urlExpiresAt = uploads === 'direct' ? pack.urlExpiresAt : 0;
  return tx.insert('discard', { generation: pack.generation, dueAt: tx.now, urlExpiresAt });
}

/** What the records would store that is not stored yet. A parent that would wait takes the room of its canonical bytes. */
async function countNew(tx: SpaceTransaction, records: PackBeginning['records']): Promise<Stored> {
  const children = records.map(({ refs }) => refsToHashes(refs));
  const hashes = distinct(
    records.map(({ hash }) => hash),
    children.flat(),
  );
  const found = await findNodesOrDamage(tx, hashes);
  const rows = new Map(hashes.map((hash, index) => [hash, found[index]] as const));
  const ready = new Set<Hash>();
  let bytes = 0;
  let nodes = 0;
  for (const [index, { hash, canonicalSize, place }] of records.entries()) {
    const row = rows.get(hash);
    const isReady = (children[index] ?? []).every(
      (child) => ready.has(child) || stateOf(rows.get(child)) === 'ready',
    );
    const state = stateOf(row);
    if (isReady || state === 'rotten' || state === 'claimed') ready.add(hash);
    if (row !== undefined && state !== 'claimed') continue;
    bytes += isReady || row !== undefined ? place.storedLength : canonicalSize;
    if (row === undefined) nodes += 1;
  }
  return { bytes, nodes };
}

export interface RepeatedLease {
  readonly id: PackId;
  /** ms without a lease after which a pack is forgotten */
  readonly abandonedAfterMs: number;
}

/** Notes a lease call of a judged pack, which keeps its verdicts. Resolves with them; undefined: it is forgotten. */
export async function touchPack(
  tx: SpaceTransaction,
  { id, abandonedAfterMs }: RepeatedLease,
): Promise<PackVerdicts | undefined> {
  const pack = await tx.packs.findPack(id);
  if (pack?.state !== 'judged' || pack.touchedAt + abandonedAfterMs <= tx.now) return undefined;
  const verdicts = await tx.packs.findVerdicts(pack.generation);
  if (verdicts !== undefined) await tx.update('pack', pack, { ...pack, touchedAt: tx.now });
  return verdicts;
}

export function distinct(...lists: readonly (readonly Hash[])[]): Hash[] {
  return [...new Set(lists.flat())];
}

export const packNotFound = (): ApiError =>
  new ApiError(
    'NOT_FOUND',
    'this Space has no pack with this id, or has forgotten it; lease the hashes again',
  );
