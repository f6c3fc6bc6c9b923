/** Node rows that one transaction has made, written when it ends or before a read: a child with its parent is written once. */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../core/invariant.ts';
import type { Generation, NodeRow } from '../../core/model.ts';
import type { PublishedRow } from '../../core/ports.ts';
import { isSum, looseEdgesSum } from '../../core/rows/row-sums.ts';
import type { SqlitePackRows } from './packs/pack-rows.ts';
import { damagedRow, hexToBytes, nodeToSql } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

/** Loose edges within one transaction. They are rare: a push that brings children first makes none. */
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

/** The invariant that breaks if a row is not as its transaction has read it. */
export const AS_READ = 'a row is changed from exactly what was read';

export class NewNodes {
  readonly #scope: WriteScope;
  #rows: Map<Hash, NodeRow> | undefined;
  #space = 0;

  constructor(scope: WriteScope) {
    this.#scope = scope;
  }

  /** `space`: its integer id, the same in all calls */
  insert(space: number, row: NodeRow): void {
    if (this.#rows === undefined) {
      this.#rows = new Map();
      this.#space = space;
      this.#scope.beforeKeep(() => this.flush());
    }
    assertInvariant(!this.#rows.has(row.hash), 'a row is made once');
    this.#rows.set(row.hash, row);
  }

  /** False: the row was not made here, or is written already. */
  update(before: NodeRow, after: NodeRow): boolean {
    const row = this.#rows?.get(before.hash);
    if (row === undefined) return false;
    this.#scope.assertUsable();
    const isAsRead =
      row.state === before.state &&
      row.leaseExpiresAt === before.leaseExpiresAt &&
      row.childRefCount === before.childRefCount &&
      row.rootRefCount === before.rootRefCount;
    assertInvariant(isAsRead, AS_READ);
    this.#rows?.set(before.hash, after);
    return true;
  }

  flush(): void {
    const rows = this.#rows;
    if (rows === undefined) return;
    for (const row of rows.values()) insertNode(this.#scope, this.#space, row);
    rows.clear();
  }
}

/** Writes a row. `space`: its integer id. */
function insertNode(scope: WriteScope, space: number, row: NodeRow): void {
  scope.writeOne(AS_READ, scope.sql.insertNode, ...nodeToSql(space, row));
}

/** In one loop, because first pushes do little else. All content is in packs. */
export function insertPublished(
  scope: WriteScope,
  space: number,
  packs: Pick<SqlitePackRows, 'insertContent'>,
  rows: readonly PublishedRow[],
): void {
  for (const { node, content } of rows) {
    if (content.packed === undefined) throw new Error('what a pack brings is published together');
    assertWrittenOnce(packs.insertContent(content, content.packed), content.generation);
    insertNode(scope, space, node);
  }
  scope.countNew(space, rows);
}

/** `changes`: how many rows of content came of the statement. */
export function assertWrittenOnce(changes: number, generation: Generation): void {
  if (changes === 0) throw new Error(`generation ${generation} already has content: keys are write-once`);
}
