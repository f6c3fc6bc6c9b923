/** core/upkeep-ports.ts NodeMending on SQLite. */
import { HASH_BYTES, type Hash } from '@holdfast/protocol';
import type { NodeRow } from '../../core/model.ts';
import { nodeSum } from '../../core/rows/row-sums.ts';
import { neighboursOf } from '../../core/stray-watch.ts';
import type { NodeHolders, NodeMending, UnprovenNode } from '../../core/upkeep-ports.ts';
import { bytesToHex, hexToBytes, isNodeSound, unprovenNode } from './rows.ts';
import { NO_SPACE } from './statements.ts';
import type { WriteScope } from './write-scope.ts';

/** The last bit is the sign. */
const SPACE_BITS = Array.from({ length: 63 }, (_, bit) => 1n << BigInt(bit));
/** as many as `findKnownNodes` has parameters */
const PREFIX_BITS = Array.from({ length: 32 }, (_, bit) => bit);
const LARGEST = new Uint8Array(HASH_BYTES).fill(0xff);

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
    return { row: unprovenNode(found, hash), hasSumOf, countHolders: () => this.#countHolders(hash) };
  }

  #countHolders(hash: Hash): NodeHolders {
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

  findDoubted(hashes: readonly Hash[]): readonly Hash[] {
    const { findAnyNode, findNode, isBalanced } = this.#scope.sql;
    const spaces = SPACE_BITS.map((bit) => BigInt(this.#space) ^ bit).filter(
      (space) => this.#scope.find(findAnyNode, space) !== undefined,
    );
    return hashes.filter((hash) => {
      const key = hexToBytes(hash);
      if (this.#scope.find(isBalanced, this.#space, key) !== undefined || this.#hasNear(hash, key))
        return true;
      // Nodes of other Spaces may have the same hash, and be damaged: only a row that has the sum of one of this Space is from here.
      return spaces.some((space) => {
        const row = this.#scope.find(findNode, space, key);
        return row !== undefined && isNodeSound({ ...row, space: this.#space });
      });
    });
  }

  /** Two hashes hardly ever begin with the same bits, so one seek finds all neighbours that differ behind them. */
  #hasNear(hash: Hash, key: Uint8Array): boolean {
    const { findHashes, findKnownNodes } = this.#scope.sql;
    const keys = PREFIX_BITS.map((bit) => {
      const near = new Uint8Array(key);
      near[bit >> 3] = (near[bit >> 3] as number) ^ (1 << (bit & 7));
      return near;
    });
    if (this.#scope.find(findKnownNodes, this.#space, ...keys) !== undefined) return true;
    const prefix = key.subarray(0, PREFIX_BITS.length / 8);
    const found = this.#scope.findAll(findHashes, this.#space, prefix, Buffer.concat([prefix, LARGEST]));
    if (found.length < 2) return false;
    const neighbours = new Set(neighboursOf(hash));
    return found.some((row) => neighbours.has(bytesToHex(row.hash as Uint8Array)));
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
