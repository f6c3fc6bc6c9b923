/** The operation that reports the server's status in one document for people, the console and alerts. */

import { resolve } from 'node:path';
import type { JsonSchema } from '@holdfast/protocol';
import { countOf } from '@holdfast/protocol';
import { StoreUnavailable } from '../core/store-failure.ts';
import { ROTTEN_COUNT_MAX } from '../core/upkeep-ports.ts';
import type { DeploymentPlace } from '../deployment/place.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { LiveServer } from './live-server.ts';
import { type OperationCall, operation } from './operation.ts';
import { ENGINES_CHECK, isReady, lookAll } from './readiness.ts';
import { COUNT, listOf, orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

type Severity = 'error' | 'warning';

/** A condition that an operator should look at. */
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
