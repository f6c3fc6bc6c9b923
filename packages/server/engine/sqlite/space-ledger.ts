/** The changes of one batch to the counters of its Spaces, written once before the commit. */
import type { KeptCounters } from '../../core/inspection-ports.ts';
import { assertInvariant } from '../../core/invariant.ts';
import type { Space } from '../../core/model.ts';
import { type Stored, storedOf } from '../../core/quotas.ts';
import { countersSum } from '../../core/rows/row-sums.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { guardNow } from '../local-failure.ts';
import { usageFromSql, usageToSql } from '../rows/codecs.ts';
import { damagedRow } from './rows.ts';
import { areCountersSound, countersSumOf, NOTHING_COUNTED } from './space-counters.ts';
import { type SpaceDirectory, spaceNameSum } from './space-directory.ts';
import type { Statements } from './statements.ts';

type Sums = { -readonly [Field in keyof KeptCounters]: number };

export class SpaceLedger {
  readonly #sql: Statements;
  readonly #directory: SpaceDirectory;
  /** Spaces this batch looked up or made, not yet for the directory: the batch may be rolled back */
  readonly #found = new Map<string, { readonly space: Space; readonly id: number }>();
  readonly #sums = new Map<number, Sums>();
  readonly #watermarks = new Map<number, number>();

  constructor(sql: Statements, directory: SpaceDirectory) {
    this.#sql = sql;
    this.#directory = directory;
  }

  findSpace(space: Space): number | undefined {
    const known = this.#directory.find(space) ?? this.#found.get(spaceKeyOf(space))?.id;
    if (known !== undefined) return known;
    const row = guardNow('finding the Space', () => this.#sql.findSpaceId.get(space.appId, space.spaceId));
    const id = this.#directory.idOf(space, row);
    if (id === undefined) return undefined;
    this.#found.set(spaceKeyOf(space), { space, id });
    return id;
  }

  insertSpace(space: Space, now: number): number {
    const row = this.#sql.insertSpace.get(space.appId, space.spaceId, now);
    assertInvariant(row !== null, 'an inserted Space has an id');
    const id = row.id as number;
    const sum = countersSumOf(id, NOTHING_COUNTED, now);
    this.#sql.sealSpace.run(id, spaceNameSum(id, space), sum);
    this.#found.set(spaceKeyOf(space), { space, id });
    return id;
  }

  assertNoneLost(spaceId: number, domain: string): void {
    this.#directory.assertNoneLost(spaceId, domain);
  }

  forgetSpace(space: Space): void {
    this.#found.delete(spaceKeyOf(space));
  }

  readWatermark(id: number): number {
    const known = this.#watermarks.get(id);
    if (known !== undefined) return known;
    const row = this.#sql.findWatermark.get(id);
    if (row === null) throw damagedRow('the Space with the id', String(id));
    const watermark = row.lease_watermark as number;
    this.#watermarks.set(id, watermark);
    return watermark;
  }

  moveWatermark(id: number, watermark: number): void {
    this.#watermarks.set(id, watermark);
  }

  add(id: number, change: KeptCounters, sign: 1 | -1): void {
    const sums = this.#sums.get(id) ?? { ...NOTHING_COUNTED };
    sums.nodeCount += sign * change.nodeCount;
    sums.readyContentBytes += sign * change.readyContentBytes;
    sums.readyStoredBytes += sign * change.readyStoredBytes;
    sums.waitingBytes += sign * change.waitingBytes;
    sums.notReadyNodeCount += sign * change.notReadyNodeCount;
    sums.leasedCount += sign * change.leasedCount;
    this.#sums.set(id, sums);
  }

  /** The storage of the Space with the changes of this batch so far. No other transaction writes during the batch. */
  readStored(id: number): Stored {
    const row = this.#sql.findCounters.get(id);
    if (row === null || !areCountersSound(row))
      throw damagedRow('the counters of the Space with the id', String(id));
    const { bytes, nodes } = this.#addReserved(id, storedOf(usageFromSql(row)));
    const sums = this.#sums.get(id);
    if (sums === undefined) return { bytes, nodes };
    return { bytes: bytes + sums.readyStoredBytes + sums.waitingBytes, nodes: nodes + sums.nodeCount };
  }

  /** Room that packs have reserved for their records counts as stored. */
  #addReserved(id: number, { bytes, nodes }: Stored): Stored {
    const reserved = this.#sql.sumReserved.get(id);
    return { bytes: bytes + Number(reserved?.bytes ?? 0), nodes: nodes + Number(reserved?.nodes ?? 0) };
  }

  /** Call before the commit. @throws CounterBroken if a counter would be negative */
  flush(): void {
    for (const [id, sums] of this.#sums) {
      if (Object.values(sums).every((sum) => sum === 0)) continue;
      const values = [...usageToSql(sums), sums.leasedCount, countersSum(sums, 0)];
      const { changes } = guardNow('counting', () => this.#sql.addCounters.run(id, ...values));
      if (changes !== 1) throw damagedRow('the Space with the id', String(id));
    }
  }

  /** Call after the commit. */
  publish(): void {
    for (const { space, id } of this.#found.values()) this.#directory.remember(space, id);
  }
}
