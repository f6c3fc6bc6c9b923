/** A folder of a pull, from its first entry until all in it is done. */

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

/** A folder that the walk is in or has left. It is over once the walk has left it and all its tasks and folders are over. */
export class OpenFolder {
  readonly parent: OpenFolder | undefined;
  readonly #onDone: () => boolean;
  /** The walk itself is the first. */
  #holders = 1;
  #isDone = true;

  /** `onDone` is called when all below the folder is done. It says whether the folder itself is done then. */
  constructor(parent: OpenFolder | undefined, onDone: () => boolean) {
    this.parent = parent;
    this.#onDone = onDone;
    parent?.hold();
  }

  hold(): void {
    this.#holders += 1;
  }

  release(isDone = true): void {
    this.#holders -= 1;
    this.#isDone &&= isDone;
    if (this.#holders > 0) return;
    const isAllDone = this.#isDone && this.#onDone();
    this.parent?.release(isAllDone);
  }
}
