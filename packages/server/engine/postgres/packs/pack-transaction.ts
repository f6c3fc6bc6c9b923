/** core/pack-ports.ts PackVerbs on PostgreSQL. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../../../core/awaitable.ts';
import type { Generation, UploadRow } from '../../../core/model.ts';
import type { PackId, PackRow, PackUse, PackVerdicts } from '../../../core/pack-model.ts';
import type { PackVerbs, RecordMove, SweptPack } from '../../../core/pack-ports.ts';
import { UNUSED } from '../../../core/packs/own-packs.ts';
import type { ContentChanges } from '../content-changes.ts';
import { placeSum } from '../row-sums.ts';
import type { TransactionWire } from '../wire/transaction-wire.ts';
import { byteaToHex, hexToBytea, type SqlRow } from '../wire/wire-messages.ts';
import { isUseProven, packFromSql, readPack, unprovenUse, useFromSql, verdictsFromSql } from './pack-rows.ts';

interface PackParts {
  readonly wire: TransactionWire;
  readonly space: string;
  readonly changes: ContentChanges;
  /** sends all writes so far, those of packs too */
  readonly flush: () => readonly Promise<unknown>[];
  readonly findUploads: (hashes: readonly Hash[]) => Promise<readonly (UploadRow | undefined)[]>;
}

export class PostgresPacks implements PackVerbs {
  readonly #parts: PackParts;
  readonly #changes: ContentChanges;

  constructor(parts: PackParts) {
    this.#parts = parts;
    this.#changes = parts.changes;
  }

  async findPack(id: PackId): Promise<PackRow | undefined> {
    const known = this.#changes.findKnown(id);
    if (known !== undefined) return known.row;
    const { wire, space } = this.#parts;
    const { rows } = await wire.send('findPack', [space, hexToBytea(id)]);
    if (rows[0] !== undefined) return this.#learn(rows[0]);
    this.#changes.learnNoPack(id);
    return undefined;
  }

  async findOpenPack(asked: Uint8Array): Promise<PackRow | undefined> {
    const { wire, space } = this.#parts;
    const { rows } = await wire.send('findOpenPack', [space, hexToBytea(asked.toHex()), wire.clock]);
    return rows[0] && this.#learn(rows[0]);
  }

  /** `after` undefined: the row is deleted */
  change(before: PackRow, after: PackRow | undefined): Awaitable<void> {
    const { id } = before;
    if (this.#changes.findKnown(id) !== undefined) return this.#changes.changePack(before, after);
    return this.findPack(id).then(() => this.#changes.changePack(before, after));
  }

  findUploads(hashes: readonly Hash[]): Promise<readonly (UploadRow | undefined)[]> {
    return this.#parts.findUploads(hashes);
  }

  async findUse(generation: Generation): Promise<PackUse> {
    const { wire, space, flush } = this.#parts;
    const flushed = this.#changes.isUseChanged ? flush() : [];
    const [{ rows }] = await Promise.all([
      wire.send('findPackUse', [space, hexToBytea(generation)]),
      ...flushed,
    ]);
    return rows[0] === undefined ? UNUSED : useFromSql(space, generation, rows[0]);
  }

  async findVerdicts(generation: Generation): Promise<PackVerdicts | undefined> {
    const known = this.#changes.verdicts.get(generation);
    if (known !== undefined) return known;
    const { wire, space } = this.#parts;
    const { rows } = await wire.send('findVerdicts', [space, hexToBytea(generation)]);
    return rows[0] && verdictsFromSql(space, generation, rows[0]);
  }

  setVerdicts(generation: Generation, verdicts: PackVerdicts): void {
    this.#parts.wire.assertUsable();
    this.#changes.verdicts.set(generation, verdicts);
  }

  async moveRecords(moves: readonly RecordMove[]): Promise<number> {
    if (moves.length === 0) return 0;
    const { wire, space, flush } = this.#parts;
    const flushed = this.#changes.contents.size > 0 ? flush() : [];
    const [{ rows }] = await Promise.all([
      wire.send('moveRecords', [
        space,
        moves.map(({ generation }) => hexToBytea(generation)),
        moves.map(({ from }) => hexToBytea(from.pack)),
        moves.map(({ from }) => from.offset),
        moves.map(({ to }) => hexToBytea(to.pack)),
        moves.map(({ to }) => to.offset),
        moves.map(({ to }) => to.storedLength),
        moves.map(({ to }) => to.codec),
        moves.map(({ integrity }) => hexToBytea(integrity.toHex())),
        moves.map(({ generation, integrity, to }) => placeSum(space, { generation, integrity, packed: to })),
      ]),
      ...flushed,
    ]);
    const moved = new Set(rows.map((row) => byteaToHex(row.generation)));
    for (const { generation, from, to } of moves) {
      if (moved.has(generation)) this.#changes.noteMoved(from, to);
    }
    return moved.size;
  }

  async findDue(abandonedAt: number | null, limit: number): Promise<readonly SweptPack[]> {
    const { wire, space, flush } = this.#parts;
    const flushed = this.#changes.isUseChanged || this.#changes.isPackChanged ? flush() : [];
    const [{ rows }] = await Promise.all([
      wire.send('findPacksToSweep', [space, abandonedAt, limit]),
      ...flushed,
    ]);
    return rows.flatMap((row) => {
      const { pack, isProven } = readPack(space, row);
      // Nothing is done to a pack whose row is damaged: check names it.
      if (!isProven || !isUseProven(space, pack.generation, row)) return [];
      return [{ pack: this.#learn(row) ?? pack, use: unprovenUse(row) }];
    });
  }

  #learn(row: SqlRow): PackRow | undefined {
    const { space } = this.#parts;
    return this.#changes.learnPack({ row: packFromSql(space, row), version: row.version as number });
  }
}
