/** Prometheus' own judge of metrics and rules. tools/debian-programs.mjs installs it where it is missing. */
import { join } from 'node:path';
import type { CommandResult } from './command-result.ts';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

/** Seeks the program, and installs it at need. */
export async function ensurePromtool(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'promtool']);
}

export function runPromtool(args: readonly string[], input = ''): CommandResult {
  const done = Bun.spawnSync(['promtool', ...args], { stdin: Buffer.from(input) });
  return { exitCode: done.exitCode, stdout: done.stdout.toString(), stderr: done.stderr.toString() };
}
