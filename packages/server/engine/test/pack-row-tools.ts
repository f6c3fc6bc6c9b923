/** Helpers with which the suites of packs use the rows of a store. */
import type { Awaitable } from '../../core/awaitable.ts';
import type { ContentRow, Space } from '../../core/model.ts';
import type { PackRow, PackUse } from '../../core/pack-model.ts';
import type { PackVerbs } from '../../core/pack-ports.ts';
import type { SpaceTransaction } from '../../core/ports.ts';
import { SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export const OTHER: Space = { appId: 'app', spaceId: 'other' };
export const NO_USE: PackUse = { liveRecords: 0, liveBytes: 0, firstDeadAt: 0 };

export interface PackRowTools {
  readonly subject: StoreUnderTest;
  within<T>(verb: (packs: PackVerbs, tx: SpaceTransaction) => Awaitable<T>, space?: Space): Promise<T>;
  insert(...rows: readonly PackRow[]): Promise<void>;
  insertContents(...rows: readonly ContentRow[]): Promise<void>;
  change(before: PackRow, changes: Partial<PackRow>): Promise<PackRow>;
  useOf(pack: PackRow): Promise<PackUse>;
}

export function packRowTools(subject: StoreUnderTest): PackRowTools {
  const within: PackRowTools['within'] = (verb, space = SPACE) =>
    subject.store.transact(space, async (tx) => verb(tx.packs, tx));
  return {
    ...{ subject, within },
    insert: (...rows) =>
      subject.store.transact(SPACE, async (tx) => {
        for (const row of rows) await tx.insert('pack', row);
      }),
    insertContents: (...rows) =>
      subject.store.transact(SPACE, async (tx) => {
        for (const row of rows) await tx.insert('content', row);
      }),
    async change(before, changes) {
      const after = { ...before, ...changes };
      await within((_, tx) => tx.update('pack', before, after));
      return after;
    },
    useOf: ({ generation }) => within((packs) => packs.findUse(generation)),
  };
}
