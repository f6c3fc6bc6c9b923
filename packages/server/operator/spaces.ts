/** Operations on Spaces. */
import { ApiError, GC_NODES_MAX, type GcResult } from '@holdfast/protocol';
import type { AppRecord, Quotas } from '../auth/registry-store.ts';
import { pagesOf } from '../core/batches.ts';
import { planGc } from '../core/collect/plan-gc.ts';
import { runGc } from '../core/collect/run-gc.ts';
import type { Core } from '../core/core.ts';
import type { Space, SpaceCounters } from '../core/model.ts';
import { pendingBytesOf, usageOf } from '../core/read/get-usage.ts';
import { isDamage } from '../core/store-failure.ts';
import type { SpaceEntry } from '../core/tenancy-ports.ts';
import { NO_HOLDINGS, USAGE_NONE } from '../core/usage-delta.ts';
import { describeQuotas } from '../deployment/describe-app.ts';
import { noteCollection } from '../metrics/server-metrics.ts';
import { APP, integer, optional, SPACE, text } from './fields.ts';
import { operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { COUNT, GC_RESULT, listOf, orNull, QUOTAS, record, TEXT, USAGE } from './schemas.ts';

/** Tells operators what is damaged, because they can repair it. Clients of the Space API learn only that something is. */
export async function namingDamage<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (isDamage(error)) throw new OperatorError('SERVICE_UNAVAILABLE', nameOf(error), { cause: error });
    if (!(error instanceof ApiError && isDamage(error.cause))) throw error;
    throw new OperatorError('SERVICE_UNAVAILABLE', `${error.message} (${nameOf(error.cause)})`, {
      cause: error,
    });
  }
}

const nameOf = (damage: unknown): string => (damage as Error).message;

/** Prefix of positions in the list of Spaces without rows; engines never use it. */
const UNWRITTEN = 'unwritten-';
/** The form of positions in the list: the number of a row or the key of a Space, as the engine gives it. */
const POSITION = new RegExp(`^(?:(?:${UNWRITTEN})?[1-9]\\d{0,15}|[0-9a-f]{32})$`);

const NO_COUNTERS: SpaceCounters = { ...USAGE_NONE, leasedNodeCount: 0 };

export const listSpaces = operation({
  method: 'GET',
  path: 'spaces',
  right: 'spaces',
  summary:
    'List Spaces with what is stored in them, also those of removed Apps, and those that only have a quota',
  input: {
    app: optional(APP),
    after: optional(text('The `next` of the page before.', 1024, POSITION)),
    limit: optional(integer('Spaces of the page.', { min: 1, max: 1_000 })),
  },
  output: record({
    spaces: listOf(
      record({
        ...{ app: TEXT, space: TEXT, usage: orNull(USAGE), quotas: QUOTAS },
        pendingBytes: orNull({ ...COUNT, description: 'Bytes that were received and are not judged yet.' }),
        commitRows: orNull({ ...COUNT, description: 'Commits of root refs that are kept.' }),
        damage: orNull({ ...TEXT, description: 'Why the usage cannot be read.' }),
      }),
    ),
    next: orNull(TEXT),
  }),
  run: async ({ core, registry, place }, { app, after, limit = 100 }) => {
    const isBeyondRows = after?.startsWith(UNWRITTEN) ?? false;
    // A number is shorter than a key, and only PostgreSQL goes by keys.
    const isOfOtherRows = (after?.length === 32) !== (place.rows.kind === 'postgres');
    if (after !== undefined && !isBeyondRows && isOfOtherRows)
      throw new OperatorError('INVALID_INPUT', 'the field after is none that an answer gave');
    const apps = await registry.listApps();
    const quotas = indexQuotas(apps);
    const describe = ({ space, counters, holdings, damage }: Described) => ({
      ...{ app: space.appId, space: space.spaceId },
      usage: counters === undefined ? null : usageOf(core, space, counters),
      pendingBytes: holdings === undefined ? null : pendingBytesOf(core, space, holdings),
      commitRows: holdings?.commitRows ?? null,
      damage: damage === undefined ? null : nameOf(damage),
      quotas: describeQuotas(quotas.get(space.appId)?.get(space.spaceId)),
    });
    const entries = isBeyondRows ? [] : await core.metadata.page('spaces', { appId: app, after, limit });
    const written = entries.filter(({ isPurged }) => !isPurged).map(describe);
    if (entries.length === limit) return { spaces: written, next: entries.at(-1)?.position ?? null };
    // After the rows come Spaces that have only a quota.
    const unwritten = await findUnwritten(
      core,
      apps.filter(({ appId }) => app === undefined || appId === app),
    );
    const start = isBeyondRows ? Number(after?.slice(UNWRITTEN.length)) : 0;
    const end = start + limit - written.length;
    const nothing = { counters: NO_COUNTERS, holdings: NO_HOLDINGS };
    const more = unwritten.slice(start, end).map((space) => describe({ space, ...nothing }));
    return { spaces: [...written, ...more], next: end < unwritten.length ? `${UNWRITTEN}${end}` : null };
  },
});

type Described = Omit<SpaceEntry, 'position' | 'isPurged'>;

/** All Spaces of the App that were ever written. */
export const spacesOf = (core: Core, appId: string): AsyncIterable<readonly SpaceEntry[]> =>
  pagesOf(
    (after, limit) => core.metadata.page('spaces', { appId, after, limit }),
    ({ position }) => position,
  );

/** Spaces with a quota and no content: never written, or purged. */
async function findUnwritten(core: Core, apps: readonly AppRecord[]): Promise<readonly Space[]> {
  const unwritten: Space[] = [];
  for (const { appId, spaceQuotas } of apps) {
    if (spaceQuotas.length === 0) continue;
    const left = new Set(spaceQuotas.map(({ spaceId }) => spaceId));
    for await (const page of spacesOf(core, appId)) {
      for (const { space, isPurged } of page) if (!isPurged) left.delete(space.spaceId);
      if (left.size === 0) break;
    }
    unwritten.push(...[...left].map((spaceId) => ({ appId, spaceId })));
  }
  return unwritten;
}

/** App → Space → its own quota. */
function indexQuotas(apps: readonly AppRecord[]): ReadonlyMap<string, ReadonlyMap<string, Quotas>> {
  return new Map(
    apps.map(({ appId, spaceQuotas }) => [appId, new Map(spaceQuotas.map((each) => [each.spaceId, each]))]),
  );
}

export const collect = operation({
  method: 'POST',
  path: 'spaces/gc',
  right: 'spaces',
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
    namingDamage(collectSpace(core, { appId: app, spaceId: space }, maxNodes, signal)),
});

/** Nodes per pass when everything is to be collected: large enough to be efficient, small enough to notice a disconnect soon. */
const PASS_NODES = 1_000;

/** One pass over at most `maxNodes`; without it, passes until nothing is left to collect. */
async function collectSpace(
  core: Core,
  space: Space,
  maxNodes: number | undefined,
  signal: AbortSignal,
): Promise<GcResult> {
  if (maxNodes !== undefined)
    return noteCollection(await runGc(core, space, Math.min(maxNodes, GC_NODES_MAX)));
  let total: GcResult = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  for (;;) {
    const pass = noteCollection(await runGc(core, space, PASS_NODES));
    total = {
      examined: total.examined + pass.examined,
      deleted: total.deleted + pass.deleted,
      reclaimedContentBytes: total.reclaimedContentBytes + pass.reclaimedContentBytes,
    };
    // A pass that deleted nothing found only nodes that are kept again.
    if (pass.examined < PASS_NODES || pass.deleted === 0 || signal.aborted) return total;
  }
}

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
