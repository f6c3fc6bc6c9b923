/**
 * What a server loses while a full backup of its folder is made: new durable nodes per second, with one running and without. And how
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
  usual: { seconds: 6 },
  run: (bench) => runUnpinned(bench, runBackupRow),
};

const ROWS_FILLED = 100_000;
const OBJECTS_FILLED = 2_000;
const OBJECT_CONTENT_BYTES = 64 * 1024;
const CONNECTIONS = 16;
const AGAIN_ROUNDS_MAX = 3;
const AGAIN_SHARE_MAX = 0.05;
const MIB = 1024 * 1024;

async function runBackupRow(bench: Bench): Promise<readonly RowResult[]> {
  const rows = bench.quick ? 500 : ROWS_FILLED;
  const objects = bench.quick ? 20 : OBJECTS_FILLED;
  const server = await startHoldfast(bench, {
    name: 'backup',
    spaces: ['stores', 'kept'],
    fill: async (dataFolder) => {
      bench.progress(`filling ${rows} nodes …`);
      await fillSpaces(dataFolder, ['kept'], rows);
    },
  });
  try {
    await putNodes(server, createNodeSource(OBJECT_CONTENT_BYTES, 'objects'), objects);
    const copied: number[] = [];
    const samples = await interleave(
      bench,
      async (round) => {
        const backups = keepBackingUp(bench, server);
        const sample = await store(bench, server, `beside-${round}`);
        copied.push(...(await backups.stop()));
        return sample;
      },
      (round) => store(bench, server, `alone-${round}`),
    );
    return [
      await backUpAgain(bench, server, rows),
      {
        row: 'backup',
        workload: `new nodes of ${SMALL_CONTENT_BYTES} B, durable, ${CONNECTIONS} connections, beside full backups of ${rows} small nodes and ${objects} objects`,
        target: atLeast(0.9, 'the same server without a backup'),
        ours: { label: 'beside a backup', unit: 'nodes/s', values: samples.a.map(rate) },
        peer: { label: 'alone', unit: 'nodes/s', values: samples.b.map(rate) },
        notes: [
          describeLoad('beside', samples.a),
          describeLoad('alone', samples.b),
          `full backups that ended meanwhile took ${copied.map((ms) => `${ms} ms`).join(', ') || 'longer than a round'}`,
        ],
      },
    ];
  } finally {
    await server.close();
  }
}

/** The server rests meanwhile, as at night. */
async function backUpAgain(bench: Bench, server: Holdfast, rows: number): Promise<RowResult> {
  const folder = join(bench.folder, 'backup-again');
  const copied: string[] = [];
  const next = createNodeSource(SMALL_CONTENT_BYTES, 'again');
  const backUp = async (): Promise<number> => {
    const { ms, copiedBytes } = await runBackup(folder, server.dataFolder);
    copied.push(`${(copiedBytes / MIB).toFixed(1)} MiB in ${ms} ms`);
    return ms;
  };
  const samples = await interleave(
    { ...bench, rounds: Math.min(bench.rounds, AGAIN_ROUNDS_MAX) },
    async () => {
      rmSync(folder, { recursive: true, force: true });
      const firstMs = await backUp();
      await putNodes(server, next, Math.ceil(rows / 100));
      return firstMs;
    },
    backUp,
  );
  rmSync(folder, { recursive: true, force: true });
  return {
    row: 'backup-again',
    workload: `a backup after one node in a hundred of ${rows} is new, of ${SMALL_CONTENT_BYTES} B, beside the first into that folder`,
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

/** One full backup after another, each into a new folder. `stop` ends the last one and tells how long the others took. */
function keepBackingUp(bench: Bench, { dataFolder }: Holdfast): { stop(): Promise<readonly number[]> } {
  const folder = join(bench.folder, 'backup-of-the-bench');
  const took: number[] = [];
  let isStopped = false;
  let child: Bun.Subprocess | undefined;
  const run = async (): Promise<void> => {
    while (!isStopped) {
      rmSync(folder, { recursive: true, force: true });
      const startedAt = performance.now();
      const command = cliCommand(['backup', folder, '--data', dataFolder, '--quiet']);
      child = Bun.spawn(command, { stdin: 'ignore', stdout: 'ignore', stderr: 'inherit' });
      const code = await child.exited;
      if (code === 0) took.push(Math.round(performance.now() - startedAt));
      else if (!isStopped) throw new Error(`holdfast backup ended with ${code}.`);
    }
  };
  const running = run();
  return {
    stop: async () => {
      isStopped = true;
      child?.kill('SIGTERM');
      await running;
      rmSync(folder, { recursive: true, force: true });
      return took;
    },
  };
}
