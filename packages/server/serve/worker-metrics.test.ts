import { afterAll, expect, test } from 'bun:test';
import type { Subprocess } from 'bun';
import { METRICS } from '../metrics/server-metrics.ts';
import { WorkerMetrics } from './worker-metrics.ts';

/** A process that answers with one more request each time it is asked, until it is killed. */
const COUNTING = `
  let count = 0;
  process.on('message', () => {
    count += 1;
    process.send({ kind: 'metrics', snapshot: { holdfast_sent_bytes_total: new Map([['', count]]), holdfast_workers: new Map([['', 1]]) } });
  });
  process.send({ kind: 'ready' });
`;
const SILENT = `process.on('message', () => undefined); process.send({ kind: 'ready' });`;

const children: Subprocess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

async function startChild(metrics: WorkerMetrics, program: string): Promise<Subprocess> {
  const ready = Promise.withResolvers<void>();
  const child = Bun.spawn([process.execPath, '-e', program], {
    stdio: ['ignore', 'ignore', 'inherit'],
    ipc: (message, from) =>
      message.kind === 'metrics' ? metrics.note(from, message.snapshot) : ready.resolve(),
    onExit: (ended) => metrics.remove(ended),
  });
  children.push(child);
  await ready.promise;
  metrics.add(child);
  return child;
}

/** Each sum also holds what earlier tests counted in this process. */
function ownCount(name: string): number {
  return METRICS.snapshot()[name]?.get('') as number;
}

test('metrics of workers are summed, and the death of one takes nothing back', async () => {
  const metrics = new WorkerMetrics();
  const first = await startChild(metrics, COUNTING);
  await startChild(metrics, COUNTING);
  const before = await metrics.read();
  expect(before.holdfast_sent_bytes_total).toEqual(
    new Map([['', ownCount('holdfast_sent_bytes_total') + 2]]),
  );
  expect(before.holdfast_workers).toEqual(new Map([['', ownCount('holdfast_workers') + 2]]));
  first.kill('SIGKILL');
  await first.exited;
  const after = await metrics.read();
  expect(after.holdfast_workers).toEqual(new Map([['', ownCount('holdfast_workers') + 1]]));
  expect(after.holdfast_sent_bytes_total).toEqual(new Map([['', ownCount('holdfast_sent_bytes_total') + 3]]));
});

test('a worker that does not answer delays no scrape, and concurrent scrapes share a reading', async () => {
  const metrics = new WorkerMetrics();
  await startChild(metrics, SILENT);
  await startChild(metrics, COUNTING);
  const [one, two] = await Promise.all([metrics.read(), metrics.read()]);
  expect(one).toBe(two);
  expect(one.holdfast_workers).toEqual(new Map([['', ownCount('holdfast_workers') + 1]]));
});
