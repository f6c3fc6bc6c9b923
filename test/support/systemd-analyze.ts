/** systemd's own judge of units; no systemd has to run. tools/debian-programs.mjs installs it where it is missing. */
import { join } from 'node:path';
import type { CommandResult } from './command-result.ts';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

/** Seeks the program, and installs it at need. */
export async function ensureSystemdAnalyze(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'systemd']);
}

export function runSystemdAnalyze(args: readonly string[]): CommandResult {
  const done = Bun.spawnSync(['systemd-analyze', '--no-pager', ...args], { stdin: 'ignore' });
  return { exitCode: done.exitCode, stdout: done.stdout.toString(), stderr: done.stderr.toString() };
}
