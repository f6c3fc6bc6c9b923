/** The machine of the numbers, and the cores that serve and that load. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';

export interface Cores {
  /** core for every server, ours and peers' */
  readonly server: number;
  /** core for load generators and this program */
  readonly load: number;
}

/** Two different cores, or undefined when this machine lets us use only one: then nothing is pinned. */
export function chooseCores(): Cores | undefined {
  const status = readFileSync('/proc/self/status', 'utf8');
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1] ?? '0';
  const allowed = list.split(',').flatMap((part) => {
    const [from = 0, to = from] = part.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });
  const [server, load] = allowed;
  return server === undefined || load === undefined ? undefined : { server, load };
}

/** Moves this process, all threads, to these cores; what it starts from now on begins there too. */
export function pinSelf(...cores: readonly number[]): void {
  pinProcess(process.pid, ...cores);
}

/** The same for another. */
export function pinProcess(pid: number, ...cores: readonly number[]): void {
  Bun.spawnSync(['taskset', '-acp', cores.join(','), String(pid)]);
}

export function pinned(command: readonly string[], core: number | undefined): string[] {
  return core === undefined ? [...command] : ['taskset', '-c', String(core), ...command];
}

export interface MachineFacts {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly bun: string;
  readonly fileSystem: string;
  /** median of 200 4 KiB write + fdatasync pairs on the data disk */
  readonly fsyncMs: number;
  /** 1-minute load average when the run began: other work on the machine shows here */
  readonly loadAverage: number;
}

export function describeMachine(dataFolder: string, fsyncMs: number): MachineFacts {
  const df = Bun.spawnSync(['df', '--output=fstype,source', dataFolder]).stdout.toString().trim().split('\n');
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    bun: Bun.version,
    fileSystem: df.at(-1)?.replace(/\s+/g, ' ') ?? 'unknown',
    fsyncMs,
    loadAverage: Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]),
  };
}
