/** A directory with some names changed. If it has index pages, only pages in which something changes are read and made anew. */
import type { Hash } from '@holdfast/protocol';
import { DirectoryBuilder, type NodeSink } from '../build/builders.ts';
import {
  compareNames,
  type DirectoryEntry,
  type DirectoryIndexChild,
  type TreeTotals,
} from '../format/tree-format.ts';
import { type DirectoryPart, type ExpectedDirectoryPart, expectChild } from '../read/directory-parts.ts';
import type { RememberedParts } from './remembered-parts.ts';

export interface StoredDirectory extends TreeTotals {
  readonly hash: Hash;
}

export interface NameChange {
  readonly name: Uint8Array;
  /** undefined: the name goes */
  readonly entry: DirectoryEntry | undefined;
}

interface Context {
  readonly parts: RememberedParts;
  readonly sink: NodeSink;
}

/** The directory `stored` (undefined: an empty one) with `changes`, which are sorted by name. The same nodes as a push makes of it. */
export async function buildEdited(
  stored: StoredDirectory | undefined,
  changes: readonly NameChange[],
  context: Context,
): Promise<StoredDirectory> {
  const edit = new DirectoryEdit(context);
  if (stored === undefined) await edit.merge([], changes);
  else await edit.takePart(await context.parts.read(stored.hash, { totals: stored }), {}, changes);
  return edit.finish();
}

class DirectoryEdit {
  readonly #context: Context;
  readonly #builder: DirectoryBuilder;
  readonly #adopted = new Set<Hash>();

  constructor(context: Context) {
    this.#context = context;
    this.#builder = new DirectoryBuilder(context.sink);
  }

  /** `changes` are all within what the part may hold. */
  async takePart(
    part: DirectoryPart,
    { endName }: ExpectedDirectoryPart,
    changes: readonly NameChange[],
  ): Promise<void> {
    if (part.type === 'directory') return this.merge(part.entries, changes);
    let taken = 0;
    for (const [at, child] of part.children.entries()) {
      const next = part.children[at + 1];
      let end = changes.length;
      if (next !== undefined) {
        end = taken;
        while (end < changes.length && isBefore(changes[end] as NameChange, next)) end += 1;
      }
      await this.#takeChild(child, expectChild(part, at, endName), changes.slice(taken, end));
      taken = end;
    }
  }

  async #takeChild(
    child: DirectoryIndexChild,
    expected: ExpectedDirectoryPart,
    changes: readonly NameChange[],
  ): Promise<void> {
    const { level = 0 } = expected;
    if (changes.length === 0 && this.#builder.canAdopt(level)) {
      this.#adopted.add(child.hash);
      await this.#builder.adopt(level, child);
      return;
    }
    await this.takePart(await this.#context.parts.read(child.hash, expected), expected, changes);
  }

  async merge(entries: readonly DirectoryEntry[], changes: readonly NameChange[]): Promise<void> {
    let at = 0;
    for (const entry of entries) {
      let isGone = false;
      for (; at < changes.length; at += 1) {
        const change = changes[at] as NameChange;
        const order = compareNames(change.name, entry.name);
        if (order > 0) break;
        if (order === 0) isGone = true;
        if (change.entry !== undefined) await this.#builder.add(change.entry);
      }
      if (!isGone) await this.#builder.add(entry);
    }
    for (const { entry } of changes.slice(at)) if (entry !== undefined) await this.#builder.add(entry);
  }

  async finish(): Promise<StoredDirectory> {
    const built = await this.#builder.finish();
    let { hash } = built;
    // An index that was the last of its level may have a single child, which is the directory when nothing else is left.
    while (this.#adopted.has(hash)) {
      const part = await this.#context.parts.read(hash, { totals: built });
      const [only, other] = part.type === 'directory' ? [] : part.children;
      if (only === undefined || other !== undefined) break;
      hash = only.hash;
      this.#adopted.add(hash);
    }
    return { ...built, hash };
  }
}

function isBefore({ name }: NameChange, { firstName }: DirectoryIndexChild): boolean {
  return compareNames(name, firstName) < 0;
}
