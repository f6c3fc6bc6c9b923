/** Mounts by a real kernel. tools/debian-programs.mjs installs what unmounts them. */
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { CHECKOUT_HOLDFAST } from './holdfast-command.ts';
import { ROOT } from './server-process.ts';

/** Only ends what hangs. */
const COMMAND_MS_MAX = 270_000;

/** Seeks the program, and installs it at need. False: this machine lets nobody mount, which is said. */
export async function ensureFuse(folder: string): Promise<boolean> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'fuse']);
  const failure = findFailure(folder);
  if (failure === undefined) return true;
  console.error(`nothing can be mounted here, so only the protocol of mounts is tested: ${failure}`);
  return false;
}

/** By other means than the product's. */
function findFailure(folder: string): string | undefined {
  try {
    closeSync(openSync('/dev/fuse', 'r+'));
  } catch (error) {
    return String(error);
  }
  if (process.getuid?.() !== 0) return undefined;
  mkdirSync(folder);
  const { exitCode, stderr } = Bun.spawnSync(['mount', '-t', 'tmpfs', 'none', folder], { stdin: 'ignore' });
  if (exitCode !== 0) return stderr.toString();
  Bun.spawnSync(['umount', folder]);
  return undefined;
}

export interface MountedFolder {
  readonly path: string;
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  /** what it says on stderr until it ends */
  readonly said: Promise<string>;
  /** Ends it in any state. */
  remove(): Promise<void>;
}

/** On the folder `path`. Resolves when it is mounted; throws what it says if it ends instead. */
export async function startMount(
  args: readonly string[],
  path: string,
  environment: Record<string, string>,
): Promise<MountedFolder> {
  const mount = Bun.spawn([CHECKOUT_HOLDFAST, 'mount', ...args, path], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const said = new Response(mount.stderr).text();
  let line = '';
  for await (const chunk of mount.stdout) {
    line += new TextDecoder().decode(chunk);
    if (line.includes('\n')) break;
  }
  if (line !== `holdfast mounted on ${path}\n`) throw new Error(`not mounted: ${line}${await said}`);
  return {
    path,
    process: mount,
    said,
    async remove() {
      mount.kill('SIGKILL');
      await mount.exited;
      await runProgram(['umount', '-l', path]);
    },
  };
}

/** A program that reads a mount may hang with it: it is never run in this process. */
export async function runProgram(
  command: readonly string[],
  environment: Record<string, string> = {},
): Promise<{ exitCode: number; output: string }> {
  const program = Bun.spawn([...command], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: COMMAND_MS_MAX,
    killSignal: 'SIGKILL',
    env: { ...process.env, LC_ALL: 'C', ...environment },
  });
  const [out, error] = await Promise.all([
    new Response(program.stdout).text(),
    new Response(program.stderr).text(),
  ]);
  return { exitCode: await program.exited, output: out + error };
}
