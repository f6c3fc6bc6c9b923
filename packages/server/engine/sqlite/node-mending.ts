/** core/upkeep-ports.ts NodeMending on SQLite. */
import { HASH_BYTES, type Hash } from '@holdfast/protocol';
import type { NodeRow } from '../../core/model.ts';
import { nodeSum } from '../../core/rows/row-sums.ts';
import type { NodeHolders, NodeMending, UnprovenNode } from '../../core/upkeep-ports.ts';
import { hexToBytes, isNodeSound, unprovenNode } from './rows.ts';
import { NO_SPACE } from './statements.ts';
import type { WriteScope } from './write-scope.ts';

/** The last bit is the sign. */
const SPACE_BITS = Array.from({ length: 63 }, (_, bit) => 1n << BigInt(bit));
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
    const near = new NearHashes(this.#scope, this.#space);
    return hashes.filter((hash) => {
      const key = hexToBytes(hash);
      if (this.#scope.find(isBalanced, this.#space, key) !== undefined || near.hasNear(key)) return true;
      // Nodes of other Spaces may have the same hash, and be damaged: only a row that has the sum of one of this Space is from here.
      return spaces.some((space) => {
        const row = this.#scope.find(findNode, space, key);
        return row !== undefined && isNodeSound({ ...row, space: this.#space });
      });
    });
  }

  replaceNode(stands: NodeRow, row: NodeRow): void {
    this.#scope.write(this.#scope.sql.removeNode, this.#space, hexToBytes(row.hash));
    this.#insert(stands, row);
  }
}

/** Looks for hashes that differ in one bit from others. */
class NearHashes {
  readonly #scope: WriteScope;
  readonly #space: number;
  /** Hashes that differ in one of so many first bits are sought one by one. One range has those that differ behind them. */
  #bits = 16;

  constructor(scope: WriteScope, space: number) {
    this.#scope = scope;
    this.#space = space;
  }

  hasNear(key: Uint8Array): boolean {
    const { findHashes, hasNode } = this.#scope.sql;
    const bits = this.#bits;
    const [from, to] = rangeOf(key, bits);
    const found = this.#scope.findAll(findHashes, this.#space, from, to);
    // A row of the range costs a third of a look: the number of bits follows how many nodes there are.
    if (found.length > 12) this.#bits = Math.min(32, bits + 1);
    else if (found.length < 4) this.#bits = Math.max(0, bits - 1);
    if (found.some((row) => isNear(key, row.hash as Uint8Array))) return true;
    const other = new Uint8Array(key);
    for (let bit = 0; bit < bits; bit += 1) {
      flip(other, bit);
      if (this.#scope.find(hasNode, this.#space, other) !== undefined) return true;
      flip(other, bit);
    }
    return false;
  }
}

function flip(bytes: Uint8Array, bit: number): void {
  bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (0x80 >> (bit & 7));
}

/** The first and the last hash that begin with the same bits. */
function rangeOf(key: Uint8Array, bits: number): [Uint8Array, Uint8Array] {
  const whole = bits >> 3;
  const left = 0xff >> (bits & 7);
  const [from, to] = [new Uint8Array(HASH_BYTES), new Uint8Array(HASH_BYTES).fill(0xff)];
  from.set(key.subarray(0, whole));
  to.set(key.subarray(0, whole));
  from[whole] = (key[whole] as number) & ~left;
  to[whole] = (key[whole] as number) | left;
  return [from, to];
}

function isNear(key: Uint8Array, other: Uint8Array): boolean {
  let wrong = 0;
  for (let at = 0; at < HASH_BYTES; at += 1) {
    const bits = (key[at] as number) ^ (other[at] as number);
    if (bits === 0) continue;
    if (wrong !== 0 || (bits & (bits - 1)) !== 0) return false;
    wrong = bits;
  }
  return wrong !== 0;
}

function occurrences(refs: unknown, hash: Hash): number {
  if (!(refs instanceof Uint8Array)) return 0;
  let count = 0;
  for (let at = 0; at < refs.length; at += HASH_BYTES) {
    if (refs.subarray(at, at + HASH_BYTES).toHex() === hash) count += 1;
  }
  return count;
}
