/** A store, or several on one database as several processes have them, on a real PostgreSQL. */

import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'bun:test';
import type { LeaseResponse } from '@holdfast/protocol';
import type { CanonicalNode } from '../../../../../test/support/canonical-node.ts';
import {
  openPostgres as openServer,
  type TestDatabases,
} from '../../../../../test/support/postgres-server.ts';
import { recountScaleout } from '../../../../../test/support/scaleout-recount.ts';
import type { Core, CoreSettings } from '../../../core/core.ts';
import { leaseNode } from '../../../core/lease/lease-node.ts';
import { PackJudgements } from '../../../core/packs/judge-pack.ts';
import type { Clock } from '../../../core/ports.ts';
import { NO_QUOTAS } from '../../../core/quotas.ts';
import { RottenNodes } from '../../../core/rotten-nodes.ts';
import { sha256 } from '../../../core/signer.ts';
import { StrayWatch } from '../../../core/stray-watch.ts';
import { DirectStore } from '../../../core/test/direct-store.ts';
import { JudgingTurns } from '../../../shares/fair-queue.ts';
import type { PostgresAddress } from '../../address.ts';
import { unzstd } from '../../packed-object.ts';
import { parsePostgresUrl } from '../../postgres-url.ts';
import { SPACE } from '../../test/samples.ts';
import { PostgresMetadataStore } from '../metadata-store.ts';
import { openPostgres } from '../open-postgres.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import type { PostgresLimits } from '../wire/limits.ts';

export interface StoreInstance {
  readonly store: PostgresMetadataStore;
  readonly pool: PostgresPool;
  /** what the store has called fatal */
  readonly fatal: Error[];
  close(): Promise<void>;
}

interface InstanceOptions {
  readonly clock?: Clock;
  readonly limits?: Partial<PostgresLimits>;
  readonly connectionsMax?: number;
}

/** PostgreSQL itself, for all tests of a file. */
export function openDatabases(): Promise<TestDatabases> {
  return openServer();
}

export function addressOf(url: string, changes: Partial<PostgresAddress> = {}): PostgresAddress {
  return { ...parsePostgresUrl(url, {}), ...changes };
}

/** The pool and the store of one process. */
export async function openInstance(url: string, options: InstanceOptions = {}): Promise<StoreInstance> {
  const { clock, limits, connectionsMax = 8 } = options;
  const fatal: Error[] = [];
  const pool = await openPostgres(addressOf(url, { connectionsMax }), limits);
  const store = await PostgresMetadataStore.open({
    pool,
    onFatal: (error) => fatal.push(error),
    ...(clock === undefined ? {} : { clock }),
  });
  return {
    store,
    pool,
    fatal,
    async close() {
      await store.close();
      await pool.close();
    },
  };
}

/** Long enough for every concurrent request to get its turn on a slow machine. */
const PATIENT: Partial<PostgresLimits> = { admissionMs: 60_000 };

/** The pools and stores of several processes on one database, for races between them. */
function openProcesses(url: string, count: number): Promise<StoreInstance[]> {
  return Promise.all(Array.from({ length: count }, () => openInstance(url, { limits: PATIENT })));
}

/** Throws what a store has called fatal. */
async function closeProcesses(instances: readonly StoreInstance[]): Promise<void> {
  await Promise.all(instances.map((instance) => instance.close()));
  const fatal = instances.flatMap((instance) => instance.fatal);
  if (fatal.length > 0) throw new AggregateError(fatal, 'a store called these errors fatal');
}

const START_MS_MAX = 300_000;

interface ProcessesOptions {
  /** Hears of the processes before each test. */
  readonly use: (instances: StoreInstance[], url: string) => void;
  /** Runs after each test, while the processes are still open. */
  readonly check?: (url: string) => Promise<void>;
}

/** For every test of a file: `count` processes on a new database of one PostgreSQL. */
export function useProcesses(count: number, { use, check }: ProcessesOptions): void {
  let databases: TestDatabases;
  let url: string;
  let instances: StoreInstance[];
  beforeAll(async () => {
    databases = await openDatabases();
  }, START_MS_MAX);
  afterAll(() => databases.close());
  beforeEach(async () => {
    url = await databases.createDatabase();
    instances = await openProcesses(url, count);
    use(instances, url);
  });
  afterEach(async () => {
    await check?.(url);
    await closeProcesses(instances);
  });
}

const SETTINGS: CoreSettings = {
  nodeBytesMax: 128 * 1024,
  activeUploadsMax: 4_096,
  uploadTtlMs: 5 * 60_000,
  abandonedAfterMs: 86_400_000,
  rootRefHistoryMs: 86_400_000,
  keepReplacedMs: 0,
};

/** The rules over these rows, clients writing to `content` themselves. */
export function coreOf(
  { store }: StoreInstance,
  content: DirectStore,
  settings: Partial<CoreSettings> = {},
): Core {
  return {
    metadata: store,
    content,
    random: { bytes: (count) => crypto.getRandomValues(new Uint8Array(count)) },
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    quotas: NO_QUOTAS,
    signer: {
      sign: (_purpose, message) => sha256(new TextEncoder().encode(message)),
      verify: () => true,
    },
    settings: { ...SETTINGS, ...settings },
  };
}

export function makeContent(now: () => number = Date.now): DirectStore {
  return new DirectStore(now, SETTINGS.uploadTtlMs);
}

export const leaseFor = (core: Core, { hash }: CanonicalNode, durationMs = 60_000): Promise<LeaseResponse> =>
  leaseNode(core, SPACE, hash, durationMs, () => 'http://unused');

/** Lease and PUT: all but the lease that publishes. */
export async function bring(core: Core, content: DirectStore, node: CanonicalNode): Promise<void> {
  const answer = await leaseFor(core, node);
  if (!('upload' in answer)) throw new Error(`expected an upload instruction, got ${answer.state}`);
  if (content.put(answer.upload.url, node.bytes) !== 200) throw new Error('the store takes no PUT');
}

export async function publish(core: Core, content: DirectStore, node: CanonicalNode): Promise<LeaseResponse> {
  await bring(core, content, node);
  return leaseFor(core, node);
}

/** A `check`: what the rows say they hold is what a recount finds. */
export async function expectRecounted(url: string): Promise<void> {
  const { problems } = await recountScaleout(url);
  expect(problems).toEqual([]);
}
