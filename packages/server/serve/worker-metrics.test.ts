import { afterAll, expect, test } from 'bun:test';
import type { Subprocess } from 'bun';
import { until } from '../../../test/support/until.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { WorkerMetrics } from './supervisor.ts';
import { Questions } from './worker-messages.ts';

/** A process that reports one more request each time, until it is killed. */
const COUNTING = `
  let count = 0;
  process.on('message', ({ id }) => {
    count += 1;
    process.send({ kind: 'answer', id, answer: { holdfast_sent_bytes_total: new Map([['', count]]), holdfast_workers: new Map([['', 1]]) } });
  });
  process.send({ kind: 'ready' });
`;
const SILENT = `process.on('message', () => undefined); process.send({ kind: 'ready' });`;

const children: Subprocess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

function makeSummed() {
  const questions = new Questions<Subprocess>();
  return { questions, metrics: new WorkerMetrics(questions) };
}

type Summed = ReturnType<typeof makeSummed>;

async function startChild({ questions, metrics }: Summed, program: string): Promise<Subprocess> {
  const ready = Promise.withResolvers<void>();
  const child = Bun.spawn([process.execPath, '-e', program], {
    stdio: ['ignore', 'ignore', 'inherit'],
    ipc: (message) => (message.kind === 'answer' ? questions.take(message) : ready.resolve()),
    onExit: (ended) => {
      metrics.remove(ended);
      questions.drop(ended);
    },
  });
  children.push(child);
  await ready.promise;
  metrics.add(child);
  return child;
}

/** The workers' counts only: each sum also includes what earlier tests counted in this process. */
function countIn(sums: MetricsSnapshot, name: string): number {
  return (sums[name]?.get('') as number) - (METRICS.snapshot()[name]?.get('') as number);
}

/** Reads until so many workers are in the sums: one that is busy for a second is left out. */
async function readOf(workers: number, read: () => Promise<MetricsSnapshot>): Promise<MetricsSnapshot> {
  let sums: MetricsSnapshot = {};
  await until(async () => {
    sums = await read();
    return countIn(sums, 'holdfast_workers') === workers;
  });
  return sums;
}

test('metrics of workers are summed, and the death of one takes nothing back', async () => {
  const summed = makeSummed();
  const first = await startChild(summed, COUNTING);
  await startChild(summed, COUNTING);
  const read = () => summed.metrics.read();
  // Each reading adds one to the count of each: without the first one's, the sum would be lower for many more.
  for (let count = 0; count < 20; count += 1) await read();
  const before = countIn(await readOf(2, read), 'holdfast_sent_bytes_total');
  expect(before).toBeGreaterThanOrEqual(22);
  first.kill('SIGKILL');
  await first.exited;
  const after = countIn(await readOf(1, read), 'holdfast_sent_bytes_total');
  expect(after).toBeGreaterThanOrEqual(before);
});

test('a worker that does not answer delays no scrape, and concurrent scrapes share a reading', async () => {
  const summed = makeSummed();
  const { metrics } = summed;
  await startChild(summed, SILENT);
  await startChild(summed, COUNTING);
  await readOf(1, async () => {
    const [one, two] = await Promise.all([metrics.read(), metrics.read()]);
    expect(one).toBe(two);
    return one;
  });
});
