/** `holdfast accept-restore`: a restored database goes on with the bucket that has seen more than it. */
import type { Command } from 'commander';
import { OPERATED_HELP_AFTER, type OperatorOptions, runOperation, withOperator } from '../operator-call.ts';
import { printJson, printLine } from '../terminal/output.ts';

const HELP_AFTER = `
After a database was restored from a backup, servers refuse to start on it, because it does not know what came later. This
command says that it goes on from here: upload URLs and cursors from before are refused, revisions of root refs go on above all
that clients have seen, and objects that the database does not know are deleted a week after a walk has found them.
It also lets a walk go on that stopped because the database knew too few of the objects.
${OPERATED_HELP_AFTER}`;

export function registerAcceptRestoreCommand(program: Command): void {
  const command = program
    .command('accept-restore')
    .description('go on with a database that was restored from a backup')
    .addHelpText('after', HELP_AFTER);
  withOperator(command).action(async (options: OperatorOptions) => {
    const result = await runOperation(options, 'acceptRestore', {}, 'run the same command again');
    if (options.json) printJson(result);
    else if (result.wasBehind) printLine('accepted: the database goes on from here; start the servers');
    else
      printLine(
        'accepted: the database was not behind; objects that it does not know get tombstones for 3 days',
      );
  });
}
