/**
 * The loss of a server while a full backup of its folder is made: new durable nodes per second, with one running and without. And how
 * long the next backup takes once one node in a hundred is new.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { atLeast, type Bench, interleave, type Row, type RowResult, runUnpinned } from '../bench.ts';
import { fillSpaces } from '../fill.ts';
import { cliCommand, type Holdfast, putNodes, startHoldfast } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import { type LoadSample, runLoad } from '../load/run-load.ts';
import { SMALL_CONTENT_BYTES } from './node-sets.ts';
import { describeLoad, rate } from './notes.ts';

export const BACKUP_ROW: Row = {
  name: 'backup',
  packages: [],
  usual: { rounds: 20, seconds: 2 },
  run: (bench) => runUnpinned(bench, runBackupRow),
};

const ROWS_FILLED = 100_000;
const OBJECTS_FILLED = 2_000;
const OBJECT_CONTENT_BYTES = 64 * 1024;
const CONNECTIONS = 16;
const AGAIN_SHARE_MAX = 0.05;
const MIB = 1024 * 1024;

/** The server rests meanwhile, as at night. */
export const BACKUP_AGAIN_ROW: Row = {
  name: 'backup-again',
  packages: [],
  usual: { rounds: 3 },
  run: (bench) => runUnpinned(bench, runAgainRow),
};

async function startFilled(bench: Bench, name: string): Promise<Holdfast> {
  const server = await startHoldfast(bench, {
    name,
    spaces: ['stores', 'kept'],
    fill: async (dataFolder) => {
      bench.progress(`filling ${rowsOf(bench)} nodes …`);
      await fillSpaces(dataFolder, ['kept'], rowsOf(bench));
    },
  });
  await putNodes(server, createNodeSource(OBJECT_CONTENT_BYTES, 'objects'), objectsOf(bench));
  return server;
}

const rowsOf = ({ quick }: Bench): number => (quick ? 500 : ROWS_FILLED);
const objectsOf = ({ quick }: Bench): number => (quick ? 20 : OBJECTS_FILLED);

async function runBackupRow(bench: Bench): Promise<readonly RowResult[]> {
  const server = await startFilled(bench, 'backup');
  try {
    const backups = new FullBackups(bench, server);
    const samples = await interleave(
      bench,
      async (round) => {
        await backups.goOn();
        const sample = await store(bench, server, `beside-${round}`);
        backups.holdStill();
        return sample;
      },
      (round) => store(bench, server, `alone-${round}`),
    ).finally(() => backups.end());
    return [
      {
        row: 'backup',
        workload: `new nodes of ${SMALL_CONTENT_BYTES} B, durable, ${CONNECTIONS} connections, beside full backups of ${rowsOf(bench)} small nodes and ${objectsOf(bench)} objects`,
        target: atLeast(0.9, 'the same server without a backup'),
        ours: { label: 'beside a backup', unit: 'nodes/s', values: samples.a.map(rate) },
        peer: { label: 'alone', unit: 'nodes/s', values: samples.b.map(rate) },
        notes: [
          describeLoad('beside', samples.a),
          describeLoad('alone', samples.b),
          `a full backup goes on beside, and is held still (SIGSTOP) in turn; ${backups.count} ended meanwhile`,
        ],
      },
    ];
  } finally {
    await server.close();
  }
}

async function runAgainRow(bench: Bench): Promise<readonly RowResult[]> {
  const server = await startFilled(bench, 'backup-again');
  try {
    return [await backUpAgain(bench, server)];
  } finally {
    await server.close();
  }
}

async function backUpAgain(bench: Bench, server: Holdfast): Promise<RowResult> {
  const folder = join(bench.folder, 'backup-again');
  const copied: string[] = [];
  const next = createNodeSource(SMALL_CONTENT_BYTES, 'again');
  const backUp = async (): Promise<number> => {
    const { ms, copiedBytes } = await runBackup(folder, server.dataFolder);
    copied.push(`${(copiedBytes / MIB).toFixed(1)} MiB in ${ms} ms`);
    return ms;
  };
  const samples = await interleave(
    bench,
    async () => {
      rmSync(folder, { recursive: true, force: true });
      const firstMs = await backUp();
      await putNodes(server, next, Math.ceil(rowsOf(bench) / 100));
      return firstMs;
    },
    backUp,
  );
  rmSync(folder, { recursive: true, force: true });
  return {
    row: 'backup-again',
    workload: `a backup after one node in a hundred of ${rowsOf(bench)} is new, of ${SMALL_CONTENT_BYTES} B, beside the first into that folder`,
    target: {
      ...{ figure: 'ratio', sense: 'at most', bound: AGAIN_SHARE_MAX },
      text: `≤ ${AGAIN_SHARE_MAX} × the first backup`,
    },
    ours: { label: 'again', unit: 'ms', values: samples.b },
    peer: { label: 'first', unit: 'ms', values: samples.a },
    notes: [`first and again, in turn: ${copied.join('; ')}`],
  };
}

async function runBackup(folder: string, data: string): Promise<{ ms: number; copiedBytes: number }> {
  const command = cliCommand(['backup', folder, '--data', data, '--quiet', '--json']);
  const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' });
  const [code, answer] = await Promise.all([child.exited, new Response(child.stdout).text()]);
  if (code !== 0) throw new Error(`holdfast backup ended with ${code}.`);
  return JSON.parse(answer);
}

function store(bench: Bench, server: Holdfast, seed: string): Promise<LoadSample> {
  const flow = {
    kind: 'put-nodes',
    spaces: server.spaces.slice(0, 1),
    contentBytes: SMALL_CONTENT_BYTES,
  } as const;
  const spec = { port: server.port, connections: CONNECTIONS, seconds: bench.seconds, seed, flow };
  return runLoad(bench, server.process, spec);
}

/** One full backup after another, each into a new folder, that can be held still. */
class FullBackups {
  readonly #folder: string;
  readonly #dataFolder: string;
  #child: Bun.Subprocess<'ignore', 'ignore', 'pipe'> | undefined;
  /** of the backups that ended */
  count = 0;

  constructor(bench: Bench, { dataFolder }: Holdfast) {
    this.#folder = join(bench.folder, 'backup-of-the-bench');
    this.#dataFolder = dataFolder;
  }

  /** Resolves when one has begun to copy. */
  async goOn(): Promise<void> {
    if (this.#child !== undefined && this.#child.exitCode === null) {
      this.#child.kill('SIGCONT');
      return;
    }
    if (this.#child?.exitCode === 0) this.count += 1;
    else if (this.#child !== undefined)
      throw new Error(`holdfast backup ended with ${this.#child.exitCode}.`);
    rmSync(this.#folder, { recursive: true, force: true });
    const command = cliCommand(['backup', this.#folder, '--data', this.#dataFolder]);
    const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' });
    this.#child = child;
    // Its first line says that it has begun; later ones wait in the pipe.
    await child.stderr.getReader().read();
  }

  holdStill(): void {
    this.#child?.kill('SIGSTOP');
  }

  async end(): Promise<void> {
    this.#child?.kill('SIGCONT');
    this.#child?.kill('SIGTERM');
    await this.#child?.exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
