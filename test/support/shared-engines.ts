/**
 * Run by tools/test.mjs as a process of its own: starts or builds what its arguments name (`postgres`, `ceph`, `holdfast`),
 * prints where each is as one line of JSON (environment variables of the test files), keeps them until its standard input
 * ends, and then ends and removes them. The input ends also when the process at the other end is killed, so nothing is left behind.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildExecutable, CAN_BUILD_EXECUTABLE, EXECUTABLE_NAME } from '../../tools/release/command-build.ts';
import { SHARED_CEPH_VARIABLE, startCeph } from './ceph-server.ts';
import { ownEngineFolder } from './engine-process.ts';
import { BUILT_HOLDFAST_VARIABLE, CHECKOUT_HOLDFAST } from './holdfast-command.ts';
import { SHARED_POSTGRES_VARIABLE, startPostgres } from './postgres-server.ts';
import { makeTempFolder } from './temp-folder.ts';

// Ctrl-C reaches the whole process group; the end of the input is what counts.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

const BUILT_FOLDER = 'executable';

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
  } else if (name === 'holdfast') {
    environment[BUILT_HOLDFAST_VARIABLE] = await buildHoldfast();
  } else {
    throw new Error(`nothing shared is called ${name}; postgres, ceph and holdfast are`);
  }
}

/** The absolute path of the executable; of the checkout's launcher on a platform that no executable is built for. */
async function buildHoldfast(): Promise<string> {
  if (!CAN_BUILD_EXECUTABLE) return CHECKOUT_HOLDFAST;
  const folder = makeTempFolder(BUILT_FOLDER);
  stops.push(async () => folder.remove());
  ownEngineFolder(folder.path, join(tmpdir(), `holdfast-${BUILT_FOLDER}-`));
  // The bundler's temporary file is for a moment in the working directory.
  process.chdir(folder.path);
  await buildExecutable(folder.path);
  return join(folder.path, EXECUTABLE_NAME);
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
