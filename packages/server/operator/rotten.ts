/** The operation that names damaged nodes. */
import type { RottenSpace } from '../core/upkeep-ports.ts';
import { operation } from './operation.ts';
import { COUNT, listOf, record, TEXT } from './schemas.ts';

const NODES_MAX = 1_000;
const PAGE_SPACES = 100;

interface RottenNode {
  readonly app: string;
  readonly space: string;
  readonly hash: string;
}

export const listRotten = operation({
  method: 'GET',
  path: 'rotten',
  summary: `List nodes whose stored content is proven damaged or lost, at most ${NODES_MAX} of them`,
  input: {},
  output: record({
    total: { ...COUNT, description: 'Of each Space at most 1000 are counted.' },
    nodes: listOf(record({ app: TEXT, space: TEXT, hash: TEXT }), 'Push or upload them again.'),
  }),
  run: async ({ core: { metadata } }) => {
    const nodes: RottenNode[] = [];
    let total = 0;
    for (let after: RottenSpace['position'] | undefined; ; ) {
      const page = await metadata.findRottenSpaces(after, PAGE_SPACES);
      for (const { space, nodes: count } of page) {
        total += count;
        if (nodes.length >= NODES_MAX) continue;
        const { appId: app, spaceId } = space;
        const hashes = await metadata.listRottenNodes(space, NODES_MAX - nodes.length);
        nodes.push(...hashes.map((hash) => ({ app, space: spaceId, hash })));
      }
      if (page.length < PAGE_SPACES) return { total, nodes };
      after = page.at(-1)?.position;
    }
  },
});
