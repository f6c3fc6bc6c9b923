/** core/upkeep-ports.ts NodeMending on PostgreSQL. */
import type { Hash } from '@holdfast/protocol';
import type { NodeRow, SpaceKey } from '../../core/model.ts';
import { neighboursOf } from '../../core/stray-watch.ts';
import type { NodeHolders, NodeMending, UnprovenNode } from '../../core/upkeep-ports.ts';
import type { RowChanges } from './row-changes.ts';
import { hashesToSql, nodeSumsToSql, standingNode } from './rows.ts';
import type { TransactionWire } from './wire/transaction-wire.ts';
import { byteaToHex, hexToBytea, type SqlRow } from './wire/wire-messages.ts';

export class PostgresNodeMending implements NodeMending {
  readonly #wire: TransactionWire;
  readonly #key: SpaceKey;
  readonly #rows: RowChanges;
  /** whether the counter of leases counts the row, as far as it is known */
  readonly #counted = new Map<Hash, boolean>();

  constructor(wire: TransactionWire, space: SpaceKey, rows: RowChanges) {
    this.#wire = wire;
    this.#key = space;
    this.#rows = rows;
  }

  async findUnproven(hash: Hash): Promise<UnprovenNode | undefined> {
    const { rows } = await this.#wire.send('lockNode', [this.#key, hexToBytea(hash)]);
    const [found] = rows;
    if (found === undefined) return undefined;
    this.#counted.set(hash, found.lease_counted as boolean);
    const hasSumOf = (row: NodeRow): boolean =>
      [true, false].some((isLeaseCounted) => {
        const [, [sum]] = nodeSumsToSql(this.#key, [{ row, isLeaseCounted }]);
        if (found.row_sum !== sum) return false;
        this.#counted.set(hash, isLeaseCounted);
        return true;
      });
    return { row: standingNode(found), hasSumOf, countHolders: () => this.#countHolders(hash) };
  }

  async #countHolders(hash: Hash): Promise<NodeHolders> {
    const key = [this.#key, hexToBytea(hash)];
    const { rows } = await this.#wire.send('countHolders', key);
    const [{ children, roots, domains }] = rows as [SqlRow];
    return {
      childRefCount: children as number,
      rootRefCount: Math.max(0, roots as number),
      heldDomainCount: domains as number,
    };
  }

  async findDoubted(hashes: readonly Hash[]): Promise<readonly Hash[]> {
    const asked = hashesToSql(hashes);
    const found = await Promise.all([
      this.#wire.send('findBalanced', [this.#key, asked]),
      this.#wire.send('findInNearSpaces', [neighboursOf(this.#key), asked]),
      this.#wire.send('findNearOnes', [this.#key, asked]),
    ]);
    const rows = found.flatMap((each) => each.rows);
    return rows
      .map(({ hash, near }) => [byteaToHex(hash), byteaToHex(near)] as const)
      .filter(([hash, near]) => hash === near || neighboursOf(hash).includes(near))
      .map(([hash]) => hash);
  }

  replaceNode(stands: NodeRow, row: NodeRow): void {
    const wasCounted = this.#counted.get(row.hash) ?? false;
    const isSameLease = stands.leaseExpiresAt === row.leaseExpiresAt;
    this.#rows.replaceNode(row, wasCounted, isSameLease ? wasCounted : row.leaseExpiresAt > 0);
  }
}
