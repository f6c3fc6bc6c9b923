/** `holdfast console`: a new link that opens the console signed in. */
import type { Command } from 'commander';
import { type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { NOTHING_CHANGED } from '../terminal/interruption.ts';
import { printJson, printLine } from '../terminal/output.ts';

const HELP_AFTER = `
The link works once, within 15 minutes; the person who opens it may do everything that an operator may. The server needs
--operator-listen, or --dev. From another machine open a way to the address first: ssh -L 8421:127.0.0.1:8421 HOST`;

export function registerConsoleCommand(program: Command): void {
  const command = program
    .command('console')
    .description('print a link that opens the console of a running server, signed in')
    .addHelpText('after', HELP_AFTER);
  withOperator(command).action(printLink);
}

async function printLink(options: OperatorOptions): Promise<void> {
  const link = await runOperation(options, 'makeConsoleLink', {}, NOTHING_CHANGED);
  if (options.json) printJson(link);
  else printLine(link.url);
}
