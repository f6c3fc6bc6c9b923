/** core/mend-ports.ts NodeMending on SQLite. */
import { HASH_BYTES, type Hash } from '@holdfast/protocol';
import type { NodeHolders, NodeMending, UnprovenNode } from '../../core/mend-ports.ts';
import type { NodeRow } from '../../core/model.ts';
import { nodeSum } from '../../core/rows/node-sum.ts';
import { hexToBytes, unprovenNode } from './rows.ts';
import { NO_SPACE } from './statements.ts';
import type { WriteScope } from './write-scope.ts';

interface MendingOptions {
  readonly scope: WriteScope;
  readonly space: number | undefined;
  /** after the row was removed */
  readonly insert: (stands: NodeRow, row: NodeRow) => void;
}

export class SqliteNodeMending implements NodeMending {
  readonly #scope: WriteScope;
  readonly #space: number;
  readonly #insert: MendingOptions['insert'];

  constructor({ scope, space, insert }: MendingOptions) {
    this.#scope = scope;
    this.#space = space ?? NO_SPACE;
    this.#insert = insert;
  }

  findUnproven(hash: Hash): UnprovenNode | undefined {
    const found = this.#scope.find(this.#scope.sql.findNode, this.#space, hexToBytes(hash));
    if (found === undefined) return undefined;
    const hasSumOf = (row: NodeRow): boolean => found.row_sum === nodeSum(this.#space, row);
    return { row: unprovenNode(found, hash), hasSumOf };
  }

  countHolders(hash: Hash): NodeHolders {
    const key = hexToBytes(hash);
    const { findParents, findBalancesOf } = this.#scope.sql;
    const parents = this.#scope.findAll(findParents, this.#space, key);
    const balances = this.#scope.findAll(findBalancesOf, this.#space, key);
    return {
      childRefCount: parents.reduce((sum, { refs }) => sum + occurrences(refs, hash), 0),
      rootRefCount: Math.max(
        0,
        balances.reduce((sum, { balance }) => sum + Number(balance), 0),
      ),
      heldDomainCount: balances.length,
    };
  }

  replaceNode(stands: NodeRow, row: NodeRow): void {
    this.#scope.write(this.#scope.sql.removeNode, this.#space, hexToBytes(row.hash));
    this.#insert(stands, row);
  }
}

function occurrences(refs: unknown, hash: Hash): number {
  if (!(refs instanceof Uint8Array)) return 0;
  let count = 0;
  for (let at = 0; at < refs.length; at += HASH_BYTES) {
    if (refs.subarray(at, at + HASH_BYTES).toHex() === hash) count += 1;
  }
  return count;
}
