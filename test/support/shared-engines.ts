/**
 * Run by tools/test.mjs as a process of its own: starts the engines its arguments name (`postgres`, `ceph`), prints their
 * addresses as one line of JSON (environment variables of the test files), keeps them until its standard input ends, and
 * then ends them. The input ends also when whoever holds the other side is killed, so nothing is left behind.
 */
import { SHARED_CEPH_VARIABLE, startCeph } from './ceph-server.ts';
import { SHARED_POSTGRES_VARIABLE, startPostgres } from './postgres-server.ts';

// Ctrl-C reaches the whole process group; the end of the input is what counts.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

const wanted = process.argv.slice(2);
const environment: Record<string, string> = {};
const stops: (() => Promise<void>)[] = [];
let hasFailed = false;

async function start(name: string): Promise<void> {
  if (name === 'postgres') {
    const server = await startPostgres({ durable: false });
    stops.push(() => server.stop());
    environment[SHARED_POSTGRES_VARIABLE] = server.url;
  } else if (name === 'ceph') {
    const store = await startCeph();
    stops.push(() => store.close());
    environment[SHARED_CEPH_VARIABLE] = store.endpoint;
  } else {
    throw new Error(`no engine is called ${name}; postgres and ceph are`);
  }
}

const started = await Promise.allSettled(wanted.map(start));
for (const outcome of started) {
  if (outcome.status === 'fulfilled') continue;
  console.error(`holdfast: ${outcome.reason instanceof Error ? outcome.reason.message : outcome.reason}`);
  hasFailed = true;
}
if (!hasFailed) {
  console.log(JSON.stringify(environment));
  await Bun.stdin.stream().pipeTo(new WritableStream());
}
await Promise.all(stops.map((stop) => stop()));
process.exit(hasFailed ? 1 : 0);
