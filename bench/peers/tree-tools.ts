/** Debian's tools that people keep trees with, each in a store of its own on the same disk, fresh for every round. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import { type CommandOptions, runCommand } from '../trees/run-command.ts';
import type { TreeTool } from '../trees/tree-tool.ts';
import { findProgram } from './packages.ts';

export const TREE_TOOL_PACKAGES: readonly string[] = ['restic', 'borgbackup', 'rsync'];

/** Those that are installed, in the order they run. */
export function listTreePeers(bench: Bench): TreeTool[] {
  const makers: readonly [string, (program: string, folder: string) => TreeTool][] = [
    ['restic', createRestic],
    ['borg', createBorg],
    ['rsync', createRsync],
  ];
  return makers.flatMap(([binary, create]) => {
    const program = findProgram(binary);
    return program === undefined ? [] : [create(program, join(bench.folder, `peer-${binary}`))];
  });
}

/** Every run of a tool in a store that is made anew with `folder`. */
function storeIn(folder: string, init: () => Promise<unknown>): Pick<TreeTool, 'begin' | 'end'> {
  const drop = (): void => rmSync(folder, { recursive: true, force: true });
  return {
    async begin() {
      drop();
      mkdirSync(folder, { recursive: true });
      await init();
    },
    async end() {
      drop();
    },
  };
}

function createRestic(program: string, folder: string): TreeTool {
  const env = { RESTIC_PASSWORD: 'bench', RESTIC_REPOSITORY: join(folder, 'repo') };
  const common = ['--cache-dir', join(folder, 'cache'), '--quiet'];
  const run = (args: readonly string[]) => runCommand([program, ...args, ...common], { env });
  return {
    name: 'restic',
    note: 'restic: into a local repository without a server; its defaults: encrypted, compressed',
    ...storeIn(folder, () => run(['init'])),
    push: (input) => run(['backup', input]),
    pull: (target) => run(['restore', 'latest', '--target', target]),
    store: () => env.RESTIC_REPOSITORY,
  };
}

function createBorg(program: string, folder: string): TreeTool {
  const repo = join(folder, 'repo');
  const options: CommandOptions = {
    env: { BORG_BASE_DIR: join(folder, 'base'), BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK: 'yes' },
  };
  let count = 0;
  return {
    name: 'borg',
    note: 'borg: into a local repository without a server; encryption none, its default compression (lz4)',
    ...storeIn(folder, async () => {
      mkdirSync(join(folder, 'base'));
      await runCommand([program, 'init', '--encryption', 'none', repo], options);
    }),
    push: (input) => runCommand([program, 'create', `${repo}::run-${++count}`, input], options),
    async pull(target) {
      mkdirSync(target);
      return runCommand([program, 'extract', `${repo}::run-${count}`], { ...options, cwd: target });
    },
    store: () => repo,
  };
}

function createRsync(program: string, folder: string): TreeTool {
  let count = 0;
  let copy = '';
  return {
    name: 'rsync',
    note: 'rsync -a: a plain copy to another folder, the floor: no hashes, no chunks, no fsync, no history; whole files, as it does locally',
    async begin() {
      copy = join(folder, `copy-${++count}`);
      mkdirSync(copy, { recursive: true });
    },
    // Files of this number are removed when the bench ends: see pulledFolder.
    end: async () => undefined,
    push: (input) => runCommand([program, '-a', `${input}/`, `${copy}/`]),
    pull: (target) => runCommand([program, '-a', `${copy}/`, `${target}/`]),
    store: () => copy,
  };
}
