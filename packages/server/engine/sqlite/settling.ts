/** The writes of background work (core/upkeep-ports.ts). */
import { tombstoneSum } from '../../core/rows/row-sums.ts';
import type { Settlements } from '../../core/upkeep-ports.ts';
import { noteKey, storeSum, storeValueOf } from './ledger-rows.ts';
import { hexToBytes } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

export const SETTLING: {
  readonly [K in keyof Settlements]: (scope: WriteScope, rows: Settlements[K]) => void;
} = {
  tombstones: (scope, { unknown, known, now, seenSince }) => {
    for (const generation of unknown) {
      const sum = tombstoneSum(generation, now, now);
      scope.write(scope.sql.noteTombstone, hexToBytes(generation), now, sum);
    }
    for (const generation of known) scope.write(scope.sql.deleteTombstone, hexToBytes(generation));
    scope.write(scope.sql.deleteOldTombstones, seenSince);
  },
  revisions: (scope, step) => {
    scope.write(scope.sql.raiseFirstRevision, step);
    scope.write(scope.sql.raiseRevisions, step);
  },
  note: (scope, { name, value }) => {
    const [key, text] = [noteKey(name), String(value)];
    const kept = scope.find(scope.sql.findStoreValue, key);
    if (typeof value === 'number' && kept !== undefined && Number(storeValueOf(kept)) >= value) return;
    scope.write(scope.sql.setStoreValue, key, text, storeSum(key, text));
  },
};
