/** Decides whether two root-ref payloads are the same (docs/api.md, updateRootRefs): the map itself. */
import type { Hash } from './hash.ts';

export interface RootRefChange {
  readonly hash: Hash;
  /** safe integer; 0 is allowed */
  readonly delta: number;
}

/** One text per map: entries in hash order, deltas in plain decimal, whatever the request wrote. Its SHA-256 identifies the payload. */
export function canonicalRootRefPayload(changes: readonly RootRefChange[]): string {
  const sorted = isSorted(changes) ? changes : changes.toSorted(byHash);
  let text = '{';
  for (const { hash, delta } of sorted) {
    text += `${text === '{' ? '' : ','}"${hash}":${delta}`;
  }
  return `${text}}`;
}

function byHash(left: RootRefChange, right: RootRefChange): number {
  if (left.hash === right.hash) return 0;
  return left.hash < right.hash ? -1 : 1;
}

function isSorted(changes: readonly RootRefChange[]): boolean {
  for (let index = 1; index < changes.length; index++) {
    if ((changes[index - 1] as RootRefChange).hash > (changes[index] as RootRefChange).hash) return false;
  }
  return true;
}
