/** updateRootRefs: one atomic, idempotent commit of signed deltas (docs/api.md, updateRootRefs). */

import {
  ApiError,
  canonicalRootRefPayload,
  type Hash,
  hashToBytes,
  type UpdateRootRefsResponse,
} from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { assertInvariant } from '../invariant.ts';
import type { NodeRow, RootRefCommit, Space } from '../model.ts';
import type { RootRefReads, SpaceTransaction } from '../ports.ts';
import { QuotaRoom } from '../quota-room.ts';
import { type Excess, judgeQuotas, QuotaExceeded, type QuotaInput, type Stored } from '../quotas.ts';
import { sha256Hex } from '../signer.ts';
import { RowDamaged } from '../store-failure.ts';

interface RootRefChange {
  readonly hash: Hash;
  readonly delta: number;
}

export interface RootRefCommitRequest {
  readonly requestId: string;
  /** hash order, distinct */
  readonly changes: readonly RootRefChange[];
}

/** Checks the request id, then that every hash exists, then each balance in hash order. Throws the first failure. */
export async function updateRootRefs(
  core: Core,
  space: Space,
  refDomain: string,
  request: RootRefCommitRequest,
): Promise<UpdateRootRefsResponse> {
  const { requestId, changes } = request;
  const payloadDigest = sha256Hex(canonicalRootRefPayload(changes));
  const hashes = changes.map(({ hash }) => hash);
  const deltas = changes.map(({ delta }) => delta);
  const reads = { domain: refDomain, requestId, hashes };
  const room = new QuotaRoom(core, space);
  if (room.input?.app !== undefined) await room.reserve(ONE_COMMIT);
  let isStored = false;
  try {
    const input = { ...reads, deltas, payloadDigest, quotas: room.input };
    const outcome = await core.metadata.transact(space, commitRootRefs, input, reads);
    if ('excess' in outcome) throw new QuotaExceeded(outcome.excess);
    isStored = !outcome.idempotent;
    return outcome;
  } finally {
    room.settle(isStored);
  }
}

const ONE_COMMIT: Stored = { bytes: 0, nodes: 0, commits: 1 };

/** Numbers and text alone: they cross to another thread faster than objects and bytes. */
interface PlainCommit extends RootRefReads {
  /** aligned with `hashes` */
  readonly deltas: readonly number[];
  /** hex */
  readonly payloadDigest: string;
  readonly quotas?: QuotaInput | undefined;
}

export async function commitRootRefs(
  tx: SpaceTransaction,
  { domain, requestId, hashes, deltas, payloadDigest: digest, quotas }: PlainCommit,
): Promise<UpdateRootRefsResponse | { readonly excess: Excess }> {
  const payloadDigest = hashToBytes(digest);
  // Reads all rows together: one round trip for an engine across a network.
  const [known, latest, nodes, balances] = await Promise.all([
    tx.findRootRefCommit(domain, requestId),
    tx.findRevision(domain),
    tx.findNodes(hashes),
    tx.findBalances(domain, hashes),
  ]);
  if (known !== undefined) return answerReplay(known, payloadDigest);
  const missing = nodes.indexOf(undefined);
  if (missing >= 0) {
    throw new ApiError('NOT_FOUND', `this Space has no node ${hashes[missing]}; nothing was committed`);
  }
  const plans = hashes.map((hash, index) =>
    planChange({ hash, delta: deltas[index] as number }, nodes[index], balances[index]),
  );
  const excess = await judgeCommits(tx, quotas);
  if (excess !== undefined) return { excess };
  for (const { node, changed } of plans) if (changed !== node) await tx.update('node', node, changed);
  const revision = latest + 1;
  const written = plans.filter(({ before, after }) => before !== after);
  await tx.insertRootRefCommit(domain, { requestId, payloadDigest, revision }, written);
  return { success: true, idempotent: false, revision };
}

/** Judged last: a commit that cannot be made says why, whatever the quota. */
async function judgeCommits(
  tx: SpaceTransaction,
  quotas: QuotaInput | undefined,
): Promise<Excess | undefined> {
  if (quotas === undefined) return undefined;
  const space = quotas.space?.maxCommits === undefined ? undefined : quotas.space;
  const refusal = await judgeQuotas({ ...quotas, space }, ONE_COMMIT, async () => {
    return { bytes: 0, nodes: 0, commits: (await tx.lockHoldings()).commitRows };
  });
  assertInvariant(refusal?.kind !== 'reserve', 'room for a commit is reserved before');
  return refusal?.excess;
}

function answerReplay(known: RootRefCommit, payloadDigest: Uint8Array): UpdateRootRefsResponse {
  if (Buffer.compare(known.payloadDigest, payloadDigest) === 0) {
    return { success: true, idempotent: true, revision: known.revision };
  }
  throw new ApiError(
    'IDEMPOTENCY_CONFLICT',
    'this requestId was committed with other changes; use a new requestId for new changes',
  );
}

interface PlannedChange {
  readonly hash: Hash;
  /** the domain's balance */
  readonly before: number;
  readonly after: number;
  readonly node: NodeRow;
  readonly changed: NodeRow;
}

/** Pure. Throws CONFLICT naming the reason and the hash. @throws RowDamaged if the row contradicts the balance */
function planChange(
  change: RootRefChange,
  node: NodeRow | undefined,
  before: number | undefined,
): PlannedChange {
  assertInvariant(node !== undefined && before !== undefined, 'rows are aligned with their hashes');
  const { hash, delta } = change;
  if (before !== 0 && node.heldDomainCount === 0)
    throw new RowDamaged(`the row of node ${hash} misses a balance that names it: run check --repair`);
  if (delta === 0) return { hash, before, after: before, node, changed: node };
  if (delta > 0 && node.state !== 'ready')
    throw conflict(hash, 'is not ready, so it cannot take a positive delta');
  const rootRefCount = node.rootRefCount + delta;
  const after = before + delta;
  if (rootRefCount < 0) throw conflict(hash, 'would have a negative aggregate balance');
  if (rootRefCount > Number.MAX_SAFE_INTEGER) throw conflict(hash, 'would overflow its aggregate balance');
  if (!Number.isSafeInteger(after)) throw conflict(hash, 'would overflow its balance in this refDomain');
  const heldDomainCount = node.heldDomainCount + (after !== 0 ? 1 : 0) - (before !== 0 ? 1 : 0);
  return { hash, before, after, node, changed: { ...node, rootRefCount, heldDomainCount } };
}

const conflict = (hash: Hash, reason: string): ApiError =>
  new ApiError('CONFLICT', `node ${hash} ${reason}; nothing was committed`);
