import type { Command } from 'commander';

export function registerTokenCommand(program: Command): void {
  program.command('token').description('…');
}
