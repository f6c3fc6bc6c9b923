/** Compares two states of a row and chooses the statement that writes the change. Pure. */
import type { SQLQueryBindings } from 'bun:sqlite';
import type { NodeRow, UploadRow } from '../../core/model.ts';
import { uploadSumChange } from '../../core/rows/row-sums.ts';
import { collectableCode, hexToBytes, stateCode, uploadVerdictToSql, verdictCode } from './rows.ts';
import type { Statements } from './statements.ts';

/** Values by which a statement checks that the row is still as it was read. */
export function guardsOf(before: NodeRow): [number, Uint8Array, number, number, number] {
  return [
    stateCode(before.state),
    hexToBytes(before.generation),
    before.leaseExpiresAt,
    before.childRefCount,
    before.rootRefCount,
  ];
}

function isStateSame(before: NodeRow, after: NodeRow): boolean {
  return (
    before.state === after.state &&
    before.generation === after.generation &&
    before.storage === after.storage &&
    before.storedSize === after.storedSize &&
    before.waitingTouchedAt === after.waitingTouchedAt &&
    before.claimHeldUntil === after.claimHeldUntil
  );
}

function areCountsSame(before: NodeRow, after: NodeRow): boolean {
  return (
    before.childRefCount === after.childRefCount &&
    before.rootRefCount === after.rootRefCount &&
    before.heldDomainCount === after.heldDomainCount
  );
}

export function isLeaseChangeOnly(before: NodeRow, after: NodeRow): boolean {
  return isStateSame(before, after) && areCountsSame(before, after);
}

export function isCountChangeOnly(before: NodeRow, after: NodeRow): boolean {
  return (
    isStateSame(before, after) &&
    before.leaseStartedAt === after.leaseStartedAt &&
    before.leaseExpiresAt === after.leaseExpiresAt &&
    collectableCode(before) === collectableCode(after)
  );
}

/** Chooses the smallest statement: the fewer columns it names, the fewer indexes it writes. */
function changeOfUpload(before: UploadRow, after: UploadRow): 'times' | 'verdict' | 'all' {
  if (after.generation !== before.generation || after.createdAt !== before.createdAt) return 'all';
  const isJudgedAnew =
    after.evidence !== before.evidence ||
    after.rejection !== before.rejection ||
    after.seenBytes !== before.seenBytes;
  if (!isJudgedAnew) return 'times';
  const areTimesSame = after.urlExpiresAt === before.urlExpiresAt && after.touchedAt === before.touchedAt;
  return areTimesSame ? 'verdict' : 'all';
}

export function uploadChange(
  sql: Statements,
  space: number,
  before: UploadRow,
  after: UploadRow,
): [Statements[keyof Statements], ...SQLQueryBindings[]] {
  const hash = hexToBytes(before.hash);
  const guards = [hexToBytes(before.generation), verdictCode(before.evidence)];
  const sum = uploadSumChange(before, after);
  const change = changeOfUpload(before, after);
  const times = [after.urlExpiresAt, after.touchedAt];
  if (change === 'times') return [sql.touchUpload, space, hash, ...times, ...guards, sum];
  const verdict = uploadVerdictToSql(after);
  if (change === 'verdict') return [sql.finishUpload, space, hash, ...verdict, ...guards, sum];
  const generation = hexToBytes(after.generation);
  return [sql.updateUpload, space, hash, generation, after.createdAt, ...times, ...verdict, ...guards, sum];
}
