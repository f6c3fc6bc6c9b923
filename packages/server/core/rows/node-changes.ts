/** Compares two states of a node's row by the values that may change. */
import type { NodeRow } from '../model.ts';

export const isLeaseSame = (left: NodeRow, right: NodeRow): boolean =>
  left.leaseStartedAt === right.leaseStartedAt && left.leaseExpiresAt === right.leaseExpiresAt;

export const areCountsSame = (left: NodeRow, right: NodeRow): boolean =>
  left.childRefCount === right.childRefCount &&
  left.rootRefCount === right.rootRefCount &&
  left.heldDomainCount === right.heldDomainCount;

export const isStateSame = (left: NodeRow, right: NodeRow): boolean =>
  left.state === right.state &&
  left.generation === right.generation &&
  left.storage === right.storage &&
  left.storedSize === right.storedSize &&
  left.waitingTouchedAt === right.waitingTouchedAt &&
  left.claimHeldUntil === right.claimHeldUntil;
