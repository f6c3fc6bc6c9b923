/** The notes of every row of requests per second. */
import type { LoadSample } from '../load/run-load.ts';
import { formatNumber, median } from '../stats.ts';

/** Above this share of its core the generator itself may be what is measured. */
const LOADER_CPU_MAX = 0.97;

export function rate(sample: LoadSample): number {
  return (sample.done * 1000) / sample.elapsedMs;
}

/** MiB of bodies per second */
export function mebibyteRate(sample: LoadSample): number {
  return (sample.bytes * 1000) / sample.elapsedMs / 2 ** 20;
}

/** CPU shares and tail of one side, medians over the rounds. */
export function describeLoad(label: string, samples: readonly LoadSample[]): string {
  const share = (pick: (sample: LoadSample) => number): string =>
    `${Math.round(median(samples.map(pick)) * 100)}%`;
  const latency = formatNumber(median(samples.map((sample) => sample.latencyMs.p99)));
  const loader = samples[0]?.loader ?? 'own';
  const cost = formatNumber(
    median(samples.map((sample) => (sample.serverCpu * sample.elapsedMs * 1000) / sample.done)),
  );
  const isBound = median(samples.map((sample) => sample.loaderCpu)) > LOADER_CPU_MAX;
  const warning = isBound ? '; THE LOADER USED ITS WHOLE CORE: the figure may be its limit' : '';
  return `${label}: server CPU ${share((s) => s.serverCpu)} (${cost} µs each), ${loader} loader CPU ${share((s) => s.loaderCpu)}, p99 ${latency} ms${warning}`;
}

export function describeLoads(samples: {
  readonly a: readonly LoadSample[];
  readonly b: readonly LoadSample[];
}): string[] {
  return [describeLoad('ours', samples.a), describeLoad('peer', samples.b)];
}
