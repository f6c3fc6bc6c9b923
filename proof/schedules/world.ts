/** What schedules run on: the rules over real rows, with a clock of the proof's own, and either kind of upload. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ComparedClocks, SteadyRows } from '../../packages/server/background/clock-guard.ts';
import type { Core } from '../../packages/server/core/core.ts';
import { PackJudgements } from '../../packages/server/core/packs/judge-pack.ts';
import type { ContentStore, MetadataStore } from '../../packages/server/core/ports.ts';
import { NO_QUOTAS } from '../../packages/server/core/quotas.ts';
import { RottenNodes } from '../../packages/server/core/rotten-nodes.ts';
import { StrayWatch } from '../../packages/server/core/stray-watch.ts';
import { DirectStore } from '../../packages/server/core/test/direct-store.ts';
import type { ClockGuard } from '../../packages/server/core/upkeep-ports.ts';
import { openEmbeddedEngine } from '../../packages/server/deployment/test/embedded-engine-fixture.ts';
import { unzstd } from '../../packages/server/engine/packed-object.ts';
import { PostgresMetadataStore } from '../../packages/server/engine/postgres/metadata-store.ts';
import { SteadyClock } from '../../packages/server/engine/steady-clock.ts';
import { JudgingTurns } from '../../packages/server/shares/fair-queue.ts';
import { objectsFolder } from '../../test/support/embedded-files.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { openPatiently } from '../row-rot/open-patiently.ts';
import { BEGIN_MS, HOUR_MS, MINUTE_MS, signer } from '../row-rot/world.ts';

const DAY_MS = 24 * HOUR_MS;
const UPLOAD_TTL_MS = 5 * MINUTE_MS;
const NODE_BYTES_MAX = 1024 * 1024;
/** of all generations */
const LAST_BYTE = '00';
const SKEW_MS_MAX = 2 * MINUTE_MS;

/** What really elapses, and the wall clock of the machine, which anyone may set. */
class ScheduleClock {
  /** ms; the proof alone moves it */
  now = BEGIN_MS;
  /** how far the wall clock is ahead of it */
  aheadMs = 0;

  get wall(): number {
    return this.now + this.aheadMs;
  }
}

export interface ScheduleWorld {
  /** without a guard of clocks */
  readonly core: Core;
  readonly clock: ScheduleClock;
  /** what a server that starts now compares its clocks by */
  makeGuard(): ClockGuard;
  /** where clients write to the store of bytes themselves */
  readonly direct: DirectStore | undefined;
  /** undefined: the rows are not in a folder */
  readonly dataDir: string | undefined;
  /** undefined: the rows are not in PostgreSQL */
  readonly url: string | undefined;
  readonly fatal: readonly Error[];
  /** It grows slower with each Space that it has had, and what copies it copies them all. */
  readonly schedulesMax: number;
  /** names of all stored objects */
  objects(): readonly string[];
  close(): Promise<void>;
}

let drawn = 0;

function coreOf(metadata: MetadataStore, content: ContentStore, keepReplacedMs: number): Core {
  return {
    ...{ metadata, content, signer, quotas: NO_QUOTAS },
    random: {
      // Never the same twice. All end alike, and the end names the folder of an object: one of 256 has to be listed.
      bytes(count) {
        drawn += 1;
        const made = Buffer.alloc(count);
        made.writeUIntBE(drawn, count - 7, 6);
        return made;
      },
    },
    rottenNodes: new RottenNodes(() => undefined),
    strays: new StrayWatch(),
    packs: new PackJudgements(unzstd, new JudgingTurns()),
    settings: {
      ...{ nodeBytesMax: NODE_BYTES_MAX, activeUploadsMax: 4_096, uploadTtlMs: UPLOAD_TTL_MS },
      ...{ abandonedAfterMs: HOUR_MS, rootRefHistoryMs: DAY_MS, keepReplacedMs },
    },
  };
}

export async function openFolderWorld(isDirect: boolean): Promise<ScheduleWorld> {
  const folder = makeTempFolder('schedules', { fast: true });
  const dataDir = join(folder.path, 'data');
  mkdirSync(dataDir);
  const clock = new ScheduleClock();
  const fatal: Error[] = [];
  const engine = await openEmbeddedEngine({
    ...{ dataDir, workers: 1, onFatal: (error) => fatal.push(error) },
    clock: new SteadyClock(BEGIN_MS, { elapsed: () => clock.now - BEGIN_MS }),
  });
  const direct = isDirect ? new DirectStore(() => clock.wall, UPLOAD_TTL_MS) : undefined;
  const core = coreOf(engine.metadata, direct ?? engine.content, isDirect ? DAY_MS : 0);
  const sources = { rows: core.metadata, bytes: core.content, now: () => clock.wall };
  return {
    ...{ core, clock, direct, dataDir, fatal, url: undefined, schedulesMax: isDirect ? 500 : 120 },
    makeGuard: () => new SteadyRows({ ...sources, skewMsMax: SKEW_MS_MAX, onClockSet: () => undefined }),
    objects: () => direct?.generations ?? readdirSync(join(objectsFolder(dataDir), LAST_BYTE)),
    async close() {
      await engine.close();
      folder.remove();
    },
  };
}

/** `url`: of an empty database. Its machine, the server's and that of the objects are one: their clocks are set together. */
export async function openPostgresWorld(url: string): Promise<ScheduleWorld> {
  const clock = new ScheduleClock();
  const fatal: Error[] = [];
  const pool = await openPatiently(url, 8);
  const metadata = await PostgresMetadataStore.open({
    ...{ pool, onFatal: (error: Error) => fatal.push(error) },
    clock: { now: () => clock.wall },
  });
  const direct = new DirectStore(() => clock.wall, UPLOAD_TTL_MS);
  const core = coreOf(metadata, direct, DAY_MS);
  const sources = { rows: core.metadata, bytes: core.content, now: () => clock.wall };
  return {
    ...{ core, clock, direct, dataDir: undefined, url, fatal, schedulesMax: 200 },
    makeGuard: () => new ComparedClocks({ ...sources, elapsed: () => clock.now, skewMsMax: SKEW_MS_MAX }),
    objects: () => direct.generations,
    async close() {
      await metadata.close();
      await pool.close();
    },
  };
}

export const listObjects = (dataDir: string): string[] =>
  readdirSync(objectsFolder(dataDir), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);
