/** The real `holdfast serve` as its own process, started on a free port over a data folder of the test. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CommandResult, resultOf } from './command-result.ts';
import { HOLDFAST } from './holdfast-command.ts';
import type { Issuer } from './issuer.ts';
import { readIfThere } from './read-if-there.ts';
import { until } from './until.ts';

export const ROOT = join(import.meta.dir, '..', '..');
/** Is not there, and cannot be made. */
const NO_FOLDER = '/proc/no-config';
/** These only end what hangs. */
const START_MS_MAX = 120_000;
const END_MS_MAX = 120_000;

export interface ServerOptions {
  readonly data: string;
  /** another holdfast than that of the checkout */
  readonly program?: string;
  /** the working directory; the checkout by default */
  readonly cwd?: string;
  readonly arguments?: readonly string[];
  /** a command that runs the server, such as `prlimit --nofile=64` */
  readonly wrapper?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** what the server can read there; none by default */
  readonly stdin?: string;
  /** called with everything logged so far whenever more has come, also before the server listens */
  readonly onLog?: (log: string) => void;
}

export interface ServerProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** everything logged so far */
  log(): string;
  /** everything on stdout so far */
  output(): string;
  isRunning(): boolean;
  /** sends the signal and waits for the end; resolves with the exit code, or the name of the signal that ended it */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | string>;
  /** waits for an end that comes by itself */
  ended(): Promise<number | string>;
}

export async function runHoldfast(
  args: readonly string[],
  options: { cwd?: string; environment?: Record<string, string> } = {},
): Promise<CommandResult> {
  const child = Bun.spawn([HOLDFAST, ...args], {
    cwd: options.cwd ?? ROOT,
    env: { ...cleanEnvironment(), ...options.environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  return resultOf(child);
}

/** Registers an App of `issuer` in the data folder, made if missing, whether a server runs on it or not; or in `metadataUrl`. */
export async function addApp(
  data: string,
  appId: string,
  issuer: Issuer,
  metadataUrl?: string,
): Promise<void> {
  const keySet = join(data, '..', `${appId}.jwks.json`);
  issuer.writeKeySet(keySet);
  if (metadataUrl === undefined) mkdirSync(data, { recursive: true });
  const place = metadataUrl === undefined ? ['--data', data] : ['--metadata', metadataUrl];
  const { exitCode, stderr } = await runHoldfast([
    ...['app', 'add', appId, '--issuer', issuer.issuer, '--audience', issuer.audience],
    ...['--jwks-file', keySet, ...place],
  ]);
  if (exitCode !== 0) throw new Error(`holdfast app add failed with ${exitCode}: ${stderr}`);
}

/** Rejects with what the process printed when it ends, or stays silent, before it listens. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const outcome = await tryStartServer(options);
  if ('url' in outcome) return outcome;
  throw new Error(`the server did not start (exit ${outcome.exitCode}): ${outcome.stderr}`);
}

/** The running server, or what it left when it ended before it listened. */
export async function tryStartServer(options: ServerOptions): Promise<ServerProcess | CommandResult> {
  const { arguments: given = [], wrapper = [], program = HOLDFAST } = options;
  // A flag that is given twice is wrong usage.
  const listen = given.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
  const command = [...wrapper, program, 'serve', ...listen, '--data', options.data, ...given];
  const child = Bun.spawn(command, {
    cwd: options.cwd ?? ROOT,
    env: { ...cleanEnvironment(), ...options.environment },
    stdin: options.stdin === undefined ? 'ignore' : Buffer.from(options.stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const stderr = collect(child.stderr, options.onLog);
  const stdout = collect(child.stdout);
  const deadline = Date.now() + START_MS_MAX;
  while (!stdout.text().includes('\n')) {
    if (child.exitCode !== null || child.signalCode !== null) {
      await Promise.all([stdout.done, stderr.done]);
      return { exitCode: child.exitCode ?? -1, stdout: stdout.text(), stderr: stderr.text() };
    }
    if (Date.now() > deadline) {
      child.kill('SIGKILL');
      throw new Error(`the server said nothing for ${START_MS_MAX} ms: ${stderr.text()}`);
    }
    await Bun.sleep(5);
  }
  const url = /^holdfast listening on (http:\/\/\S+)\n/.exec(stdout.text())?.[1];
  if (url === undefined) {
    child.kill('SIGKILL');
    throw new Error(`the first line on stdout is not the listening line: ${stdout.text()}`);
  }
  const ended = async (): Promise<number | string> => {
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS_MAX);
    await child.exited;
    clearTimeout(timer);
    return child.signalCode ?? child.exitCode ?? -1;
  };
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid,
    log: () => stderr.text(),
    output: () => stdout.text(),
    isRunning: () => child.exitCode === null && child.signalCode === null,
    ended,
    end: (signal) => {
      child.kill(signal);
      return ended();
    },
  };
}

function collect(
  stream: ReadableStream<Uint8Array>,
  onText: (text: string) => void = () => undefined,
): { text(): string; readonly done: Promise<void> } {
  const decoder = new TextDecoder();
  let text = '';
  const done = (async () => {
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      onText(text);
    }
  })();
  return { text: () => text, done };
}

/**
 * The first group of `pattern` in what the server printed, once it is there: a server has started when it says its address, and prints
 * the rest afterwards.
 */
export async function readPrinted(
  { output }: Pick<ServerProcess, 'output'>,
  pattern: RegExp,
): Promise<string> {
  await until(() => pattern.test(output()));
  return pattern.exec(output())?.[1] as string;
}

/**
 * The environment without settings of the developer's own that would steer the tool. Profiles have no place: `serve --dev` keeps one,
 * which commands of other tests would find.
 */
export function cleanEnvironment(): Record<string, string> {
  const isSetting = /^(?:HOLDFAST_|AWS_|OTEL_)/;
  const entries = Object.entries(process.env).filter(([name]) => !isSetting.test(name));
  return { ...(Object.fromEntries(entries) as Record<string, string>), XDG_CONFIG_HOME: NO_FOLDER };
}

/** The processes a server has started, their own children included. */
export function findDescendants(pid: number): number[] {
  const children: number[] = [];
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = readIfThere(`/proc/${entry}/stat`);
    const parent = stat === undefined ? undefined : /\) \S (\d+) /.exec(stat)?.[1];
    if (parent === String(pid)) children.push(Number(entry));
  }
  return children.flatMap((child) => [child, ...findDescendants(child)]);
}

/** Resident memory of a process, bytes. */
export function readResidentBytes(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kib === undefined) throw new Error(`process ${pid} has no VmRSS`);
  return Number(kib) * 1024;
}

/** Open file descriptors of a process. */
export function countDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
