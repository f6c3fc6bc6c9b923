/** How much of a tree a pull of some of its paths brings. */
import type { NodeSource } from '../read/node-source.ts';
import { openTree, type TreeItem } from '../read/open-tree.ts';
import { formatName } from '../walk/tree-path.ts';

/** Totals of everything at `paths`, each entry once. Throws TreePathError where there is nothing. */
export async function measurePaths(
  source: NodeSource,
  root: TreeItem,
  paths: readonly (readonly Uint8Array[])[],
  signal: AbortSignal | undefined,
): Promise<Pick<TreeItem, 'entryCount' | 'bytes'>> {
  const keys = paths.map((names) => names.map((name) => `${formatName(name)}/`).join(''));
  const measured = new Set<string>();
  let [entryCount, bytes] = [0, 0];
  for (const [index, names] of paths.entries()) {
    const item = await openTree(source).resolvePath(root.hash, names, { signal });
    const key = keys[index] as string;
    const isWithin = keys.some((other) => other !== key && key.startsWith(other));
    if (isWithin || measured.has(key)) continue;
    measured.add(key);
    entryCount += item.entryCount + 1;
    bytes += item.bytes;
  }
  return { entryCount, bytes };
}
