/** The part of a tree that a pull was asked for. */
import { findText, type TreePath } from '../walk/tree-path.ts';

interface Branch {
  readonly below: Map<string, Branch>;
  /** everything from here on was asked for */
  isWhole: boolean;
}

/** `inside`: asked for. `above`: a directory that leads to something asked for. */
export type Position = 'inside' | 'above' | 'outside';

export class PullSelection {
  readonly #root: Branch = { below: new Map(), isWhole: false };
  /** of directories that were asked about; they are few at a time, and forgotten with their paths */
  readonly #known = new WeakMap<TreePath, Branch | Position>();

  /** No paths: everything. */
  constructor(paths: readonly (readonly Uint8Array[])[]) {
    this.#root.isWhole = paths.length === 0;
    for (const names of paths) {
      let at = this.#root;
      for (const name of names) {
        const key = keyOf(name);
        const next = at.below.get(key) ?? { below: new Map(), isWhole: false };
        at.below.set(key, next);
        at = next;
      }
      at.isWhole = true;
    }
  }

  positionOf(path: TreePath | undefined): Position {
    const branch = this.#branchOf(path);
    if (branch === 'inside' || branch === 'outside') return branch;
    return (branch as Branch).isWhole ? 'inside' : 'above';
  }

  #branchOf(path: TreePath | undefined): Branch | Position {
    const chain: TreePath[] = [];
    let at = path;
    let found: Branch | Position | undefined;
    for (; at !== undefined; at = at.parent) {
      found = this.#known.get(at);
      if (found !== undefined) break;
      chain.push(at);
    }
    found ??= this.#root;
    for (const next of chain.reverse()) {
      found = stepInto(found, next.name);
      this.#known.set(next, found);
    }
    return found;
  }
}

function stepInto(branch: Branch | Position, name: Uint8Array): Branch | Position {
  if (typeof branch === 'string') return branch;
  if (branch.isWhole) return 'inside';
  return branch.below.get(keyOf(name)) ?? 'outside';
}

function keyOf(name: Uint8Array): string {
  return findText(name) ?? `\u0000${Array.from(name).join()}`;
}
