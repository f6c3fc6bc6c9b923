/** The load generator: a process of its own on the load core. Closed loop, one request at a time per connection. */
import { quantile } from '../stats.ts';
import { createFlow } from './flows.ts';
import { HttpConnection } from './http-connection.ts';
import type { LoadResult, LoadSpec } from './spec.ts';

export async function runLoader(spec: LoadSpec): Promise<LoadResult> {
  const flow = createFlow(spec);
  const connections = await Promise.all(
    Array.from({ length: spec.connections }, () => HttpConnection.open(spec.port)),
  );
  const latencies: number[] = [];
  const errors: Record<string, number> = {};
  const stepsMax = spec.stepsMax ?? Number.POSITIVE_INFINITY;
  let done = 0;
  let bytes = 0;
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = flow.runsOnce ? startedAt : startedAt + spec.seconds * 1000;

  const drive = async (connection: HttpConnection): Promise<void> => {
    try {
      let now = performance.now();
      do {
        const received = await flow.step(connection); // apart: `+=` around an await would lose what others added
        bytes += received;
        const after = performance.now();
        latencies.push(after - now);
        done += 1;
        now = after;
      } while (now < endsAt && done < stepsMax);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      errors[message] = (errors[message] ?? 0) + 1;
    }
  };
  await Promise.all(connections.map(drive));

  const elapsedMs = performance.now() - startedAt;
  const cpu = process.cpuUsage(cpuBefore);
  for (const connection of connections) connection.close();
  flow.close?.();
  const known = latencies.length > 0 ? latencies : [0];
  return {
    done,
    elapsedMs,
    bytes,
    errors,
    latencyMs: {
      p50: quantile(known, 0.5),
      p90: quantile(known, 0.9),
      p99: quantile(known, 0.99),
      max: quantile(known, 1),
    },
    loaderCpu: (cpu.user + cpu.system) / 1000 / elapsedMs,
    ...(flow.togetherAtHalf === undefined ? {} : { togetherAtHalf: flow.togetherAtHalf() }),
  };
}
