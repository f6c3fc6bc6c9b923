/** The operations on Spaces. */
import { GC_NODES_MAX } from '@holdfast/protocol';
import type { AppRecord, Quotas } from '../auth/registry-store.ts';
import { usageOf } from '../core/get-usage.ts';
import { describeQuotas } from '../deployment/describe-app.ts';
import { collectSpace } from './collect-space.ts';
import { APP, integer, optional, SPACE, text } from './fields.ts';
import { operation } from './operation.ts';
import { GC_RESULT, listOf, orNull, QUOTAS, record, TEXT, USAGE } from './schemas.ts';

/** A page of Spaces: few enough that the answer is small. */
const SPACES_PAGE_MAX = 1_000;
const SPACES_PAGE_DEFAULT = 100;
const POSITION_LENGTH_MAX = 1024;

export const listSpaces = operation({
  method: 'GET',
  path: 'spaces',
  summary: 'List Spaces with what is stored in them, also those of removed Apps',
  input: {
    app: optional(APP),
    after: optional(text('The `next` of the page before.', POSITION_LENGTH_MAX)),
    limit: optional(integer('Spaces of the page.', { min: 1, max: SPACES_PAGE_MAX })),
  },
  output: record({
    spaces: listOf(record({ app: TEXT, space: TEXT, usage: USAGE, quotas: QUOTAS })),
    next: orNull(TEXT),
  }),
  run: async ({ core, registry }, { app, after, limit = SPACES_PAGE_DEFAULT }) => {
    const quotas = indexQuotas(await registry.listApps());
    const entries = await core.metadata.listSpaces({ appId: app, after, limit });
    const spaces = entries.map(({ space, counters }) => ({
      ...{ app: space.appId, space: space.spaceId },
      usage: usageOf(core, space, counters),
      quotas: describeQuotas(quotas.get(space.appId)?.get(space.spaceId)),
    }));
    return { spaces, next: entries.length < limit ? null : (entries.at(-1)?.position ?? null) };
  },
});

/** By App, then by Space: only Spaces that have a quota of their own. */
function indexQuotas(apps: readonly AppRecord[]): ReadonlyMap<string, ReadonlyMap<string, Quotas>> {
  return new Map(
    apps.map(({ appId, spaceQuotas }) => [appId, new Map(spaceQuotas.map((each) => [each.spaceId, each]))]),
  );
}

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
