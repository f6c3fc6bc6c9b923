/** The head of a name as one value that many writers compare and set. */

import type { Hash } from '@holdfast/protocol';
import { type CheckedCall, checkHash, checkObject } from '../arguments.ts';
import { systemClock } from '../deadline.ts';
import { checkMessage, compareSnapshots, type Snapshot } from './catalog-format.ts';
import { type CatalogWriter, type ChangeOptions, changeNames } from './change-names.ts';
import { checkSnapshotName } from './find-snapshot.ts';
import { makeSnapshotId } from './snapshots.ts';

/** The head of a name: its latest snapshot. Pure. */
export function findHead(snapshots: readonly Snapshot[], name: string): Snapshot | undefined {
  return snapshots
    .filter((snapshot) => snapshot.name === name)
    .sort(compareSnapshots)
    .at(-1);
}

/** The time of a snapshot that follows `head`, whatever the clock of its writer said. */
export function timeAfter(head: Snapshot | undefined, now: number): number {
  return Math.max(now, (head?.time ?? 0) + 1);
}

export interface CompareAndSet {
  /** the root of the latest snapshot; undefined: there must be none */
  readonly from: Hash | undefined;
  /** a node that is ready */
  readonly to: Hash;
}

export interface CompareAndSetOptions extends ChangeOptions {
  readonly message?: string | undefined;
  /** as the list shows them; empty and 0 when left out */
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly bytes?: number | undefined;
}

export type ComparedAndSet =
  | { readonly swapped: true; readonly snapshot: Snapshot }
  /** `head`: what is there instead; undefined: nothing */
  | { readonly swapped: false; readonly head: Snapshot | undefined };

const CALL: CheckedCall = { name: 'compareAndSetName', requestOperation: 'updateRootRefs' };

/** Lists `to` as newest if the newest is still of `from`: one of many wins, losing is no error. Rejects with CatalogError, CasError. */
export async function compareAndSetName(
  client: CatalogWriter,
  name: string,
  change: CompareAndSet,
  options: CompareAndSetOptions = {},
): Promise<ComparedAndSet> {
  checkSnapshotName(name);
  checkObject(CALL, 'the change', change);
  const { from, to } = change;
  if (from !== undefined) checkHash(CALL, from, 'from');
  checkHash(CALL, to, 'to');
  const { host = '', path = '', bytes = 0, clock = systemClock } = options;
  const message = checkMessage(options.message);
  const id = makeSnapshotId();
  let outcome: ComparedAndSet = { swapped: false, head: undefined };
  await changeNames(
    client,
    (snapshots) => {
      const head = findHead(snapshots, name);
      outcome = { swapped: false, head };
      if (head?.root !== from) return undefined;
      const marks = message ? { message } : {};
      const snapshot = {
        id,
        name,
        root: to,
        time: timeAfter(head, clock.now()),
        host,
        path,
        bytes,
        ...marks,
      };
      outcome = { swapped: true, snapshot };
      return [...snapshots, snapshot];
    },
    options,
  );
  return outcome;
}
