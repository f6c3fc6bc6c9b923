/**
 * Repairs the damaged row of a node. Its canonical bytes prove type, size and refs. The row's sum proves the rest, if at most a state
 * or counts are wrong besides them. If nothing proves them, counts only rise, and the node is leased for a day.
 */
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { closeContent, type ReplacementRules } from '../contents.ts';
import { findChildren } from '../edges.ts';
import type { ContentRow, Generation, NodeRow, NodeRowState } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { findNodeOrDamage } from '../read/find-nodes.ts';
import { isReadable } from '../read/read-metadata.ts';
import { orIfDamaged } from '../store-failure.ts';
import type { NodeHolders, UnprovenNode } from '../upkeep-ports.ts';
import { contradicts, type NewContent, type Publication, settleWaiting } from './publication.ts';

const STATES: readonly NodeRowState[] = ['waiting', 'ready', 'rotten', 'claimed'];

/** `isExact`: the original row with its own bytes. Otherwise it has `content`, and is ready if its children are or a domain holds it. */
interface MendedNode {
  readonly row: NodeRow;
  readonly isExact: boolean;
  /** which bytes the damaged row named */
  readonly former: Generation;
}

/** `content`: from proven bytes. undefined if there is no row */
export async function mendNode(tx: SpaceTransaction, content: NewContent): Promise<MendedNode | undefined> {
  const { hash } = content;
  const found = await tx.mending.findUnproven(hash);
  if (found === undefined) return undefined;
  const holders = await found.countHolders();
  const exact = findExact(found, content, holders);
  const row = exact ?? (await makeSafe(tx, found.row, content, holders));
  await tx.mending.replaceNode(found.row, row);
  return { row, isExact: exact !== undefined, former: found.row.generation };
}

/** The values of the row as it was, by the sum that it carries. */
function findExact(
  { row, hasSumOf }: UnprovenNode,
  content: NewContent,
  holders: NodeHolders,
): NodeRow | undefined {
  const { size, canonicalSize, contentType, refs } = content;
  const proven = { ...row, size, canonicalSize, contentType, refs };
  for (const placed of [proven, { ...proven, storedSize: canonicalSize }, { ...proven, ...content }]) {
    for (const counted of [placed, { ...placed, ...holders }]) {
      for (const state of [row.state, ...STATES]) {
        if (hasSumOf({ ...counted, state })) return { ...counted, state };
      }
    }
  }
  return undefined;
}

async function makeSafe(
  tx: SpaceTransaction,
  stands: NodeRow,
  content: NewContent,
  holders: NodeHolders,
): Promise<NodeRow> {
  const rise = (name: keyof NodeHolders): number =>
    // A larger count is damage.
    Math.max(stands[name] <= 2 ** 40 ? stands[name] : 0, holders[name]);
  const { counts, rows } = await findChildren(tx, [content.refs]);
  // Only a node that was ready takes root refs, and a child that is rotten was ready: the sweep takes what waits, whoever holds it.
  const isReady =
    holders.heldDomainCount > 0 || [...counts.keys()].every((child) => isReadable(rows.get(child)));
  const isStarted = stands.leaseStartedAt > 0 && stands.leaseStartedAt <= tx.now;
  return {
    ...content,
    state: isReady ? 'ready' : 'waiting',
    leaseStartedAt: !isReady ? 0 : isStarted ? stands.leaseStartedAt : tx.now,
    // No lease is longer, so none that was given ends later.
    leaseExpiresAt: isReady ? tx.now + LEASE_DURATION_MS_MAX : 0,
    childRefCount: rise('childRefCount'),
    rootRefCount: rise('rootRefCount'),
    heldDomainCount: rise('heldDomainCount'),
    waitingTouchedAt: isReady ? 0 : tx.now,
    claimHeldUntil: 0,
  };
}

/** The answer to a client whose uploaded bytes repaired a row. */
export async function settleMended(
  tx: SpaceTransaction,
  row: NodeRow,
  durationMs: number,
): Promise<Publication> {
  if (row.state !== 'ready') return settleWaiting(tx, row, durationMs);
  const { hash, leaseStartedAt, leaseExpiresAt } = row;
  return { kind: 'ready', hash, leaseStartedAt, leaseExpiresAt };
}

/** Discards the bytes that the damaged row named, if their own record has the same length and integrity as the new bytes. */
export async function closeFormer(
  tx: SpaceTransaction,
  former: Generation,
  { generation, canonicalSize, integrity }: Pick<ContentRow, 'generation' | 'canonicalSize' | 'integrity'>,
  { keepReplacedMs: keptMs, left }: ReplacementRules,
): Promise<void> {
  if (former === generation || left?.has(former)) return;
  const found = await findContentOrDamage(tx, former);
  if (found === undefined || found.packed !== undefined || found.canonicalSize !== canonicalSize) return;
  if (Buffer.compare(found.integrity, integrity) !== 0) return;
  const storage = found.inlineBytes === undefined ? 'object' : 'inline';
  await closeContent(tx, { generation: former, storage, urlExpiresAt: found.urlExpiresAt, keptMs });
}

/** A record that is damaged proves nothing. */
const findContentOrDamage = (tx: SpaceTransaction, generation: Generation): Promise<ContentRow | undefined> =>
  orIfDamaged(
    async () => tx.findContent(generation),
    () => undefined,
  );

/** Repairs from the bytes that the node's own content row refers to. Resolves with false if the row is intact or deleted. */
export async function mendRow(tx: SpaceTransaction, content: NewContent): Promise<boolean> {
  const found = await findNodeOrDamage(tx, content.hash);
  const isWrong = found === 'damaged' || (found !== undefined && contradicts(found, content));
  return isWrong && (await mendNode(tx, content)) !== undefined;
}
