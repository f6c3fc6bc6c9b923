/** The operation that lists what a collection would delete. */
import { GC_NODES_MAX } from '@holdfast/protocol';
import { planGc } from '../core/collect/plan-gc.ts';
import { APP, integer, optional, SPACE } from './fields.ts';
import { operation } from './operation.ts';
import { COUNT, listOf, orNull, record, TEXT } from './schemas.ts';
import { nameOf } from './spaces.ts';

export const planCollection = operation({
  method: 'GET',
  path: 'gc-plan',
  right: 'spaces',
  summary: 'Say what a collection pass over a Space would delete right now; deletes nothing',
  input: {
    app: APP,
    space: SPACE,
    maxNodes: optional(
      integer(`The pass looks at no more; left out: ${GC_NODES_MAX}.`, { min: 1, max: GC_NODES_MAX }),
    ),
  },
  output: record({
    examined: COUNT,
    deleted: COUNT,
    reclaimedContentBytes: COUNT,
    nodes: listOf(record({ hash: TEXT, contentBytes: COUNT }), 'In the order in which they would go.'),
    damage: orNull({ ...TEXT, description: 'Why nodes that cannot be read are left out.' }),
  }),
  run: async ({ core }, { app, space, maxNodes = GC_NODES_MAX }) => {
    const { damage, ...plan } = await planGc(core, { appId: app, spaceId: space }, maxNodes);
    return { ...plan, damage: damage === undefined ? null : nameOf(damage) };
  },
});
