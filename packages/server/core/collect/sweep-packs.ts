/** The sweep of packs (core/packs/README.md): bounded steps that decide nothing a crash could undo halfway. */

import { ROWS_PER_TRANSACTION_MAX } from '../batches.ts';
import { type ReplacementRules, replacementRulesOf } from '../contents.ts';
import type { Core } from '../core.ts';
import type { Generation, Space } from '../model.ts';
import type { SweptPack } from '../pack-ports.ts';
import type { SpaceTransaction } from '../ports.ts';
import { NOTHING_STORED } from '../quotas.ts';

interface PacksToSettle extends ReplacementRules {
  readonly abandonedAt: number;
  /** packs that are being received are left alone */
  readonly received: readonly Generation[];
}

/** Resolves with the number of packs found; if it equals the limit, there may be more. */
export async function sweepPacks(
  core: Core,
  space: Space,
  abandonedAt: number,
  rules = replacementRulesOf(core),
): Promise<number> {
  const { upload } = core.content;
  const found = await core.metadata.transact(space, findOpenPacks, abandonedAt);
  const isReceived = (generation: Generation): boolean =>
    upload.kind === 'server' && upload.receiver.isReceiving(generation);
  const received = found.filter(isReceived);
  return core.metadata.transact(space, settlePacks, { abandonedAt, received, ...rules });
}

export async function findOpenPacks(tx: SpaceTransaction, abandonedAt: number): Promise<Generation[]> {
  const found = await tx.due('packs', abandonedAt, ROWS_PER_TRANSACTION_MAX);
  return found.filter(({ pack }) => pack.state === 'open').map(({ pack }) => pack.generation);
}

export async function settlePacks(
  tx: SpaceTransaction,
  { abandonedAt, received, ...rules }: PacksToSettle,
): Promise<number> {
  const found = await tx.due('packs', abandonedAt, ROWS_PER_TRANSACTION_MAX);
  const left = found.filter(({ pack }) => !received.includes(pack.generation));
  for (const swept of left) await settlePack(tx, swept, abandonedAt, rules);
  return left.length;
}

/** An open pack goes with its object; one half published is judged. One without live records stays a while: they may have moved. */
async function settlePack(
  tx: SpaceTransaction,
  { pack, use }: SweptPack,
  abandonedAt: number,
  { uploads, keepReplacedMs }: ReplacementRules,
): Promise<void> {
  const discard = (keptMs: number) => {
    const urlExpiresAt = uploads === 'direct' ? pack.urlExpiresAt : 0;
    return tx.insert('discard', { generation: pack.generation, dueAt: tx.now + keptMs, urlExpiresAt });
  };
  if (pack.state === 'open') {
    const mayHaveObject = pack.bytes !== undefined || uploads === 'direct';
    if (mayHaveObject && !pack.isDiscarded) await discard(0);
    await tx.delete('pack', pack);
    return;
  }
  if (pack.state === 'judging') {
    await tx.update('pack', pack, { ...pack, state: 'judged', reserved: NOTHING_STORED });
    return;
  }
  if (use.liveRecords > 0) return;
  if (!pack.isDiscarded) {
    await discard(keepReplacedMs);
    if (pack.touchedAt > abandonedAt) {
      await tx.update('pack', pack, { ...pack, isDiscarded: true });
      return;
    }
  }
  if (pack.touchedAt <= abandonedAt) await tx.delete('pack', pack);
}
