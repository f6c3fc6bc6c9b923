/** strace, which stands beside a real process and writes down its system calls, or lets some fail. tools/debian-programs.mjs installs it. */
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

/** More than any one write: strace cuts off what is longer. */
const STRING_BYTES = 4 * 1024 * 1024;
/** All that changes files, and what is needed to follow descriptors and answers. */
const CALLS = [
  ...['open', 'openat', 'creat', 'close', 'dup', 'dup2', 'dup3', 'lseek'],
  ...['mkdir', 'mkdirat', 'rename', 'renameat', 'renameat2', 'link', 'linkat', 'symlink', 'symlinkat'],
  ...['unlink', 'unlinkat', 'rmdir', 'write', 'pwrite64', 'writev', 'pwritev', 'pwritev2'],
  ...['ftruncate', 'truncate', 'fallocate', 'fsync', 'fdatasync', 'copy_file_range'],
  ...['recvfrom', 'sendto', 'sendmsg', 'clone', 'clone3', 'fork', 'vfork', 'exit_group'],
];

/** Seeks the program, and installs it at need. False: this machine lets nobody trace, which is said. */
export async function ensureStrace(): Promise<boolean> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'strace']);
  const { exitCode, stderr } = Bun.spawnSync(['strace', '-D', '-o', '/dev/null', 'true'], {
    stdin: 'ignore',
  });
  if (exitCode !== 0) console.error(`strace may trace nothing here, so nothing is tested by it: ${stderr}`);
  return exitCode === 0;
}

/** Before a command, as `straceTo`: writes only what was injected, marked `(INJECTED)`. */
export function straceFaults(path: string, faults: readonly string[]): string[] {
  return ['strace', '-D', '-f', ...injecting(path, faults)];
}

/** The same for a process that runs already, until it ends. @throws Error where strace may not attach to it. */
export async function attachFaults(pid: number, path: string, faults: readonly string[]): Promise<void> {
  const child = Bun.spawn(['strace', '-f', ...injecting(path, faults), '-p', String(pid)], {
    ...{ stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' },
  });
  child.unref();
  const isAttached = Promise.withResolvers<boolean>();
  let said = '';
  const listen = async () => {
    // To the end: strace tells of threads too, and a pipe that nobody reads would end it.
    for await (const piece of child.stderr) {
      if (said.includes('\n')) continue;
      said += Buffer.from(piece).toString();
      if (said.includes('\n')) isAttached.resolve(/\battached\b/.test(said));
    }
    isAttached.resolve(false);
  };
  void listen();
  if (!(await isAttached.promise)) throw new Error(`strace may not attach to this process: ${said.trim()}`);
}

function injecting(path: string, faults: readonly string[]): string[] {
  const injected = faults.flatMap((fault) => ['-e', `inject=${fault}`]);
  const calls = new Set(faults.map((fault) => fault.split(':')[0]));
  return ['-s', '64', '-y', '-e', `trace=${[...calls].join(',')}`, ...injected, '-o', path];
}

/** Before a command, which keeps its own process id and end. `faults` are those of `inject=`. */
export function straceTo(path: string, faults: readonly string[] = []): string[] {
  const injected = faults.flatMap((fault) => ['-e', `inject=${fault}`]);
  const shown = ['-y', '-xx', '-s', String(STRING_BYTES), '-e', `trace=${CALLS.join(',')}`];
  return ['strace', '-D', '-f', ...shown, ...injected, '-o', path];
}
