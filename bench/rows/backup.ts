/** What a server loses while a full backup of its folder is made: new durable nodes per second, with one running and without. */
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
