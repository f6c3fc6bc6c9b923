/** The same fixed requests by wrk: an independent generator, and one that costs less per request than ours. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pinned } from '../machine.ts';
import { COUNTER_DIGITS, type LoadResult, type LoadSpec } from './spec.ts';

/** Reports as JSON on the last line; wrk's own text stays above it as the raw record. */
const LUA_TAIL = `
local next_request = 0
request = function()
  local r = requests[next_request % #requests + 1]
  next_request = next_request + 1
  if r[2] then return r[1] .. string.format("%0${COUNTER_DIGITS}d", next_request) .. r[2] end
  return r[1]
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"us":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
    '"p50":%d,"p90":%d,"p99":%d,"max":%d}\\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
`;

export async function runWrk(
  spec: LoadSpec,
  options: {
    readonly core: number | undefined;
    readonly folder: string;
    readonly record: (text: string) => void;
  },
): Promise<LoadResult> {
  if (spec.flow.kind !== 'fixed') throw new Error('wrk sends fixed requests only.');
  const table = spec.flow.requests.map(({ before, after }) => [
    before,
    ...(after === undefined ? [] : [after]),
  ]);
  const lua = table.map((parts) => `{${parts.map((part) => JSON.stringify(part)).join(',')}}`).join(',\n');
  const script = join(options.folder, 'requests.lua');
  writeFileSync(script, `local requests = {\n${lua}\n}\n${LUA_TAIL}`, 'latin1');
  const duration = `${Math.max(1, Math.round(spec.seconds))}s`;
  const command = [
    'wrk',
    '-t1',
    '--timeout',
    '60s', // a slow answer is a figure, not an error
    `-c${spec.connections}`,
    `-d${duration}`,
    '-s',
    script,
    `http://127.0.0.1:${spec.port}/`,
  ];
  const child = Bun.spawn(pinned(command, options.core), { stdout: 'pipe', stderr: 'pipe' });
  const output = await new Response(child.stdout).text();
  const problem = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`wrk failed: ${problem}${output}`);
  options.record(output);
  const line = JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const value = (name: string): number => line[name] ?? 0;
  const errors: Record<string, number> = {};
  for (const kind of ['connect', 'read', 'write', 'status', 'timeout'])
    if (value(kind) > 0) errors[kind] = value(kind);
  const cpu = child.resourceUsage()?.cpuTime.total ?? 0;
  return {
    done: value('requests'),
    elapsedMs: value('us') / 1000,
    bytes: value('bytes'),
    errors,
    latencyMs: {
      p50: value('p50') / 1000,
      p90: value('p90') / 1000,
      p99: value('p99') / 1000,
      max: value('max') / 1000,
    },
    loaderCpu: Number(cpu) / value('us'),
  };
}
