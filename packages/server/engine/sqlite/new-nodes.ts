/** Node rows that one transaction has made, written when it ends or before a read: a child with its parent is written once. */
import type { Hash } from '@holdfast/protocol';
import { assertInvariant } from '../../core/invariant.ts';
import type { Generation, NodeRow } from '../../core/model.ts';
import type { PublishedRow } from '../../core/ports.ts';
import type { SqlitePackRows } from './packs/pack-rows.ts';
import { nodeToSql } from './rows.ts';
import type { WriteScope } from './write-scope.ts';

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
