/** The operations on Spaces. */
import { GC_NODES_MAX } from '@holdfast/protocol';
import { collectSpace } from './collect-space.ts';
import { APP, integer, optional, SPACE } from './fields.ts';
import { operation } from './operation.ts';
import { GC_RESULT } from './schemas.ts';

export const collect = operation({
  method: 'POST',
  path: 'spaces/gc',
  summary: 'Collect what nothing keeps in a Space: one pass, or passes until nothing is left',
  input: {
    app: APP,
    space: SPACE,
    maxNodes: optional(
      integer('One pass that looks at no more; left out: passes until nothing is left.', {
        min: 1,
        max: GC_NODES_MAX,
      }),
    ),
  },
  output: GC_RESULT,
  run: ({ core, signal }, { app, space, maxNodes }) =>
    collectSpace(core, { appId: app, spaceId: space }, maxNodes, signal),
});
