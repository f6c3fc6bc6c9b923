/** Compares two states of a row and chooses the statement that writes the change. Pure. */
import type { SQLQueryBindings } from 'bun:sqlite';
import type { NodeRow, UploadRow } from '../../core/model.ts';
import { areCountsSame, isLeaseSame, isStateSame } from '../../core/node-row.ts';
import { isJudgedAnew, uploadSumChange } from '../../core/rows/row-sums.ts';
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

export function isLeaseChangeOnly(before: NodeRow, after: NodeRow): boolean {
  return isStateSame(before, after) && areCountsSame(before, after);
}

export function isCountChangeOnly(before: NodeRow, after: NodeRow): boolean {
  return (
    isStateSame(before, after) &&
    isLeaseSame(before, after) &&
    collectableCode(before) === collectableCode(after)
  );
}

/** Chooses the smallest statement: the fewer columns it names, the fewer indexes it writes. */
function changeOfUpload(before: UploadRow, after: UploadRow): 'times' | 'verdict' | 'all' {
  if (after.generation !== before.generation || after.createdAt !== before.createdAt) return 'all';
  if (!isJudgedAnew(before, after)) return 'times';
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
