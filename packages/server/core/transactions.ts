/**
 * Every transaction of the rules by its name, so that an engine can run them in another thread. Each decides by the
 * transaction and its input alone.
 */
import type { Awaitable } from './awaitable.ts';
import { claimCandidates, claimNodes, findLeftoverClaims, leaveContent, settleClaims } from './collection.ts';
import { findContentOf, setRotten, setSound } from './contents.ts';
import { decideLease } from './lease-decision.ts';
import { findStanding, mendRow } from './mend-node.ts';
import { moveLive } from './packs/compact-packs.ts';
import {
  beginPack,
  finishPack,
  leaseRows,
  openPack,
  publishGroup,
  touchPack,
} from './packs/pack-decision.ts';
import { moveSmall } from './packs/pack-small-nodes.ts';
import { findOpenPacks, settlePacks } from './packs/sweep-packs.ts';
import { planPass } from './plan-gc.ts';
import type { SpaceTransaction } from './ports.ts';
import { finishPurge, hastenDiscards, removeHistory, takeRootRefs } from './purge-space.ts';
import { finishUpload } from './receive-upload.ts';
import { repairCounts } from './repair-counts.ts';
import { giveSum } from './scrub.ts';
import { findAbandoned, findDueDiscards, forgetAbandoned, settleDiscards } from './sweep.ts';
import { dropSeen, noteSeen } from './unseen-uploads.ts';
import { commitRootRefs } from './update-root-refs.ts';

export const TRANSACTIONS = {
  beginPack,
  claimCandidates,
  claimNodes,
  commitRootRefs,
  decideLease,
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
  leaveContent,
  mendRow,
  moveLive,
  moveSmall,
  noteSeen,
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
