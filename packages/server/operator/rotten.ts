/** The operation that lists damaged nodes. */
import { pagesOf } from '../core/batches.ts';
import { operation } from './operation.ts';
import { COUNT, listOf, record, TEXT } from './schemas.ts';

const NODES_MAX = 1_000;

interface RottenNode {
  readonly app: string;
  readonly space: string;
  readonly hash: string;
}

export const listRotten = operation({
  method: 'GET',
  path: 'rotten',
  right: 'spaces',
  summary: `List nodes whose stored content is proven damaged or lost, at most ${NODES_MAX} of them`,
  input: {},
  output: record({
    total: { ...COUNT, description: 'Of each Space at most 1000 are counted.' },
    nodes: listOf(record({ app: TEXT, space: TEXT, hash: TEXT }), 'Push or upload them again.'),
  }),
  run: async ({ core: { metadata } }) => {
    const nodes: RottenNode[] = [];
    let total = 0;
    const pages = pagesOf(
      (after, limit) => metadata.page('rottenSpaces', { after, limit }),
      ({ position }) => position,
      100,
    );
    for await (const page of pages) {
      for (const { space, nodes: count } of page) {
        total += count;
        if (nodes.length >= NODES_MAX) continue;
        const { appId: app, spaceId } = space;
        const hashes = await metadata.page('rottenNodes', { space, limit: NODES_MAX - nodes.length });
        nodes.push(...hashes.map((hash) => ({ app, space: spaceId, hash })));
      }
    }
    return { total, nodes };
  },
});
