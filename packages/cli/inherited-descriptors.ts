/**
 * Descriptors that this process shares with others: its standard streams, and what a shell opened for it (`--token-file <(…)`). They
 * stay as they were given. The runtime makes a pipe or terminal that it writes to non-blocking, for every process that shares
 * it, and closes all other descriptors when the program is replaced.
 */
import { ptr } from 'bun:ffi';
import { constants, fstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isatty } from 'node:tty';
import { seekSystemFunctions } from '@holdfast/files/system-library';

const STANDARD_STREAMS = [0, 1, 2] as const;
/** Values of the system's headers, the same on every Linux. */
const LINUX = { F_SETFD: 2, F_GETFL: 3, F_SETFL: 4, O_ACCMODE: 0o3, O_CLOEXEC: 0o2000000 } as const;
/** Descriptors that the runtime opens for itself. All others that are open when the process starts were inherited. */
const OWN_KIND = 'anon_inode:';

interface System {
  fcntl(descriptor: number, command: number, value: number): number;
  open(path: Uint8Array, flags: number): number;
  dup2(from: number, to: number): number;
  close(descriptor: number): number;
  execve(path: Uint8Array, args: BigUint64Array, environment: BigUint64Array): number;
}

/** Undefined where the system has no such library: there the runtime's ways must do. */
const openSystem = seekSystemFunctions<System>({
  fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
  open: { args: ['ptr', 'i32'], returns: 'i32' },
  dup2: { args: ['i32', 'i32'], returns: 'i32' },
  close: { args: ['i32'], returns: 'i32' },
  execve: { args: ['ptr', 'ptr', 'ptr'], returns: 'i32' },
});

function toCString(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

/** A C array of strings. `texts` must stay reachable as long as the array is used. */
function toCArray(texts: readonly Buffer[]): BigUint64Array {
  const pointers = new BigUint64Array(texts.length + 1);
  for (const [index, text] of texts.entries()) pointers[index] = BigInt(ptr(text));
  return pointers;
}

/** Replaces this process by `program`, with its descriptors. Returns only if the system cannot: what is missing then is speed alone. */
export function replaceProcess(
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): void {
  const system = openSystem();
  if (system === undefined) return;
  for (const descriptor of findInheritedDescriptors()) system.fcntl(descriptor, LINUX.F_SETFD, 0);
  const argTexts = args.map(toCString);
  const variables = Object.entries(environment).filter(([, value]) => value !== undefined);
  const variableTexts = variables.map(([name, value]) => toCString(`${name}=${value}`));
  system.execve(toCString(program), toCArray(argTexts), toCArray(variableTexts));
}

function findInheritedDescriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd')
      .map(Number)
      .filter((descriptor) => descriptor > 2 && !readLink(descriptor).startsWith(OWN_KIND));
  } catch {
    // Without /proc nothing tells them apart.
    return [];
  }
}

/** A descriptor that is closed by now was the listing's own. */
function readLink(descriptor: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return OWN_KIND;
  }
}

/**
 * Opens pipes and terminals among the standard streams anew, so that the runtime changes a description of our own. One that
 * cannot be opened anew (a socket, a pipe of another user) gets its flags back when the process ends. Call it before the
 * streams are used.
 * @returns gives those flags back; for an end that runs no handler of `exit`
 */
export function ownStandardStreams(): () => void {
  const shared = STANDARD_STREAMS.filter(isPipeOrTerminal);
  const system = shared.length > 0 ? openSystem() : undefined;
  if (system === undefined) return () => undefined;
  const given = shared
    .filter((descriptor) => !openAnew(system, descriptor))
    .map((descriptor) => [descriptor, system.fcntl(descriptor, LINUX.F_GETFL, 0)] as const);
  const giveBack = (): void => {
    for (const [descriptor, flags] of given) if (flags !== -1) system.fcntl(descriptor, LINUX.F_SETFL, flags);
  };
  if (given.length > 0) process.on('exit', giveBack);
  return giveBack;
}

function isPipeOrTerminal(descriptor: number): boolean {
  try {
    const stats = fstatSync(descriptor);
    return stats.isFIFO() || stats.isSocket() || isatty(descriptor);
  } catch {
    // The process was started without this stream.
    return false;
  }
}

function openAnew(system: System, descriptor: number): boolean {
  const flags = system.fcntl(descriptor, LINUX.F_GETFL, 0);
  if (flags === -1) return false;
  // A pipe whose other end is gone would be waited for.
  const wanted = (flags & LINUX.O_ACCMODE) | constants.O_NOCTTY | constants.O_NONBLOCK | LINUX.O_CLOEXEC;
  const own = system.open(toCString(`/proc/self/fd/${descriptor}`), wanted);
  if (own === -1) return false;
  system.fcntl(own, LINUX.F_SETFL, flags);
  const isReplaced = system.dup2(own, descriptor) === descriptor;
  system.close(own);
  return isReplaced;
}

/** Whether this process was started without a stdout (`>&-`). The runtime then opens the null device in its place. */
export function isStdoutMissing(): boolean {
  try {
    const flags = /^flags:\s*(\d+)$/m.exec(readFileSync('/proc/self/fdinfo/1', 'latin1'))?.[1] ?? '0';
    const access = Number.parseInt(flags, 8) & LINUX.O_ACCMODE;
    return access === constants.O_RDWR && readlinkSync('/proc/self/fd/1') === '/dev/null';
  } catch {
    // Without /proc it is not known to be.
    return false;
  }
}
