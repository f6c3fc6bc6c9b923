/** Memory of the server: idle after start, and while 64 uploads of 32 MiB run at once. */
import type { Bench, Row, RowResult } from '../bench.ts';
import { type MemorySample, sampleMemory } from '../child-process.ts';
import { startHoldfast } from '../holdfast.ts';
import { runLoad } from '../load/run-load.ts';

export const MEMORY_ROW: Row = { name: 'memory', packages: [], run: runMemoryRow };

const NODE_BYTES = 32 * 1024 * 1024;
const SAMPLE_EVERY_MS = 20;
const IDLE_WAIT_MS = 3000;

async function runMemoryRow(bench: Bench): Promise<readonly RowResult[]> {
  const idle: number[] = [];
  const busy: number[] = [];
  const together: number[] = [];
  const uploads = bench.quick ? 4 : 64;
  for (let round = 0; round < Math.min(bench.rounds, 5); round++) {
    const ours = await startHoldfast(bench, { name: `memory-${round}` });
    try {
      await Bun.sleep(bench.quick ? 200 : IDLE_WAIT_MS);
      const before = sampleMemory(ours.process.pid);
      idle.push(before.rssMiB);
      const peak = watchPeak(ours.process.pid);
      const sample = await runLoad(bench, ours.process, {
        port: ours.port,
        connections: uploads,
        seconds: 0,
        seed: `memory-${round}`,
        flow: {
          kind: 'put-large',
          space: ours,
          canonicalBytes: bench.quick ? NODE_BYTES / 16 : NODE_BYTES,
        },
      });
      const most = peak.stop();
      busy.push(most.rssMiB);
      together.push(sample.togetherAtHalf ?? 0);
      bench.record(`idle ${JSON.stringify(before)} peak ${JSON.stringify(most)}\n`);
    } finally {
      await ours.close();
    }
  }
  return [
    {
      row: 'memory-idle',
      workload: `resident memory ${IDLE_WAIT_MS / 1000} s after start, all processes`,
      target: { figure: 'value', sense: 'at most', bound: 120, text: '≤ 120 MiB' },
      ours: { label: 'holdfast', unit: 'MiB', values: idle },
      peer: undefined,
      notes: [],
    },
    {
      row: 'memory-uploads',
      workload: `peak resident memory, ${uploads} uploads of 32 MiB at once`,
      target: { figure: 'value', sense: 'at most', bound: 300, text: '≤ 300 MiB' },
      ours: { label: 'holdfast', unit: 'MiB', values: busy },
      peer: undefined,
      notes: [`uploads half sent at the same instant: ${Math.min(...together)} of ${uploads}`],
    },
  ];
}

/** Samples RSS and PSS of the process tree until stopped; the page cache is not part of either. */
function watchPeak(pid: number): { stop: () => MemorySample } {
  let peak: MemorySample = { pssMiB: 0, rssMiB: 0 };
  const timer = setInterval(() => {
    const sample = sampleMemory(pid);
    peak = { pssMiB: Math.max(peak.pssMiB, sample.pssMiB), rssMiB: Math.max(peak.rssMiB, sample.rssMiB) };
  }, SAMPLE_EVERY_MS);
  return {
    stop: () => {
      clearInterval(timer);
      return peak;
    },
  };
}
