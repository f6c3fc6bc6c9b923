/** The operation that reports the server's status in one document for people, the console and alerts. */
import { resolve } from 'node:path';
import { countOf, type JsonSchema } from '@holdfast/protocol';
import { pagesOf } from '../core/batches.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { ROTTEN_COUNT_MAX } from '../core/upkeep-ports.ts';
import type { DeploymentPlace } from '../deployment/place.ts';
import serverPackage from '../package.json' with { type: 'json' };
import { choice, integer, optional } from './fields.ts';
import type { LiveServer } from './live-server.ts';
import { type OperationCall, operation } from './operation.ts';
import { ENGINES_CHECK, isReady, lookAll } from './readiness.ts';
import { COUNT, listOf, orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

type Severity = 'error' | 'warning';

interface Message {
  readonly severity: Severity;
  /** a stable identifier of the cause, for programs */
  readonly name: string;
  readonly message: string;
}

const SEVERITY: JsonSchema = { enum: ['error', 'warning'] };

export const getStatus = operation({
  method: 'GET',
  path: 'status',
  right: 'read',
  summary: 'Say how the server is: what runs, what it holds, and what needs an operator',
  input: {},
  output: record({
    version: TEXT,
    now: TIMESTAMP,
    server: orNull(
      record({
        startedAt: TIMESTAMP,
        isReady: { type: 'boolean' },
        isDraining: { type: 'boolean' },
        workers: COUNT,
        gcEveryMs: orNull(COUNT),
        audit: { type: 'boolean' },
      }),
    ),
    engines: record({ rows: { enum: ['sqlite', 'postgres'] }, bytes: { enum: ['disk', 's3'] } }),
    dataDir: orNull(TEXT),
    apps: orNull(record({ active: COUNT, suspended: COUNT })),
    rottenNodes: COUNT,
    messages: listOf(record({ severity: SEVERITY, name: TEXT, message: TEXT }), 'Empty: all is well.'),
  }),
  run: async (call) => {
    const { place, core, live } = call;
    const apps = await askEngines(call);
    const rottenNodes = core.rottenNodes.total();
    return {
      version: serverPackage.version,
      now: Date.now(),
      server: live === undefined ? null : describeServer(live),
      engines: enginesOf(place),
      dataDir: place.rows.kind === 'folder' ? resolve(place.rows.dataDir) : null,
      apps,
      rottenNodes,
      messages: [...checkMessages(call), ...rotMessages(rottenNodes)],
    };
  },
});

/** Facts that only the engines know. null if one is unavailable: the document is most needed then, so it is sent without them. */
async function askEngines({ core, registry, live }: OperationCall) {
  const isAway = live?.checks.some(({ name, look }) => name === ENGINES_CHECK && look().status === 'fail');
  if (isAway) return null;
  try {
    const apps = await registry.listApps();
    await core.rottenNodes.look(core.metadata);
    const active = apps.filter(({ status }) => status === 'active').length;
    return { active, suspended: apps.length - active };
  } catch (error) {
    // The next poll of the engines reports it too.
    if (live !== undefined && error instanceof StoreUnavailable) return null;
    throw error;
  }
}

function describeServer({ startedAt, isDraining, checks, workers, gcEveryMs, audit }: LiveServer) {
  return {
    startedAt,
    isReady: isReady(lookAll(checks, new Set())),
    isDraining: isDraining(),
    workers,
    gcEveryMs: gcEveryMs ?? null,
    audit: audit !== undefined,
  };
}

function enginesOf({ rows, bytes }: DeploymentPlace) {
  return {
    rows: rows.kind === 'folder' ? ('sqlite' as const) : ('postgres' as const),
    bytes: bytes.kind === 'folder' ? ('disk' as const) : ('s3' as const),
  };
}

function checkMessages({ live }: OperationCall): readonly Message[] {
  return lookAll(live?.checks ?? [], new Set()).flatMap(({ name, result }): readonly Message[] => {
    if (result.status === 'ok') return [];
    return [{ severity: result.status === 'fail' ? 'error' : 'warning', name, message: result.message }];
  });
}

function rotMessages(rottenNodes: number): readonly Message[] {
  if (rottenNodes === 0) return [];
  // A count that reached its bound in some Space may be too low.
  const more = rottenNodes < ROTTEN_COUNT_MAX ? '' : 'or more ';
  const message = `${countOf(rottenNodes, `${more}damaged node`)} cannot be read: GET rotten names them; push them again and check the store`;
  return [{ severity: 'error', name: 'rotten-nodes', message }];
}

const APP_LOAD = record({ app: TEXT, requests: COUNT, errors: COUNT });

export const getHistory = operation({
  method: 'GET',
  path: 'history',
  right: 'read',
  summary:
    'Give what the server had to do since it started: a point a minute for a day, or an hour for 90 days',
  input: {
    resolution: optional(
      choice('The time from one point to the next; left out: minute.', ['minute', 'hour']),
    ),
  },
  output: record({
    startedAt: orNull(TIMESTAMP),
    points: listOf(
      record({
        ...{ at: TIMESTAMP, requests: COUNT, errors: COUNT, receivedBytes: COUNT, sentBytes: COUNT },
        apps: listOf(APP_LOAD, 'The Apps with the most requests.'),
      }),
      'The oldest first.',
    ),
  }),
  run: async ({ live }, { resolution = 'minute' }) => {
    return { startedAt: live?.startedAt ?? null, points: live?.history.points(resolution) ?? [] };
  },
});

const LINES_DEFAULT = 100;

export const listAudit = operation({
  method: 'GET',
  path: 'audit',
  right: 'read',
  summary:
    'List the newest lines of the audit log that the processes of this server have written, the newest first',
  input: {
    limit: optional(integer(`At most so many; left out: ${LINES_DEFAULT}.`, { min: 1, max: 1000 })),
  },
  output: {
    type: 'object',
    required: ['enabled', 'lines'],
    properties: {
      enabled: { type: 'boolean', description: 'Whether the server keeps an audit log.' },
      lines: listOf({ type: 'object' }, 'As they are in the log.'),
    },
    additionalProperties: false,
  },
  run: async ({ live }, { limit = LINES_DEFAULT }) => {
    return { enabled: live?.audit !== undefined, lines: (await live?.readAudit(limit)) ?? [] };
  },
});

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
