/** The few nodes every random sequence plays with: shared and duplicate children, limits met exactly, bytes that never fit. */
import { type CanonicalNode, makeNode, seededBytes, sha256Hex } from '../support/canonical-node.ts';

export interface PoolNode extends CanonicalNode {
  readonly name: string;
  /** false: the hash is right, the bytes are no canonical node */
  readonly isValid: boolean;
}

/** Larger than any engine keeps beside its rows, so that both ways of storing bytes are walked. */
export const NODE_BYTES_MAX = 150_000;

const HEADER_AND_TYPE_BYTES = 24 + 'application/octet-stream'.length;

function makePool(): readonly PoolNode[] {
  const leafA = makeNode('a small leaf');
  // An object of its own on every engine, and small enough for a pack.
  const leafB = makeNode(seededBytes(40_000, 1), { contentType: 'text/plain; charset=utf-8' });
  const empty = makeNode('');
  const largest = makeNode(seededBytes(NODE_BYTES_MAX - HEADER_AND_TYPE_BYTES, 2));
  const tooLarge = makeNode(seededBytes(NODE_BYTES_MAX - HEADER_AND_TYPE_BYTES + 1, 3));
  const twice = makeNode('twice', { refs: [leafA.hash, leafB.hash, leafA.hash] });
  const wide = makeNode(seededBytes(50_000, 4), { refs: [largest.hash, empty.hash, leafB.hash] });
  const grand = makeNode('grand', { refs: [wide.hash, twice.hash, leafA.hash, twice.hash] });
  const garbage = new TextEncoder().encode('these bytes are no canonical node');
  const invalid = { ...leafA, hash: sha256Hex(garbage), bytes: garbage };
  const orphan = makeNode('waits forever', { refs: [invalid.hash, leafA.hash] });
  const named: [string, CanonicalNode][] = [
    ['leafA', leafA],
    ['leafB', leafB],
    ['empty', empty],
    ['largest', largest],
    ['twice', twice],
    ['wide', wide],
    ['grand', grand],
    ['orphan', orphan],
    ['tooLarge', tooLarge],
    ['invalid', invalid],
  ];
  return named.map(([name, node]) => ({ ...node, name, isValid: name !== 'invalid' }));
}

export const POOL: readonly PoolNode[] = makePool();

const BY_HASH = new Map(POOL.map((node) => [node.hash, node]));

export function getPoolNode(hash: string): PoolNode {
  const node = BY_HASH.get(hash);
  if (node === undefined) throw new Error(`no pool node has the hash ${hash}`);
  return node;
}
