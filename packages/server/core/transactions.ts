/**
 * Every transaction of the rules by its name, so that an engine can run them in another thread. Each decides by the
 * transaction and its input alone.
 */
import type { Awaitable } from './awaitable.ts';
import { claimCandidates, claimNodes, findLeftoverClaims, settleClaims } from './collect/collection.ts';
import { planPass } from './collect/plan-gc.ts';
import { finishPurge, hastenDiscards, removeHistory, takeRootRefs } from './collect/purge-space.ts';
import { repairCounts } from './collect/repair-counts.ts';
import { giveSum } from './collect/scrub.ts';
import { findAbandoned, findDueDiscards, forgetAbandoned, settleDiscards } from './collect/sweep.ts';
import { findOpenPacks, settlePacks } from './collect/sweep-packs.ts';
import { dropRecord, findContentOf, findStanding, setRotten, setSound } from './contents.ts';
import { decideLease } from './lease/lease-decision.ts';
import { mendRow } from './lease/mend-node.ts';
import { finishUpload } from './lease/receive-node.ts';
import { dropSeen, noteSeen } from './lease/unseen-uploads.ts';
import { moveLive } from './packs/compact-packs.ts';
import { beginPack, finishPack, leaseRows, openPack, touchPack } from './packs/pack-decision.ts';
import { moveSmall } from './packs/pack-small-nodes.ts';
import { publishGroup } from './packs/publish-group.ts';
import type { SpaceTransaction } from './ports.ts';
import { noteWalk } from './refs/list-root-refs.ts';
import { commitRootRefs } from './refs/update-root-refs.ts';

export const TRANSACTIONS = {
  beginPack,
  claimCandidates,
  claimNodes,
  commitRootRefs,
  decideLease,
  dropRecord,
  dropSeen,
  findAbandoned,
  findContentOf,
  findDueDiscards,
  findLeftoverClaims,
  findOpenPacks,
  findStanding,
  finishPack,
  finishPurge,
  finishUpload,
  forgetAbandoned,
  giveSum,
  hastenDiscards,
  leaseRows,
  mendRow,
  moveLive,
  moveSmall,
  noteSeen,
  noteWalk,
  openPack,
  planPass,
  publishGroup,
  removeHistory,
  repairCounts,
  setRotten,
  setSound,
  settleClaims,
  settleDiscards,
  settlePacks,
  takeRootRefs,
  touchPack,
} satisfies Readonly<Record<string, (tx: SpaceTransaction, input: never) => Awaitable<unknown>>>;
