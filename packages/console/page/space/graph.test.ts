/** The nodes around one, as far as they are drawn. */
import { expect, test } from 'bun:test';
import { collectGraph, GRAPH_CHILDREN_MAX, GRAPH_NODES_MAX } from './graph.ts';

const hash = (name: string): string => Buffer.from(name).toString('hex').padEnd(64, '0');

function reader(refsOf: (name: string) => readonly string[] | undefined) {
  const names = new Map<string, string>();
  const named = (name: string): string => {
    names.set(hash(name), name);
    return hash(name);
  };
  const client = {
    async readMetadata(of: string) {
      const refs = refsOf(names.get(of) ?? '');
      if (refs === undefined) throw new Error('it is not there');
      const state = { leaseStartedAt: 0, leaseExpiresAt: 0, childRefCount: 0, rootRefCount: 0 };
      return { metadata: { hash: of, size: 1, contentType: 'text/plain', refs: refs.map(named) }, state };
    },
  };
  return { client, root: named('root') };
}

const { signal } = new AbortController();

test('each node is drawn once, and a ref that stands twice is one line', async () => {
  const refs: Record<string, readonly string[]> = { root: ['a', 'b', 'a'], a: ['c'], b: ['c'], c: [] };
  const { client, root } = reader((name) => refs[name]);
  const { nodes, edges } = await collectGraph(client, root, [], signal);
  expect([...nodes.keys()]).toEqual(['root', 'a', 'b', 'c'].map(hash));
  expect(edges).toHaveLength(4);
  expect([...nodes.values()].every(({ moreCount }) => moreCount === 0)).toBe(true);
});

test('never more than a person can look at, and what is left out is counted', async () => {
  const wide = (name: string): string[] => Array.from({ length: 200 }, (_, at) => `${name}.${at}`);
  const { client, root } = reader(wide);
  const { nodes } = await collectGraph(client, root, [], signal);
  expect(nodes.size).toBe(GRAPH_NODES_MAX);
  expect(nodes.get(root)?.moreCount).toBe(200 - GRAPH_CHILDREN_MAX);
});

test('a node that cannot be read is drawn by its hash alone', async () => {
  const { client, root } = reader((name) => (name === 'root' ? ['gone'] : undefined));
  const { nodes } = await collectGraph(client, root, [], signal);
  expect(nodes.get(hash('gone'))).toEqual({
    ...{ hash: hash('gone'), contentType: undefined, size: undefined, moreCount: 0 },
  });
});
