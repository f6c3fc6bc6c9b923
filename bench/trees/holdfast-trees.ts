/** Our own push and pull: the executable of a release, as a user runs it, against our server with its defaults, over loopback. */
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildExecutable, CAN_BUILD_EXECUTABLE, EXECUTABLE_NAME } from '../../tools/release/command-build.ts';
import type { Bench } from '../bench.ts';
import { APP, cliCommand, type Holdfast, ROOT, startHoldfast } from '../holdfast.ts';
import { peakOfTree, runCommand } from './run-command.ts';
import type { ToolRun, TreeTool } from './tree-tool.ts';

/** The last line of `push --json` and `pull --json` on stderr. */
interface DoneEvent {
  readonly type: 'done';
  readonly counters: { readonly requests: number; readonly transferredNodes: number };
  readonly result?: string;
}

export function createHoldfastTool(
  bench: Bench,
  start: (program: string | undefined) => Promise<Holdfast> = (program) =>
    startHoldfast(bench, { name: 'trees', program }),
): TreeTool {
  const cache = join(bench.folder, 'push-cache');
  let server: Holdfast | undefined;
  let program: string | undefined;
  let root = '';
  let count = 0;

  async function run(args: readonly string[]): Promise<ToolRun & { result: string | undefined }> {
    if (server === undefined) throw new Error('The server of the tree rows does not run.');
    const before = server.process.cpuMs();
    const env = {
      HOLDFAST_URL: `http://127.0.0.1:${server.port}`,
      HOLDFAST_APP: APP,
      HOLDFAST_SPACE: 'bench',
      HOLDFAST_TOKEN: server.token,
    };
    const profile = profileFlags(bench, `${args[0]}-${++count}`);
    const ours = program === undefined ? cliCommand(args, profile) : [program, ...args];
    const { stdout: _, stderr, ...spent } = await runCommand([...ours, '--json'], { env });
    const { counters, result } = parseDone(stderr);
    return {
      ...spent,
      serverCpuMs: server.process.cpuMs() - before,
      serverPeakMiB: peakOfTree(server.process.pid),
      requests: counters.requests,
      nodes: counters.transferredNodes,
      result,
    };
  }

  return {
    name: 'holdfast',
    note: 'holdfast: through HTTP into its server, which fsyncs every pack; the server checks every hash again; compression where it saves a tenth, no encryption',
    async begin() {
      rmSync(cache, { recursive: true, force: true });
      mkdirSync(cache, { recursive: true });
      program = await buildProgram(bench);
      server = await start(program);
    },
    async push(input) {
      const { result, ...spent } = await run(['push', input, '--cache', cache]);
      root = result ?? '';
      return spent;
    },
    async pull(target) {
      const { result: _, ...spent } = await run(['pull', root, target]);
      return spent;
    },
    store: () => server?.dataFolder ?? '',
    async end() {
      await server?.close();
      server = undefined;
    },
  };
}

/** Undefined where the sources run: for a profile, in a smoke run, and on a machine that the executable is not made for. */
async function buildProgram(bench: Bench): Promise<string | undefined> {
  if (bench.quick || bench.profileFolder !== undefined || !CAN_BUILD_EXECUTABLE) return undefined;
  const program = join(bench.folder, EXECUTABLE_NAME);
  if (existsSync(program)) return program;
  const folder = process.cwd();
  // The bundler writes paths from the working directory into what it makes.
  process.chdir(ROOT);
  await buildExecutable(bench.folder).finally(() => process.chdir(folder));
  return program;
}

function profileFlags(bench: Bench, name: string): string[] {
  if (bench.profileFolder === undefined) return [];
  return ['--cpu-prof', '--cpu-prof-dir', bench.profileFolder, '--cpu-prof-name', `${name}.cpuprofile`];
}

function parseDone(stderr: string): DoneEvent {
  const event = JSON.parse(stderr.trim().split('\n').at(-1) ?? '{}') as Partial<DoneEvent>;
  if (event.type !== 'done' || event.counters === undefined) {
    throw new Error(`The command did not say that it is done; it ended with ${stderr.trim().slice(-300)}`);
  }
  return event as DoneEvent;
}
