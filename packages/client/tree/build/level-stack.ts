/** The balanced index over a list of unknown length, built while the list streams by. */
import { CHILDREN_MAX, CHILDREN_MIN, INDEX_LEVEL_MAX, TreeFormatError } from '../format/tree-format.ts';

interface Level<Child> {
  /** children of the node that is open at this level */
  open: Child[];
  receivedCount: number;
}

/**
 * Children of level 1 come in, nodes of all levels go out as they fill. A node ends after a child that is a boundary, not
 * before CHILDREN_MIN and at CHILDREN_MAX at the latest; so what changes in one place moves few boundaries elsewhere. The
 * root is the only child of its level.
 */
export class LevelStack<Child> {
  readonly #isBoundary: (level: number, child: Child) => boolean;
  readonly #makeNode: (level: number, children: readonly Child[]) => Promise<Child>;
  /** index 0 is level 1 */
  readonly #levels: Level<Child>[] = [];

  /** `makeNode` emits the node over `children` and describes it as a child of the next level. */
  constructor(
    isBoundary: (level: number, child: Child) => boolean,
    makeNode: (level: number, children: readonly Child[]) => Promise<Child>,
  ) {
    this.#isBoundary = isBoundary;
    this.#makeNode = makeNode;
  }

  isEmpty(): boolean {
    return this.#levels.length === 0;
  }

  /** A promise where a node is full: await it before the next call. */
  add(level: number, child: Child): void | Promise<void> {
    const { open, receivedCount } = this.#levelAt(level);
    open.push(child);
    this.#levelAt(level).receivedCount = receivedCount + 1;
    const isFull =
      open.length >= CHILDREN_MIN && (open.length === CHILDREN_MAX || this.#isBoundary(level, child));
    return isFull ? this.#close(level) : undefined;
  }

  /** Whether no node of `level` or below is open. */
  isAligned(level: number): boolean {
    return this.#levels.slice(0, level).every(({ open }) => open.length === 0);
  }

  /** Adds a node of `level` that was made elsewhere. The levels below count as having many children. */
  adopt(level: number, child: Child): void | Promise<void> {
    for (let below = 1; below <= level; below += 1) this.#levelAt(below).receivedCount += CHILDREN_MIN;
    return this.add(level + 1, child);
  }

  /** Closes what is open; the root. Rejects with TreeFormatError when nothing was added. */
  async finish(): Promise<Child> {
    for (let level = 1; ; level += 1) {
      const { open, receivedCount } = this.#levelAt(level);
      if (receivedCount === 0) throw new TreeFormatError('an index has no children');
      if (receivedCount === 1) return open[0] as Child;
      if (open.length > 0) await this.#close(level);
    }
  }

  #levelAt(level: number): Level<Child> {
    if (level > INDEX_LEVEL_MAX) throw new TreeFormatError('the index would need too many levels');
    let found = this.#levels[level - 1];
    if (found === undefined) {
      found = { open: [], receivedCount: 0 };
      this.#levels.push(found);
    }
    return found;
  }

  async #close(level: number): Promise<void> {
    const at = this.#levelAt(level);
    const children = at.open;
    at.open = [];
    await this.add(level + 1, await this.#makeNode(level, children));
  }
}
