/** Orders nodes so that each comes after those of its children that are among them. Pure. */
import { type Hash, refsToHashes } from '@holdfast/protocol';

/** `refsOf`: the refs of a node, 32 raw bytes each; undefined where they are not known. Keeps the order of what does not matter. */
export function childrenFirst(
  hashes: readonly Hash[],
  refsOf: (hash: Hash) => Uint8Array | undefined,
): Hash[] {
  const left = new Set(hashes);
  const ordered: Hash[] = [];
  for (const hash of hashes) {
    if (!left.delete(hash)) continue;
    // Without recursion: a chain of nodes may be as long as the list.
    const path = [{ hash, children: childrenOf(hash, refsOf) }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const child = top.children.pop();
      if (child === undefined) {
        ordered.push(top.hash);
        path.pop();
      } else if (left.delete(child)) {
        path.push({ hash: child, children: childrenOf(child, refsOf) });
      }
    }
  }
  return ordered;
}

function childrenOf(hash: Hash, refsOf: (hash: Hash) => Uint8Array | undefined): Hash[] {
  const refs = refsOf(hash);
  return refs === undefined ? [] : refsToHashes(refs).toReversed();
}
