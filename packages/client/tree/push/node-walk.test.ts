/** The walk: every node once, children before a parent's second visit, memory bounded by the newest-first order. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { NodeWalk, type VisitResult } from './node-walk.ts';

interface Node {
  readonly hash: string;
}

/** A graph by name: the children of each. Twins share their name. */
type Graph = ReadonlyMap<string, readonly string[]>;

const childrenOf = (graph: Graph, hash: string): Node[] =>
  (graph.get(hash) ?? []).map((name) => ({ hash: name }));

describe('NodeWalk', () => {
  const graphs = fc
    .array(fc.array(fc.nat(30), { maxLength: 6 }), { minLength: 1, maxLength: 30 })
    // Children have higher numbers, so there are no cycles: a hash cannot name itself.
    .map((lists) => new Map(lists.map((list, at) => [`n${at}`, list.map((step) => `n${at + 1 + step}`)])));

  test('visits each node once and parents again when everything below them is done', async () => {
    await fc.assert(
      fc.asyncProperty(graphs, fc.integer({ min: 1, max: 8 }), async (graph, parallel) => {
        const done = new Set<string>();
        const rounds = new Map<string, number>();
        let running = 0;
        const visit = async ({ hash }: Node, round: number): Promise<VisitResult<Node>> => {
          running += 1;
          expect(running).toBeLessThanOrEqual(parallel);
          await Promise.resolve();
          running -= 1;
          rounds.set(hash, (rounds.get(hash) ?? 0) + 1);
          expect(rounds.get(hash)).toBe(round);
          const children = childrenOf(graph, hash);
          if (round === 1 && children.length > 0) return { kind: 'children', children, again: true };
          for (const child of children) expect(done.has(child.hash)).toBe(true);
          done.add(hash);
          return { kind: 'done' };
        };
        const nothing = (): void => undefined;
        await new NodeWalk<Node>({ visit, limit: () => parallel, onTwin: nothing, onFailure: nothing }).run({
          hash: 'n0',
        });
        expect(done.has('n0')).toBe(true);
        for (const times of rounds.values()) expect(times).toBeLessThanOrEqual(2);
      }),
    );
  });

  test('keeps no more than the width times the depth of the tree', async () => {
    const width = 100;
    let mostWaiting = 0;
    let visited = 0;
    const visit = async ({ hash }: Node): Promise<VisitResult<Node>> => {
      visited += 1;
      mostWaiting = Math.max(mostWaiting, [...walk.waiting()].length);
      const depth = hash.split('/').length;
      if (depth === 4) return { kind: 'done' };
      const children = Array.from({ length: depth === 3 ? 3 : width }, (_, at) => ({
        hash: `${hash}/${at}`,
      }));
      return { kind: 'children', children, again: false };
    };
    const nothing = (): void => undefined;
    const walk = new NodeWalk<Node>({ visit, limit: () => 4, onTwin: nothing, onFailure: nothing });
    await walk.run({ hash: 'root' });
    expect(visited).toBe(1 + width + width * width + 3 * width * width);
    expect(mostWaiting).toBeLessThan(20);
  });

  test('ends with the first failure, tells it at once and starts nothing more', async () => {
    const failures: unknown[] = [];
    let visits = 0;
    const visit = async ({ hash }: Node): Promise<VisitResult<Node>> => {
      visits += 1;
      if (hash === 'root') {
        return {
          kind: 'children',
          children: Array.from({ length: 50 }, (_, at) => ({ hash: `${at}` })),
          again: true,
        };
      }
      await Promise.resolve();
      throw new Error(hash);
    };
    const onFailure = (error: unknown): void => void failures.push(error);
    const walk = new NodeWalk<Node>({ visit, limit: () => 5, onTwin: () => undefined, onFailure });
    const error = await walk.run({ hash: 'root' }).catch((reason: unknown) => reason);
    expect(failures).toEqual([error]);
    expect(visits).toBeLessThanOrEqual(6);
  });
});
