/** Real commands and servers under strace, one after another on one folder, and what they did to it. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HOLDFAST } from '../../test/support/holdfast-command.ts';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import {
  cleanEnvironment,
  ROOT,
  type ServerProcess,
  startServer,
} from '../../test/support/server-process.ts';
import { straceTo } from '../../test/support/strace.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { until } from '../../test/support/until.ts';
import { DiskSteps, type Step } from './disk-steps.ts';
import { compareFolders, Moment } from './power-loss.ts';
import { readTrace } from './trace.ts';

const SHIFTED_CLOCK = join(ROOT, 'test', 'support', 'shifted-clock.ts');

export interface TracedCommand {
  readonly exitCode: number;
  readonly stderr: string;
}

export class TracedRun {
  readonly #folder = makeTempFolder('power-loss', { fast: true });
  /** All that counts lies below it. It stands before the first command. */
  readonly root = join(this.#folder.path, 'root');
  #disk: DiskSteps | undefined;
  #next = 0;
  #traces = 0;
  #answers: ReadonlyMap<string, number> | undefined;

  constructor() {
    mkdirSync(this.root);
  }

  /** a folder beside it, for what does not count */
  beside(name: string): string {
    return join(this.#folder.path, name);
  }

  /** What stands below the root now is durable. */
  get disk(): DiskSteps {
    this.#disk ??= new DiskSteps(this.root);
    return this.#disk;
  }

  /** the number of the next line of a trace */
  get now(): number {
    return this.#next;
  }

  async run(
    args: readonly string[],
    {
      faults = [],
      environment = {},
    }: { faults?: readonly string[]; environment?: Readonly<Record<string, string>> } = {},
  ): Promise<TracedCommand> {
    const trace = this.#beginTrace();
    const child = Bun.spawn([...straceTo(trace, faults), HOLDFAST, ...args], {
      ...{ cwd: ROOT, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
      env: { ...cleanEnvironment(), ...environment },
    });
    // A server that listens has met none of its faults.
    for await (const _ of child.stdout) if (args[0] === 'serve') child.kill('SIGKILL');
    const stderr = await new Response(child.stderr).text();
    const exitCode = await child.exited;
    await this.#endTrace(trace, child.pid);
    return { exitCode, stderr };
  }

  /** Must succeed. Returns the line at which its end says so. */
  async runWell(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<number> {
    const { exitCode, stderr } = await this.run(args, { environment });
    if (exitCode !== 0) throw new Error(`holdfast ${args.join(' ')}: ${stderr}`);
    return this.#lastExit();
  }

  #lastExit(): number {
    return this.disk.steps.findLast(({ kind }) => kind === 'exit')?.start ?? 0;
  }

  /** Ended by SIGKILL at one of its first steps that make something. One that has so few of them ends well: then as `runWell`. */
  async runKilled(
    args: readonly string[],
    random: SeededRandom,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<number | undefined> {
    const call = ['fsync', 'mkdir', 'rename', 'unlink', 'pwrite64', 'write'][random.below(6)];
    const faults = [`${call}:signal=SIGKILL:when=${1 + random.below(8)}`];
    const { exitCode } = await this.run(args, { faults, environment });
    return exitCode === 0 ? this.#lastExit() : undefined;
  }

  /** To be ended by `endServer`. */
  async serve(data: string, offsetMs: number, given: readonly string[] = []): Promise<TracedServer> {
    const trace = this.#beginTrace();
    const server = await startServer({
      data,
      arguments: given,
      wrapper: straceTo(trace),
      environment: {
        BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
        HOLDFAST_TEST_CLOCK_OFFSET_MS: String(offsetMs),
      },
    });
    return { server, trace };
  }

  async endServer({ server, trace }: TracedServer, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await server.end(signal);
    await this.#endTrace(trace, server.pid);
  }

  /** The line at which the answer to this request left. */
  lineOf(requestId: string): number {
    this.#answers ??= readAnswers(this.disk.steps);
    const line = this.#answers.get(requestId);
    if (line === undefined) throw new Error(`the trace has no answer ${requestId}`);
    return line;
  }

  /** @throws Error if the steps do not make what the folder holds: then the trace was misread */
  assertFollowed(): void {
    const made = this.beside('followed');
    const end = new Moment(this.disk.steps, Number.MAX_SAFE_INTEGER, 'strict');
    end.make(this.disk, made, { writes: 'all', names: 'all' }, makeRandom(1));
    const differences = compareFolders(this.root, made);
    if (differences.length > 0) throw new Error(`the trace was misread: ${differences.join(', ')}`);
  }

  remove(): void {
    this.#folder.remove();
  }

  #beginTrace(): string {
    // The folder is read before anything changes it.
    void this.disk;
    this.#traces += 1;
    return this.beside(`trace-${this.#traces}`);
  }

  /** strace writes its last lines after the command has ended. */
  async #endTrace(trace: string, pid: number): Promise<void> {
    const ended = new RegExp(`^${pid} +\\+\\+\\+ `, 'm');
    await until(() => existsSync(trace) && ended.test(readFileSync(trace, 'latin1').slice(-500)));
    const { calls, next } = readTrace(trace, this.#next);
    this.disk.add(calls);
    this.#next = next;
    this.#answers = undefined;
  }
}

export interface TracedServer {
  readonly server: ServerProcess;
  readonly trace: string;
}

const readAnswers = (steps: readonly Step[]): Map<string, number> =>
  new Map(steps.flatMap((step) => (step.kind === 'answer' ? [[step.id, step.start] as const] : [])));
