/** The operation that says what a collection would delete. */
import { GC_NODES_MAX } from '@holdfast/protocol';
import { planGc } from '../core/plan-gc.ts';
import { APP, integer, optional, SPACE } from './fields.ts';
import { operation } from './operation.ts';
import { COUNT, listOf, record, TEXT } from './schemas.ts';

export const planCollection = operation({
  method: 'GET',
  path: 'gc-plan',
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
  }),
  run: ({ core }, { app, space, maxNodes = GC_NODES_MAX }) =>
    planGc(core, { appId: app, spaceId: space }, maxNodes),
});
