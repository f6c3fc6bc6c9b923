/** leases: leases many nodes at once, and opens a pack for what is absent (docs/bulk.md, Lease many nodes). */
import {
  BULK_CHILD_HASHES_MAX,
  type BulkLeaseRequest,
  type BulkLeaseResponse,
  type BulkLeaseResult,
  groupsOf,
  type Hash,
  PACK_BYTES_MAX,
  PACK_ID_BYTES,
  PACK_LEASE_MARGIN_MS,
  PACK_MEDIA_TYPE,
  PACK_RECORDS_MAX,
  type PackInstruction,
  refsToHashes,
} from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { makeGenerationDigits } from '../generation.ts';
import { changesRefused } from '../lease/lease-decision.ts';
import { uploadRulesOf } from '../lease/upload-rules.ts';
import { signPackToken, type UploadHolder } from '../lease/upload-token.ts';
import type { Space } from '../model.ts';
import { clampLeaseDuration } from '../node-row.ts';
import type { PackRow } from '../pack-model.ts';
import { PACK_GROUP_RECORDS } from '../pack-ports.ts';
import { checkQuotas } from '../quota-room.ts';
import type { Stored } from '../quotas.ts';
import { findRows, type RowFound } from '../read/find-nodes.ts';
import { sha256 } from '../signer.ts';
import { childrenFirst } from './judge-pack.ts';
import { leaseRows, openPack, type PackWanted, type RowOutcome } from './pack-decision.ts';

/** A row may change between the first look and its lease; then everything is asked again, so many times in all. */
const ROUNDS_MAX = 3;

export interface BulkLeaseOptions {
  /** refuse what would be more than renewals */
  readonly renewsOnly: boolean;
  /** Called if every node was ready already: nothing but leases changed. */
  readonly onRenewal?: () => void;
  /** scheme and authority that upload URLs of our own target begin with, no trailing slash */
  readonly uploadOrigin: string;
  /** to whom an upload URL is given */
  readonly holder?: UploadHolder;
}

export async function leaseNodes(
  core: Core,
  space: Space,
  request: BulkLeaseRequest,
  { renewsOnly, onRenewal, ...urls }: BulkLeaseOptions,
): Promise<BulkLeaseResponse> {
  const { hashes } = request;
  const durationMs = clampLeaseDuration(request.leaseDurationMs);
  for (let round = 1; ; round += 1) {
    const found = await findRows(core, space, hashes);
    const isAbsent = !found.every(isThere);
    const renews = found.every((each) => stateOf(each) === 'ready');
    if (renewsOnly && !renews) throw changesRefused();
    // The limit of uploads is met before any lease is changed.
    const pack = request.pack && isAbsent ? await open(core, space, hashes, found) : undefined;
    const leasedUntil = pack === undefined ? 0 : pack.urlExpiresAt + PACK_LEASE_MARGIN_MS;
    const refs = new Map<Hash, Uint8Array>();
    for (const each of found) if (isThere(each)) refs.set(each.node.hash, each.node.refs);
    const there = [...refs.keys()];
    const outcomes = await leaseInGroups(core, space, there, (hash) => refs.get(hash), {
      durationMs,
      leasedUntil,
    });
    const leased = new Map(outcomes.map((outcome) => [outcome.hash, outcome] as const));
    const isStillAbsent = hashes.some((hash) => (leased.get(hash)?.kind ?? 'absent') === 'absent');
    if (request.pack && isStillAbsent && pack === undefined && round < ROUNDS_MAX) continue;
    // Where a pack is opened, more is on its way.
    if (pack === undefined) restAfterLeases(core, space);
    if (renews) onRenewal?.();
    const results = limitChildHashes(
      hashes.map((hash) => toResult(leased.get(hash) ?? { kind: 'absent', hash })),
    );
    if (pack === undefined) return { results };
    return { results, pack: await instruct(core, space, pack, urls) };
  }
}

/** Lets the rows rest if nothing of the Space is being received: this lease may be the last of a push. */
export function restAfterLeases({ content: { upload }, metadata }: Core, space: Space): void {
  if (upload.kind === 'server' && upload.receiver.reservedBytes(space) === 0) metadata.rest?.();
}

const stateOf = (row: RowFound) => (typeof row === 'object' ? row.node.state : row);

/** Everything else is absent at this look, and no transaction has to look again. */
function isThere(row: RowFound): row is Extract<RowFound, object> {
  return stateOf(row) === 'ready' || stateOf(row) === 'waiting';
}

/** Leases rows in bounded transactions, children before parents; the outcomes are aligned with `hashes`. */
export async function leaseInGroups(
  core: Core,
  space: Space,
  hashes: readonly Hash[],
  refsOf: (hash: Hash) => Uint8Array | undefined,
  lease: { readonly durationMs: number; readonly leasedUntil: number },
): Promise<RowOutcome[]> {
  const ordered = childrenFirst(hashes, refsOf);
  const outcomes = new Map<Hash, RowOutcome>();
  for (const group of groupsOf(ordered, PACK_GROUP_RECORDS)) {
    const children = group.flatMap((hash) => refsToHashes(refsOf(hash) ?? NO_REFS));
    const input = { hashes: group, children, ...lease };
    for (const outcome of await core.metadata.transact(space, leaseRows, input))
      outcomes.set(outcome.hash, outcome);
  }
  return hashes.map((hash) => outcomes.get(hash) as RowOutcome);
}

const NO_REFS = new Uint8Array(0);
/** the least that anything new takes */
const ONE_NODE: Stored = { bytes: 1, nodes: 1 };

export function toResult(outcome: RowOutcome): BulkLeaseResult {
  const { hash } = outcome;
  if (outcome.kind === 'absent') return { state: 'absent', hash };
  if (outcome.kind === 'children') {
    return { state: 'validated_awaiting_children', hash, childHashes: outcome.childHashes };
  }
  const { leaseStartedAt, leaseExpiresAt } = outcome;
  return { state: 'ready', hash, leaseStartedAt, leaseExpiresAt };
}

/** Keeps an answer bounded: one child is enough for a client to go on. */
export function limitChildHashes<T extends { readonly state: string }>(results: readonly T[]): T[] {
  let left = BULK_CHILD_HASHES_MAX;
  return results.map((result) => {
    if (!('childHashes' in result)) return result;
    const childHashes = result.childHashes as readonly Hash[];
    const kept = left > 0 ? childHashes : childHashes.slice(0, 1);
    left -= kept.length;
    return { ...result, childHashes: kept };
  });
}

/** A Space without room for a single new node gets no pack, unless the pack is to heal one. */
async function open(
  core: Core,
  space: Space,
  hashes: readonly Hash[],
  found: readonly RowFound[],
): Promise<PackRow> {
  const isHealing = found.some((each) => ['rotten', 'damaged'].includes(stateOf(each) ?? ''));
  if (!isHealing) await checkQuotas(core, space, ONE_NODE);
  const { upload, packs } = core.content;
  const wanted = {
    id: Buffer.from(core.random.bytes(PACK_ID_BYTES)).toString('hex'),
    fresh: makeGenerationDigits(core.random),
    asked: sha256(Buffer.from(hashes.join(''), 'hex')),
    rules: uploadRulesOf(core),
  };
  let seen: PackWanted['seen'];
  for (let round = 1; ; round += 1) {
    // Others may open packs for the same hashes meanwhile. The last round takes what it finds: its PUT may meet 412.
    const asksStore = upload.kind === 'direct' && round < ROUNDS_MAX;
    const opening = await core.metadata.transact(space, openPack, { ...wanted, asksStore, seen });
    if (opening.kind === 'pack') return opening.pack;
    const { generation } = opening;
    const found = await packs.inspect(space, generation, async () => true);
    seen = { generation, isFilled: found !== undefined };
  }
}

/** Signs the URL. Called only after the row of the pack with this expiry is durable. */
async function instruct(
  core: Core,
  space: Space,
  pack: PackRow,
  { uploadOrigin, holder }: Pick<BulkLeaseOptions, 'uploadOrigin' | 'holder'>,
): Promise<PackInstruction> {
  const { id, generation, urlExpiresAt: expiresAt } = pack;
  const { upload } = core.content;
  const limits = { bytesMax: PACK_BYTES_MAX, recordsMax: PACK_RECORDS_MAX };
  if (upload.kind === 'direct') {
    const life = { issuedAt: pack.touchedAt, expiresAt };
    const signed = await upload.signUpload(space, generation, life, PACK_MEDIA_TYPE);
    return { id, method: 'PUT', expiresAt, ...signed, ...limits };
  }
  const token = signPackToken(core.signer, { space, pack: id, generation, expiresAt }, holder);
  const headers = { 'content-type': PACK_MEDIA_TYPE, 'if-none-match': '*' };
  return { id, method: 'PUT', url: `${uploadOrigin}/uploads/${token}`, expiresAt, headers, ...limits };
}
