/**
 * Walks a graph of nodes from its root with bounded parallelism: newest first, so that memory is the width of a node times
 * its depth times the parallelism, never the tree. A node that is reached twice while it is at work is visited once.
 */
import type { Hash } from '@holdfast/protocol';
import { Kept } from '../jobs/kept.ts';

export interface Walkable {
  readonly hash: Hash;
}

/** The result of a visit: nothing more to do, or children that come first; `again` then visits the node once more. */
export type VisitResult<Node> =
  | { readonly kind: 'done' }
  | { readonly kind: 'children'; readonly children: readonly Node[]; readonly again: boolean };

export interface NodeWalkOptions<Node> {
  /** `round` is 1 at first and grows with each visit of the same node. */
  visit(node: Node, round: number): Promise<VisitResult<Node>>;
  /** How much the visits that run may weigh together; asked often. One more is let in while it is not reached. */
  limit(): number;
  /** The weight of a visit of the node; 1 when left out. A node with many children weighs more, because they are held in memory. */
  weigh?(node: Node): number;
  /** A node was reached whose twin is at work or was done a short while ago. */
  onTwin(node: Node): void;
  /** The walk has failed and only waits for the visits that are running: they may be given up. */
  onFailure(error: unknown): void;
}

interface Task<Node> {
  readonly node: Node;
  readonly parents: Task<Node>[];
  /** what its visit weighs while it runs */
  weight: number;
  round: number;
  pendingChildren: number;
  again: boolean;
}

export class NodeWalk<Node extends Walkable> {
  readonly #options: NodeWalkOptions<Node>;
  readonly #stack: Task<Node>[] = [];
  readonly #active = new Map<Hash, Task<Node>>();
  readonly #finished = new Kept<true>(16_384);
  #running = 0;
  #weight = 0;
  #failure: { readonly error: unknown } | undefined;
  #onSettled: (() => void) | undefined;

  constructor(options: NodeWalkOptions<Node>) {
    this.#options = options;
  }

  /** Nodes that were visited and wait for their children. */
  *waiting(): Generator<Node, void, undefined> {
    for (const { node, pendingChildren } of this.#active.values()) if (pendingChildren > 0) yield node;
  }

  /** Resolves when everything below `root` is done. Rejects with the first failure, once the running visits have ended. */
  async run(root: Node): Promise<void> {
    this.#push(root, undefined);
    await new Promise<void>((resolve) => {
      this.#onSettled = resolve;
      this.#pump();
    });
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** As if a visit had failed. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#options.onFailure(error);
  }

  /** Starts what the limit now allows. */
  #pump(): void {
    while (this.#failure === undefined && this.#weight < this.#options.limit()) {
      const task = this.#stack.pop();
      if (task === undefined) break;
      this.#running += 1;
      task.weight = this.#options.weigh?.(task.node) ?? 1;
      this.#weight += task.weight;
      void this.#visit(task);
    }
    if (this.#running === 0 && (this.#failure !== undefined || this.#stack.length === 0)) this.#onSettled?.();
  }

  async #visit(task: Task<Node>): Promise<void> {
    try {
      task.round += 1;
      const result = await this.#options.visit(task.node, task.round);
      if (this.#failure === undefined) this.#take(task, result);
    } catch (error) {
      this.fail(error);
    }
    this.#running -= 1;
    this.#weight -= task.weight;
    this.#pump();
  }

  #take(task: Task<Node>, result: VisitResult<Node>): void {
    if (result.kind === 'done') {
      this.#finish(task);
      return;
    }
    task.again = result.again;
    // A parent that names a child again is right, and our memory of the child is out of date.
    if (task.round > 1) for (const { hash } of result.children) this.#finished.forget(hash);
    // This one more keeps the parent open until all children are added, even if some are done at once.
    task.pendingChildren += 1;
    for (const child of result.children.toReversed()) this.#push(child, task);
    this.#childDone(task);
  }

  #push(node: Node, parent: Task<Node> | undefined): void {
    const active = this.#active.get(node.hash);
    if (active !== undefined || this.#finished.has(node.hash)) {
      this.#options.onTwin(node);
      if (active === undefined || parent === undefined) return;
      active.parents.push(parent);
      parent.pendingChildren += 1;
      return;
    }
    const parents = parent === undefined ? [] : [parent];
    const task: Task<Node> = { node, parents, weight: 0, round: 0, pendingChildren: 0, again: false };
    if (parent !== undefined) parent.pendingChildren += 1;
    this.#active.set(node.hash, task);
    this.#stack.push(task);
  }

  #finish(task: Task<Node>): void {
    const { hash } = task.node;
    this.#active.delete(hash);
    // Finished nodes are remembered, so that equal nodes cost nothing.
    this.#finished.keep(hash, true);
    for (const parent of task.parents) this.#childDone(parent);
  }

  #childDone(parent: Task<Node>): void {
    parent.pendingChildren -= 1;
    if (parent.pendingChildren > 0) return;
    if (parent.again) this.#stack.push(parent);
    else this.#finish(parent);
  }
}
