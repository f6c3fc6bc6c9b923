/** Loose edges within one transaction. They are rare: a push that brings children first makes none. */
import type { Hash } from '@holdfast/protocol';
import { isSum } from '../../core/rows/row-sum.ts';
import { looseEdgesSum } from '../../core/rows/row-sums.ts';
import { damagedRow, hexToBytes } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

export class LooseEdges {
  readonly #scope: WriteScope;
  /** as SQLite has them, with the writes of this transaction */
  readonly #known = new Map<Hash, number>();

  constructor(scope: WriteScope) {
    this.#scope = scope;
  }

  /** `space` undefined: it has no row. */
  find(space: number | undefined, hashes: readonly Hash[]): readonly number[] {
    if (space === undefined) return hashes.map(() => 0);
    const { sql, withLooseEdges } = this.#scope;
    if (!withLooseEdges.has(space)) {
      withLooseEdges.set(space, this.#scope.find(sql.findAnyLooseEdges, space) !== undefined);
    }
    if (!withLooseEdges.get(space)) return hashes.map(() => 0);
    return hashes.map((hash) => {
      const known = this.#known.get(hash);
      if (known !== undefined) return known;
      const row = this.#scope.find(sql.findLooseEdges, space, hexToBytes(hash));
      const count = (row?.count as number | undefined) ?? 0;
      if (row !== undefined && !isSum(row.row_sum, looseEdgesSum(space, hash, count))) {
        throw damagedRow('the edges to', hash);
      }
      this.#known.set(hash, count);
      return count;
    });
  }

  set(space: number, hash: Hash, count: number): void {
    const { sql, withLooseEdges } = this.#scope;
    withLooseEdges.set(space, true);
    if (count === 0) this.#scope.write(sql.deleteLooseEdges, space, hexToBytes(hash));
    else
      this.#scope.write(sql.setLooseEdges, space, hexToBytes(hash), count, looseEdgesSum(space, hash, count));
    this.#known.set(hash, count);
  }
}
