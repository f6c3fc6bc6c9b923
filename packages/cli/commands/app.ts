import type { Command } from 'commander';

export function registerAppCommand(program: Command): void {
  program.command('app').description('…');
}
