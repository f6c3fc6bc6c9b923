import type { Command } from 'commander';

export function registerKeyCommand(program: Command): void {
  program.command('key').description('…');
}
